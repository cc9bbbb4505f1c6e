#include <algorithm>
#include <limits>

#include <lockstep/worker/interpreter/interpret.h>

namespace lockstep::worker {
namespace {

template <class T>
T lowest() {
  if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
  return std::numeric_limits<T>::lowest();
}
template <class T>
T highest() {
  if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::infinity();
  return std::numeric_limits<T>::max();
}

template <class To, class From>
void combine(Op op, To& total, From x) {
  switch (op) {
    case Op::Sum:
      if constexpr (std::is_floating_point_v<To>)
        total += static_cast<To>(x);
      else
        total = static_cast<To>(static_cast<std::uint64_t>(total) +
                                static_cast<std::uint64_t>(static_cast<To>(x)));
      break;
    case Op::Amax:
      if (total == total && (static_cast<To>(x) > total || x != x)) total = static_cast<To>(x);
      break;
    default:
      if (total == total && (static_cast<To>(x) < total || x != x)) total = static_cast<To>(x);
  }
}

/// Offset in the result of the operand's element at `index`: reduced dims count nothing.
std::int64_t kept_offset(const std::vector<std::int64_t>& index, const std::vector<bool>& reduced,
                         const std::vector<std::int64_t>& sizes) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < index.size(); ++d)
    if (!reduced[d]) offset = offset * sizes[d] + index[d];
  return offset;
}

template <class To, class From>
void reduce(const NodeCall& call, const std::vector<bool>& reduced, Array& out) {
  const Op op = call.node().op;
  const Array& x = *call.operands[0];
  const To first = op == Op::Sum ? To(0) : op == Op::Amax ? lowest<To>() : highest<To>();
  std::fill_n(out.data_as<To>(), out.elements(), first);
  std::vector<std::int64_t> index(x.sizes().size(), 0);
  const std::int64_t n = x.elements();
  for (std::int64_t i = 0; i < n; ++i, advance(index, x.sizes()))
    combine(op, out.data_as<To>()[kept_offset(index, reduced, x.sizes())], x.data_as<From>()[i]);
}

template <class From>
void arg_max(const NodeCall& call, const std::vector<bool>& reduced, Array& out) {
  const Array& x = *call.operands[0];
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

}  // namespace

Array interpret_reduction(const NodeCall& call) {
  Array out(call.dtype(), call.sizes);
  const Array& x = *call.operands[0];
  std::vector<bool> reduced(x.sizes().size(), false);
  for (std::int64_t dim : call.node().ints) reduced[static_cast<std::size_t>(dim)] = true;
  with_type(x.dtype(), [&]<class From>(std::type_identity<From>) {
    if (call.node().op == Op::Argmax) return arg_max<From>(call, reduced, out);
    with_type(call.dtype(),
              [&]<class To>(std::type_identity<To>) { reduce<To, From>(call, reduced, out); });
  });
  return out;
}

}  // namespace lockstep::worker
