#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>

#include <lockstep/worker/compile/interpreter/interpret.h>
#include <lockstep/worker/compile/sums/sum_order.h>
#include <lockstep/worker/tensor/graph/op_map.h>

namespace lockstep::worker {
namespace {

template <class T>
constexpr T lowest() {
  if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
  return std::numeric_limits<T>::lowest();
}
template <class T>
constexpr T highest() {
  if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::infinity();
  return std::numeric_limits<T>::max();
}

struct Sum {
  template <class T>
  static constexpr T first = T(0);
  template <class T>
  static void add(T& total, T x) {
    total = wrapping(total, x, std::plus());
  }
};
struct Prod {
  template <class T>
  static constexpr T first = T(1);
  template <class T>
  static void add(T& total, T x) {
    total = wrapping(total, x, std::multiplies());
  }
};
struct Amax {
  template <class T>
  static constexpr T first = lowest<T>();
  template <class T>
  static void add(T& total, T x) {
    if (total == total && (x > total || x != x)) total = x;
  }
};
struct Amin {
  template <class T>
  static constexpr T first = highest<T>();
  template <class T>
  static void add(T& total, T x) {
    if (total == total && (x < total || x != x)) total = x;
  }
};

/// Offset in the result of the operand's element at `index`: reduced dims are skipped.
std::int64_t kept_offset(const std::vector<std::int64_t>& index, const std::vector<bool>& reduced,
                         const std::vector<std::int64_t>& sizes) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < index.size(); ++d)
    if (!reduced[d]) offset = offset * sizes[d] + index[d];
  return offset;
}

std::vector<bool> reduced_dims(const NodeCall& call) {
  std::vector<bool> reduced(call.operands[0]->sizes().size(), false);
  for (std::int64_t dim : call.node().ints) reduced[static_cast<std::size_t>(dim)] = true;
  return reduced;
}

template <class Join, class T>
void join_all(const NodeCall& call, Array& out) {
  const Array& x = *call.operands[0];
  const std::vector<bool> reduced = reduced_dims(call);
  std::fill_n(out.data_as<T>(), out.elements(), Join::template first<T>);
  std::vector<std::int64_t> index(x.sizes().size(), 0);
  const std::int64_t n = x.elements();
  for (std::int64_t i = 0; i < n; ++i, advance(index, x.sizes()))
    Join::add(out.data_as<T>()[kept_offset(index, reduced, x.sizes())], x.data_as<T>()[i]);
}

/// Elements of a run: n of them, `stride` apart.
template <class T>
struct Run {
  const T* data;
  std::int64_t n, stride;
  T operator()(std::int64_t k) const { return data[k * stride]; }
};

template <class Join, class T>
double block(const Run<T>& run, std::int64_t start, std::int64_t end) {
  std::array<double, kSumLanes> lanes;
  lanes.fill(Join::template first<double>);
  for (std::int64_t few = kSumFours; start < end; start += few * kSumLanes) {
    if (start + few * kSumLanes > end) few = 1;
    for (std::int64_t lane = 0; lane < kSumLanes; ++lane)
      Join::add(lanes[static_cast<std::size_t>(lane)],
                static_cast<double>(pairwise<Join, T>(start + lane, few, kSumLanes, run)));
  }
  for (std::size_t width = kSumLanes / 2; width > 0; width /= 2)
    for (std::size_t lane = 0; lane < width; ++lane) Join::add(lanes[lane], lanes[lane + width]);
  return lanes[0];
}

template <class Join, class T>
void add_rows(const Run<T>& run, SumOfTerms<Join>& terms) {
  const std::int64_t whole = run.n / kSumLanes * kSumLanes;
  for (std::int64_t k = 0; k < whole; k += kSumBlock)
    terms.add(block<Join>(run, k, std::min(k + kSumBlock, whole)));
  if (whole == run.n) return;
  double rest = Join::template first<double>;
  for (std::int64_t k = whole; k < run.n; ++k) Join::add(rest, static_cast<double>(run(k)));
  terms.add(rest);
}

