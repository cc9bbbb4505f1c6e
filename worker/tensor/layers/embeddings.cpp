#include <limits>

#include <fmt/format.h>

#include <lockstep/worker/tensor/jagged/segments.h>
#include <lockstep/worker/tensor/layers/embeddings.h>
#include <lockstep/worker/tensor/layers/operands.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// Bools: true where the index is padding_idx; empty without one.
Tensor padding_of(std::string_view what, const Tensor& index, const Tensor& table,
                  std::optional<std::int64_t> padding, const Line& where) {
  const At at{where};
  if (!padding) return {};
  const SymInt rows = table.size(0, where);
  const std::optional<std::int64_t> known = rows.expr().constant();
  if (known && (*padding < -*known || *padding >= *known))
    refuse(where, what,
           fmt::format("padding_idx {} is no row of {}", *padding, meta_text(meta_of(table))));
  const SymInt row = *padding < 0 ? rows + *padding : SymInt(*padding);
  return at(index) == at(scalar(*index.trace(), row, where));
}

/// Rows [.., D], without gradient where `padding` is true; an empty `padding` is nowhere true.
Tensor rows_at(std::string_view what, const Tensor& index, const Tensor& table,
               const Tensor& padding, const Line& where) {
  const At at{where};
  const std::shared_ptr<Trace> trace = trace_of(what, std::vector{index, table}, where);
  if (table.ndim() != 2)
    refuse(where, what,
           fmt::format("takes a table [rows, width], not {}", meta_text(meta_of(table))));
  std::vector<Expr> sizes = meta_of(index).sizes;
  const Expr count = trace->env().simplify(shapes::product(sizes));
  sizes.push_back(meta_of(table).sizes[1]);
  const Tensor rows =
      view(index_select(table, view(index, {count}, where), where), std::move(sizes), where);
  if (padding.empty()) return rows;
  return lockstep::worker::where(unsqueeze(padding, -1, where), at(detach(rows, where)), at(rows));
}

void need_bag_options(const Tensor& index, const BagOptions& options, const Line& where) {
  constexpr std::string_view kWhat = "embedding_bag";
  const int given = (options.offsets.empty() ? 0 : 1) + (options.lengths.empty() ? 0 : 1);
  if (index.ndim() != 1 && index.ndim() != 2)
    refuse(where, kWhat,
           fmt::format("takes an index of one dim or two, not {}", meta_text(meta_of(index))));
  if (index.ndim() == 1 && given != 1)
    refuse(where, kWhat, "an index of one dim needs offsets or lengths, and not both");
  if (index.ndim() == 2 && given != 0)
    refuse(where, kWhat, "the rows of an index of two dims are the bags; leave offsets out");
  if (!options.per_sample_weights.empty() && options.mode != BagMode::Sum)
    refuse(where, kWhat, "per_sample_weights are for sums");
}

/// i64 [B]
Tensor lengths_of(const BagOptions& options, const SymInt& total, const Line& where) {
  const At at{where};
  if (!options.lengths.empty())
    return whole_numbers("embedding_bag", "the tensor of lengths", options.lengths, where);
  const std::shared_ptr<Trace> trace =
      trace_of("embedding_bag", std::vector{options.offsets}, {total}, where);
  Tensor edges = whole_numbers("embedding_bag", "the tensor of offsets", options.offsets, where);
  if (!options.include_last_offset)
    edges = cat({edges, unsqueeze(scalar(*trace, total, where), 0, where)}, 0, where);
  const SymInt bags = edges.size(0, where) - 1;
  return at(slice(edges, 0, 1, bags, where)) - at(slice(edges, 0, 0, bags, where));
}

/// Rows [.., D] times weights [..].
Tensor times_weights(const Tensor& rows, const Tensor& weights, const Line& where) {
  const At at{where};
  return at(rows) * at(unsqueeze(weights, -1, where));
}

}  // namespace

Tensor embedding(const Tensor& given, const Tensor& table, std::optional<std::int64_t> padding_idx,
                 Line where) {
  (void)trace_of("embedding", std::vector{given, table}, where);
  const Tensor index = whole_numbers("embedding", "the index", given, where);
  return rows_at("embedding", index, table,
                 padding_of("embedding", index, table, padding_idx, where), where);
}

Tensor embedding_bag(const Tensor& given, const Tensor& table, const BagOptions& options,
                     Line where) {
  const NamedCall call("embedding_bag");
  const At at{where};
  constexpr std::string_view kWhat = "embedding_bag";
  const std::shared_ptr<Trace> trace = trace_of(kWhat, std::vector{given, table}, where);
  const Tensor index = whole_numbers(kWhat, "the index", given, where);
  need_bag_options(index, options, where);
  need_floats(kWhat, table, where);
  const Tensor padding = padding_of(kWhat, index, table, options.padding_idx, where);
  Tensor rows = widened(rows_at(kWhat, index, table, {}, where), where);
  // Which elements count, as i64; rows that do not count become neutral.
  const Tensor counted = padding.empty() ? ones(*trace, index.sizes(where), DType::I64, where)
                                         : cast(logical_not(padding, where), DType::I64, where);
  const bool largest = options.mode == BagMode::Max;
  if (!padding.empty())
    rows = lockstep::worker::where(unsqueeze(padding, -1, where),
                                   at(largest ? -std::numeric_limits<double>::infinity() : 0.0),
                                   at(rows));
  if (!options.per_sample_weights.empty())
    rows = times_weights(
        rows,
        of_sizes(kWhat, "the tensor of per_sample_weights",
                 widened(options.per_sample_weights, where), meta_of(index).sizes, where),
        where);
  Tensor count, total;
  if (index.ndim() == 2) {
    count = sum(counted, {1}, Keep::Drop, where);
    total = largest ? amax(rows, {1}, Keep::Drop, where) : sum(rows, {1}, Keep::Drop, where);
  } else {
    const SymInt all = index.size(0, where);
    const Tensor lengths = lengths_of(options, all, where);
    const Jagged bags{rows, lengths};
    total = largest ? segment_max(bags, where) : segment_sum(bags, where);
    count = padding.empty() ? lengths : segment_sum(with_values(bags, counted), where);
  }
  if (options.mode == BagMode::Sum) return cast(total, table.dtype(), where);
  const TensorOperand column(unsqueeze(count, 1, where), where);
  if (largest)
    return cast(lockstep::worker::where(column == at(0), at(0.0), at(total)), table.dtype(), where);
  const Tensor least = maximum(column, at(1));
  return cast(at(total) / at(cast(least, total.dtype(), where)), table.dtype(), where);
}

}  // namespace lockstep::worker
