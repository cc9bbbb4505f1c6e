// Indexing, and reading values back to the host.
#include <fmt/format.h>

#include <lockstep/worker/tensor/language/index_places.h>

namespace lockstep::worker {

using shapes::Expr;

Tensor index_select(const Tensor& x, const Tensor& index, Line where) {
  (void)trace_of("index_select", std::vector{x, index}, where);
  return emit(Op::IndexSelect, {x, wide_index("index_select", index, where)}, {}, where);
}

Tensor index_add(const SymInt& rows, const Tensor& index, const Tensor& values, Line where) {
  const NamedCall call("index_add");
  const std::shared_ptr<Trace> trace =
      trace_of("index_add", std::vector{index, values}, {rows}, where);
  if (index.ndim() != 1 || values.ndim() < 1)
    refuse(where, "index_add", "takes index [M] and values [M, ..]");
  const shapes::Location here = trace->here(where);
  trace->env().check(shapes::greater_equal(rows.expr(), 0), here,
                     "index_add into a negative number of rows");
  trace->env().check(shapes::equal(meta_of(index).sizes[0], meta_of(values).sizes[0]), here,
                     "index_add needs one index per row");
  Node node;
  node.exprs = {rows.expr()};
  const Tensor numbers = wide_index("index_add", index, where);
  return emit(Op::IndexAdd, {view(numbers, {meta_of(values).sizes[0]}, where), values},
              std::move(node), where);
}

Tensor segment_ids(const Tensor& counts, const SymInt& total, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("segment_ids", std::vector{counts}, {total}, where);
  trace->env().check(shapes::greater_equal(total.expr(), 0), trace->here(where),
                     "segment_ids of a negative total");
  Node node;
  node.exprs = {total.expr()};
  return emit(Op::SegmentIds, {wide_index("segment_ids", counts, where)}, std::move(node), where);
}

Tensor one_hot(const Tensor& index, const SymInt& classes, DType dtype, Line where) {
  const NamedCall call("one_hot");
  const std::shared_ptr<Trace> trace = trace_of("one_hot", std::vector{index}, where);
  const Tensor column = unsqueeze(wide_index("one_hot", index, where), -1, where);
  const Tensor numbers = arange(*trace, classes, where);
  return cast(TensorOperand(column, where) == TensorOperand(numbers, where), dtype, where);
}

namespace {

std::vector<SymInt> read(Op op, const Tensor& x, Values values, const Line& where) {
  const std::shared_ptr<Trace> trace = trace_of(op_row(op).name, std::vector{x}, where);
  const bool narrow = x.dtype() == DType::Bool || x.dtype() == DType::I32;
  std::vector<SymInt> out;
  if (const auto known = op == Op::Item ? trace->host_value(x) : std::nullopt)
    out.push_back(*known);
  else
    out = trace->read_back(op, narrow ? cast(x, DType::I64, where) : x, where);
  if (values == Values::NonNegative)
    for (SymInt& value : out) {
      trace->env().check(shapes::greater_equal(value.expr(), 0), trace->here(where),
                         "a value read back is not negative");
      value = trace->integer(value.expr());
    }
  return out;
}

}  // namespace

std::vector<SymInt> tolist(const Tensor& x, Values values, Line where) {
  return read(Op::ToList, x, values, where);
}
SymInt item(const Tensor& x, Values values, Line where) {
  const NamedCall call("item");
  return read(Op::Item, x, values, where).at(0);
}
SymBool item_bool(const Tensor& x, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("item_bool", std::vector{x}, where);
  if (x.dtype() != DType::Bool)
    refuse(where, "item_bool",
           fmt::format("takes a 0-d bool, not {}; compare it first", meta_text(meta_of(x))));
  return {shapes::equal(item(x, Values::Any, where).expr(), 1), trace, where};
}

}  // namespace lockstep::worker
