#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <type_traits>

#include <fmt/format.h>

#include <lockstep/worker/compile/run/attention.h>
#include <lockstep/worker/compile/run/matrix_product.h>
#include <lockstep/worker/compile/run/row_exponentials.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

using I = std::int64_t;

// Scores are made in tiles of so many queries and keys, which stay in the cache of a core. Where
// tiles are cut depends on the sizes alone, and so do all bits.
constexpr I kTileQueries = 64, kTileKeys = 256;
static_assert(kTileKeys % kExpLanes == 0);

/// A matrix of rows that are `stride` elements apart.
template <class T>
struct Rows {
  T* data;
  I stride;
  [[nodiscard]] Rows from(I row) const { return {data + row * stride, stride}; }
  [[nodiscard]] StoredMatrix<std::remove_const_t<T>> matrix() const { return {data, stride}; }
  [[nodiscard]] StoredMatrix<std::remove_const_t<T>> transposed() const {
    return {data, stride, true};
  }
};

/// Queries or keys that are looked at together.
struct Range {
  I first = 0, count = 0;
  [[nodiscard]] I end() const { return first + count; }
};
Range tile(I number, I size, I all) { return {number * size, std::min(size, all - number * size)}; }
I tiles(I all, I size) { return (all + size - 1) / size; }

/// One attention; operands as in the node.
template <class T>
class Attention {
 public:
  Attention(Threads& threads, const AttentionSizes& sizes, std::span<const void* const> operands,
            void* out)
      : threads_(threads), sizes_(sizes), out_(static_cast<T*>(out)) {
    const auto at = [&](std::size_t k) { return static_cast<const T*>(operands[k]); };
    query_ = at(0), key_ = at(1), value_ = at(2);
    if (sizes.gradient) result_ = at(3), result_gradient_ = at(4);
    if (sizes.mask != AttentionSizes::Mask::None) mask_ = operands.back();
    const auto [queries, keys, values] = sizes.parts();
    key_gradient_ = out_ + queries, value_gradient_ = key_gradient_ + keys;
  }

  /// Dao et al. 2022 (FlashAttention) and 2023 (FlashAttention-2): tile by tile, each row with its
  /// greatest score so far, to which its sums are scaled.
  void forward() {
    const I blocks = tiles(sizes_.queries, kTileQueries);
    share(sizes_.heads() * blocks, 4, [&](Scratch& scratch, I item) {
      forward(scratch, item / blocks, tile(item % blocks, kTileQueries, sizes_.queries));
    });
  }

  /// Dao et al. 2022: scores are made again, tile by tile. A task does all heads that share their
  /// keys; if these are too few for the threads, tasks make gradients of a block of queries or of a
  /// tile of keys, and each score is made twice. The bits are the same: additions have one order.
  void backward() {
    const I threads = threads_.count(), batch = sizes_.batch;
    const I blocks = tiles(sizes_.queries, kTileQueries), columns = tiles(sizes_.keys, kTileKeys);
    if (5 * ((batch + threads - 1) / threads) * threads <= 7 * batch) {
      share(batch, 10, [&](Scratch& scratch, I item) {
        start_keys(item, {0, sizes_.keys});
        for (I group = 0; group < sizes_.groups; ++group)
          for (I block = 0; block < blocks; ++block)
            backward(scratch, item * sizes_.groups + group,
                     tile(block, kTileQueries, sizes_.queries), {0, columns}, true, true);
      });
      return;
    }
    const I rows = sizes_.heads() * blocks;
    share(rows + batch * columns, 14, [&](Scratch& scratch, I item) {
      if (item < rows)
        return backward(scratch, item / blocks, tile(item % blocks, kTileQueries, sizes_.queries),
                        {0, columns}, true, false);
      const I at = (item - rows) / columns, column = (item - rows) % columns;
      start_keys(at, tile(column, kTileKeys, sizes_.keys));
      for (I group = 0; group < sizes_.groups; ++group)
        for (I block = 0; block < blocks; ++block)
          backward(scratch, at * sizes_.groups + group, tile(block, kTileQueries, sizes_.queries),
                   {column, 1}, false, true);
    });
  }

