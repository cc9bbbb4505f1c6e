// Tensors made of no other tensor: constants, indices, integers.
#include <lockstep/worker/tensor/language/op_builder.h>

namespace lockstep::worker {
namespace {

Tensor index_along(Trace& trace, const Sizes& sizes, std::int64_t dim, const Line& where) {
  const auto n = static_cast<std::int64_t>(sizes.size());
  if (dim < -n || dim >= n) refuse(where, "iota", "there is no such dim");
  Node node;
  node.op = Op::Iota;
  node.ints = {dim < 0 ? dim + n : dim};
  node.meta = {DType::I64, exprs_of(sizes)};
  return trace.add_node(std::move(node), where);
}

void need_nonnegative(Trace& trace, std::string_view what, const Sizes& sizes, const Line& where) {
  for (const SymInt& size : sizes) trace.need_own(size, where);
  for (const SymInt& size : sizes)
    trace.env().check(shapes::greater_equal(size.expr(), 0), trace.here(where),
                      std::string(what) + " needs sizes that are not negative");
}

}  // namespace

Tensor full(Trace& trace, const Sizes& sizes, double value, DType dtype, Line where) {
  need_nonnegative(trace, "full", sizes, where);
  return filled(trace, {dtype, exprs_of(sizes)}, value, where);
}
Tensor full(const Sizes& sizes, double value, DType dtype, Line where) {
  return full(*trace_of("full", sizes, where), sizes, value, dtype, where);
}
Tensor zeros(const Sizes& sizes, DType dtype, Line where) {
  return full(*trace_of("zeros", sizes, where), sizes, 0, dtype, where);
}
Tensor zeros(Trace& trace, const Sizes& sizes, DType dtype, Line where) {
  return full(trace, sizes, 0, dtype, where);
}
Tensor ones(const Sizes& sizes, DType dtype, Line where) {
  return full(*trace_of("ones", sizes, where), sizes, 1, dtype, where);
}
Tensor ones(Trace& trace, const Sizes& sizes, DType dtype, Line where) {
  return full(trace, sizes, 1, dtype, where);
}
Tensor full_like(const Tensor& x, double value, Line where) {
  const NamedCall call("full_like");
  return filled(*trace_of("full_like", std::vector{x}, where), meta_of(x), value, where);
}
Tensor zeros_like(const Tensor& x, Line where) { return full_like(x, 0, where); }
Tensor ones_like(const Tensor& x, Line where) { return full_like(x, 1, where); }

Tensor arange(Trace& trace, const SymInt& n, Line where) {
  need_nonnegative(trace, "arange", {n}, where);
  return index_along(trace, {n}, 0, where);
}
Tensor arange(const SymInt& n, Line where) {
  return arange(*trace_of("arange", Sizes{n}, where), n, where);
}
Tensor iota(const Sizes& sizes, std::int64_t dim, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("iota", sizes, where);
  need_nonnegative(*trace, "iota", sizes, where);
  return index_along(*trace, sizes, dim, where);
}

Tensor scalar(Trace& trace, const SymInt& value, Line where) {
  trace.need_own(value, where);
  Node node;
  node.op = Op::Scalar;
  node.exprs = {value.expr()};
  return trace.add_node(std::move(node), where);
}
Tensor scalar(const SymInt& value, Line where) {
  return scalar(*trace_of("scalar", Sizes{value}, where), value, where);
}

}  // namespace lockstep::worker