/// Calls f(offset) for each index within `sizes`, in row-major order.
template <class F>
void each_place(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides,
                F f) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  std::vector<std::int64_t> index(sizes.size(), 0);
  for (std::int64_t i = 0; i < count; ++i, advance(index, sizes))
    f(std::inner_product(index.begin(), index.end(), strides.begin(), std::int64_t{0}));
}

/// Reduces in the order of sums/sum_order.h.
template <class Join, class T, class To>
void sum_all(const NodeCall& call, Array& out) {
  const Array& x = *call.operands[0];
  const std::vector<bool> reduced = reduced_dims(call);
  const SumRun run = sum_run(x.sizes().size(), call.node().ints);
  const std::vector<std::int64_t> strides = row_major(x.sizes());
  std::vector<std::int64_t> kept = x.sizes(), outer = x.sizes();
  Run<T> elements{nullptr, 1, 1};
  for (std::size_t d = 0; d < kept.size(); ++d) {
    (reduced[d] ? kept : outer)[d] = 1;
    if (d >= run.last) elements.stride *= x.sizes()[d];
    if (d < run.first || d >= run.last || !reduced[d]) continue;
    elements.n *= x.sizes()[d];
    outer[d] = 1;
  }
  To* to = out.data_as<To>();
  each_place(kept, strides, [&](std::int64_t at) {
    SumOfTerms<Join> total;
    each_place(outer, strides, [&](std::int64_t start) {
      elements.data = x.data_as<T>() + at + start;
      if (run.rows)
        add_rows(elements, total);
      else
        add_column<Join, T>(total, elements.n, elements);
    });
    *to++ = static_cast<To>(total.total());
  });
}

template <class Join>
void joined(const NodeCall& call, Array& out) {
  with_type(call.operands[0]->dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_floating_point_v<T> &&
                  (std::is_same_v<Join, Sum> || std::is_same_v<Join, Prod>))
      call.dtype() == DType::F64 ? sum_all<Join, T, double>(call, out)
                                 : sum_all<Join, T, T>(call, out);
    else
      join_all<Join, T>(call, out);
  });
}

template <class From>
void arg_max_of(const NodeCall& call, Array& out) {
  const Array& x = *call.operands[0];
  const std::vector<bool> reduced = reduced_dims(call);
  const auto dim = static_cast<std::size_t>(call.node().ints[0]);
  std::vector<From> best(static_cast<std::size_t>(out.elements()));
  std::fill_n(out.data_as<std::int64_t>(), out.elements(), 0);
  std::vector<std::int64_t> index(x.sizes().size(), 0);
  const std::int64_t n = x.elements();
  for (std::int64_t i = 0; i < n; ++i, advance(index, x.sizes())) {
    const From value = x.data_as<From>()[i];
    const auto at = static_cast<std::size_t>(kept_offset(index, reduced, x.sizes()));
    const From top = best[at];
    if (index[dim] != 0 && !(top == top && (value > top || value != value))) continue;
    best[at] = value;
    out.data_as<std::int64_t>()[at] = index[dim];
  }
}

void arg_max(const NodeCall& call, Array& out) {
  with_type(call.operands[0]->dtype(),
            [&]<class From>(std::type_identity<From>) { arg_max_of<From>(call, out); });
}

constexpr OpMap<void (*)(const NodeCall&, Array&)> kReductions(of_class<OpClass::Reduction>,
                                                               {{Op::Sum, joined<Sum>},
                                                                {Op::Amax, joined<Amax>},
                                                                {Op::Amin, joined<Amin>},
                                                                {Op::Argmax, arg_max},
                                                                {Op::Prod, joined<Prod>}});

}  // namespace

Array interpret_reduction(const NodeCall& call) {
  Array out(call.dtype(), call.sizes);
  kReductions[call.node().op](call, out);
  return out;
}

}  // namespace lockstep::worker