 private:
  /// Memory of one task. Rows of scores are kTileKeys elements apart; those behind the last key are
  /// minus infinity, or 0 as parts.
  struct Scratch {
    explicit Scratch(const AttentionSizes& sizes)
        : scores(floats(kTileQueries * kTileKeys)),
          slopes(floats(sizes.gradient ? kTileQueries * kTileKeys : 0)),
          sums(floats(kTileQueries * (sizes.gradient ? sizes.width : sizes.value_width))) {}
    static std::unique_ptr<T[]> floats(I count) {
      return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(count));
    }
    std::unique_ptr<T[]> scores, slopes;
    std::unique_ptr<T[]> sums;  // results of the rows, or gradients of the queries
    std::array<T, kTileQueries> best{}, total{};
  };

  /// Calls act(scratch, item) for each item, `cost`: operations per score and element of a row.
  template <class Act>
  void share(I items, I cost, const Act& act) {
    const double work = static_cast<double>(sizes_.heads()) * static_cast<double>(sizes_.queries) *
                        static_cast<double>(sizes_.keys) * static_cast<double>(cost);
    const int pieces = threads_.pieces_of(static_cast<I>(std::min(work, 0x1p60)), items);
    threads_.run(pieces, [&](I piece, int) {
      Scratch scratch(sizes_);
      for (I item = piece * items / pieces; item < (piece + 1) * items / pieces; ++item)
        act(scratch, item);
    });
  }

  [[nodiscard]] Rows<const T> queries(I head, Range range) const {
    return {query_ + (head * sizes_.queries + range.first) * sizes_.width, sizes_.width};
  }
  [[nodiscard]] Rows<const T> keys(I batch, Range range) const {
    return {key_ + (batch * sizes_.keys + range.first) * sizes_.width, sizes_.width};
  }
  [[nodiscard]] Rows<const T> values(I batch, Range range) const {
    return {value_ + (batch * sizes_.keys + range.first) * sizes_.value_width, sizes_.value_width};
  }
  /// Rows of the result, which have the logarithm as one more element.
  template <class U>
  [[nodiscard]] Rows<U> results(U* of, I head, Range range) const {
    const I stride = sizes_.value_width + 1;
    return {of + (head * sizes_.queries + range.first) * stride, stride};
  }

  /// True if no query of `rows` sees a key of `columns`, or of later ones, because of their order.
  [[nodiscard]] bool before(Range rows, Range columns) const {
    return sizes_.causal && columns.first >= rows.end();
  }

  /// Makes the scores of a tile.
  void score(Scratch& scratch, I head, Range rows, Range columns) const {
    const Rows<T> scores{scratch.scores.get(), kTileKeys};
    multiply<T>({queries(head, rows).matrix(), keys(head / sizes_.groups, columns).transposed(),
                 scores.data, scores.stride, rows.count, sizes_.width, columns.count});
    constexpr T kUnseen = -std::numeric_limits<T>::infinity();
    for (I i = 0; i < rows.count; ++i) {
      T* row = scores.from(i).data;
      mask(row, head, rows.first + i, columns);
      const I seen = sizes_.causal
                         ? std::clamp<I>(rows.first + i + 1 - columns.first, 0, columns.count)
                         : columns.count;
      std::fill(row + seen, row + padded(columns.count), kUnseen);
    }
  }

  [[nodiscard]] static I padded(I count) { return (count + kExpLanes - 1) / kExpLanes * kExpLanes; }

  void mask(T* row, I head, I query, Range columns) const {
    if (sizes_.mask == AttentionSizes::Mask::None) return;
    const I first =
        sizes_.mask_of(head) + query * sizes_.mask_query + columns.first * sizes_.mask_key;
    if (sizes_.mask == AttentionSizes::Mask::Seen)
      each(row, static_cast<const bool*>(mask_) + first, columns.count,
           [](T x, bool seen) { return seen ? x : -std::numeric_limits<T>::infinity(); });
    else
      each(row, static_cast<const T*>(mask_) + first, columns.count,
           [](T x, T more) { return x + more; });
  }
  /// row[j] = f(row[j], mask of j)
  template <class M, class F>
  void each(T* row, const M* mask, I count, F f) const {
    if (sizes_.mask_key == 0)
      for (I j = 0; j < count; ++j) row[j] = f(row[j], mask[0]);
    else
      for (I j = 0; j < count; ++j) row[j] = f(row[j], mask[j]);
  }

  void forward(Scratch& scratch, I head, Range rows) const {
    constexpr T kUnseen = -std::numeric_limits<T>::infinity();
    const I width = sizes_.value_width;
    const Rows<T> sums{scratch.sums.get(), width}, scores{scratch.scores.get(), kTileKeys};
    std::fill_n(sums.data, rows.count * width, T{0});
    std::fill_n(scratch.best.begin(), rows.count, kUnseen);
    std::fill_n(scratch.total.begin(), rows.count, T{0});
    for (I column = 0; column < tiles(sizes_.keys, kTileKeys); ++column) {
      const Range columns = tile(column, kTileKeys, sizes_.keys);
      if (before(rows, columns)) break;
      score(scratch, head, rows, columns);
      for (I i = 0; i < rows.count; ++i) {
        T& best = scratch.best[static_cast<std::size_t>(i)];
        T& total = scratch.total[static_cast<std::size_t>(i)];
        T* row = scores.from(i).data;
        const T greatest = std::max(best, greatest_of(row, padded(columns.count)));
        const T shift = greatest == kUnseen ? T{0} : greatest;
        T scale = best - shift;
        if (scale != 0) {
          exponentials(std::span(&scale, 1));
          total *= scale;
          T* sum = sums.from(i).data;
          for (I j = 0; j < width; ++j) sum[j] *= scale;
        }
        total += shifted_exponentials(row, padded(columns.count), shift);
        best = greatest;
      }
      multiply<T>({scores.matrix(), values(head / sizes_.groups, columns).matrix(), sums.data,
                   sums.stride, rows.count, columns.count, width, true});
    }
    const Rows<T> out = results(out_, head, rows);
    for (I i = 0; i < rows.count; ++i) {
      const T total = scratch.total[static_cast<std::size_t>(i)];
      const T* sum = sums.from(i).data;
      T* row = out.from(i).data;
      for (I j = 0; j < width; ++j) row[j] = total == 0 ? T{0} : sum[j] / total;
      row[width] =
          total == 0 ? -kUnseen : scratch.best[static_cast<std::size_t>(i)] + std::log(total);
    }
  }

  /// Begins the gradients of keys and values.
  void start_keys(I batch, Range range) {
    const I first = batch * sizes_.keys + range.first;
    std::fill_n(key_gradient_ + first * sizes_.width, range.count * sizes_.width, T{0});
    std::fill_n(value_gradient_ + first * sizes_.value_width, range.count * sizes_.value_width,
                T{0});
  }

  /// The part in the gradients of a block of queries and some tiles of keys. If `of_queries`, the
  /// tiles are all tiles, and the gradients of the queries are stored.
  void backward(Scratch& scratch, I head, Range rows, Range of_columns, bool of_queries,
                bool of_keys) {
    const I batch = head / sizes_.groups;
    const Rows<T> scores{scratch.scores.get(), kTileKeys}, slopes{scratch.slopes.get(), kTileKeys},
        sums{out_ + (head * sizes_.queries + rows.first) * sizes_.width, sizes_.width};
    const Rows<const T> made = results(result_, head, rows),
                        gradient = results(result_gradient_, head, rows);
    // A row's gradient by the logarithm less its gradient by the result, times the result.
    auto& offset = scratch.total;
    for (I i = 0; i < rows.count; ++i)
      offset[static_cast<std::size_t>(i)] =
          gradient.from(i).data[sizes_.value_width] -
          product_of_rows(made.from(i).data, gradient.from(i).data, sizes_.value_width);
    if (of_queries) std::fill_n(sums.data, rows.count * sizes_.width, T{0});
    for (I column = of_columns.first; column < of_columns.end(); ++column) {
      const Range columns = tile(column, kTileKeys, sizes_.keys);
      if (before(rows, columns)) break;
      score(scratch, head, rows, columns);
      multiply<T>({gradient.matrix(), values(batch, columns).transposed(), slopes.data,
                   slopes.stride, rows.count, sizes_.value_width, columns.count});
      for (I i = 0; i < rows.count; ++i) {
        T *row = scores.from(i).data, *slope = slopes.from(i).data;
        (void)shifted_exponentials(row, padded(columns.count),
                                   made.from(i).data[sizes_.value_width]);
        const T more = offset[static_cast<std::size_t>(i)];
        for (I j = 0; j < columns.count; ++j) slope[j] = row[j] * (slope[j] + more);
      }
      if (of_queries)
        multiply<T>({slopes.matrix(), keys(batch, columns).matrix(), sums.data, sums.stride,
                     rows.count, columns.count, sizes_.width, true});
      if (!of_keys) continue;
      const I first = batch * sizes_.keys + columns.first;
      multiply<T>({slopes.transposed(), queries(head, rows).matrix(),
                   key_gradient_ + first * sizes_.width, sizes_.width, columns.count, rows.count,
                   sizes_.width, true});
      multiply<T>({scores.transposed(), gradient.matrix(),
                   value_gradient_ + first * sizes_.value_width, sizes_.value_width, columns.count,
                   rows.count, sizes_.value_width, true});
    }
  }

  Threads& threads_;
  const AttentionSizes& sizes_;
  const T *query_ = nullptr, *key_ = nullptr, *value_ = nullptr;
  const T *result_ = nullptr, *result_gradient_ = nullptr;
  const void* mask_ = nullptr;
  T *out_ = nullptr, *key_gradient_ = nullptr, *value_gradient_ = nullptr;
};

}  // namespace

