#include <algorithm>
#include <functional>
#include <limits>

#include <lockstep/worker/graph/op_map.h>
#include <lockstep/worker/interpreter/interpret.h>

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

/// Offset in the result of the operand's element at `index`: reduced dims count nothing.
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

template <class Join>
void joined(const NodeCall& call, Array& out) {
  with_type(call.dtype(), [&]<class T>(std::type_identity<T>) { join_all<Join, T>(call, out); });
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