AttentionSizes::AttentionSizes(const Graph& graph, NodeId id, std::span<const std::int64_t> all) {
  const Node& node = graph.nodes[id];
  const auto sizes_of = [&](std::size_t operand) {
    std::size_t first = 0;
    const auto dims = [&](std::size_t k) { return graph.nodes[node.inputs[k]].meta.sizes.size(); };
    for (std::size_t k = 0; k < operand; ++k) first += dims(k);
    return all.subspan(first, dims(operand));
  };
  gradient = node.op == Op::AttentionGradient;
  causal = node.ints[0] != 0;
  dtype = node.meta.dtype;
  std::vector<I> scores(sizes_of(0).begin(), sizes_of(0).end());
  const std::size_t dims = scores.size(), leading = dims - 3;
  for (std::size_t d = 0; d < leading; ++d) batch *= scores[d];
  groups = scores[leading], queries = scores[leading + 1], width = scores[leading + 2];
  keys = scores.back() = sizes_of(1)[leading];
  value_width = sizes_of(2).back();
  if (node.inputs.size() == attention_operands(node.op)) return;
  const std::size_t last = node.inputs.size() - 1;
  mask = graph.nodes[node.inputs[last]].meta.dtype == DType::Bool ? Mask::Seen : Mask::Added;
  // Elements of the mask from one index of a dim to the next.
  const std::span<const I> of_mask = sizes_of(last);
  std::vector<I> strides(dims, 0);
  I stride = 1;
  for (std::size_t d = dims; d-- > 0; stride *= of_mask[d])
    if (of_mask[d] != 1) strides[d] = stride;
  mask_query = strides[leading + 1], mask_key = strides[leading + 2];
  const auto last_head = static_cast<std::ptrdiff_t>(leading) + 1;
  head_sizes.assign(scores.begin(), scores.begin() + last_head);
  mask_heads.assign(strides.begin(), strides.begin() + last_head);
}

std::int64_t AttentionSizes::mask_of(std::int64_t head) const {
  std::int64_t out = 0;
  for (std::size_t d = head_sizes.size(); d-- > 0; head /= head_sizes[d])
    out += head % head_sizes[d] * mask_heads[d];
  return out;
}

void attend(Threads& threads, const AttentionSizes& sizes, std::span<const void* const> operands,
            void* out) {
  for (const I row : {sizes.width, sizes.value_width + 1})
    if (row > std::numeric_limits<int>::max())
      throw std::length_error(
          fmt::format("attention has rows of {} elements; the BLAS counts up "
                      "to {}",
                      row, std::numeric_limits<int>::max()));
  use_one_thread_of_the_blas();
  const auto run = [&](auto&& attention) {
    if (sizes.gradient)
      attention.backward();
    else
      attention.forward();
  };
  if (sizes.dtype == DType::F32)
    run(Attention<float>(threads, sizes, operands, out));
  else
    run(Attention<double>(threads, sizes, operands, out));
}

}  // namespace lockstep::worker
