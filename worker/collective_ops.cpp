#include <fmt/format.h>

#include <lockstep/worker/collective_ops.h>
#include <lockstep/worker/recording.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

std::int64_t group_of(std::string_view what, const Tensor& x, const Line& where) {
  return trace_of(what, std::vector{x}, where)->group_size();
}

Tensor collective(Op op, const Tensor& x, std::int64_t attribute, const Line& where) {
  Node node;
  node.ints = {attribute};
  return emit(op, {x}, std::move(node), where);
}

/// The same constants on every rank fit together only if all of them are equal.
void need_matching_constants(const Sizes& out_splits, const Sizes& in_splits, const Line& where) {
  for (const Sizes* splits : {&out_splits, &in_splits})
    for (const SymInt& split : *splits)
      if (!split.expr().constant()) return;
  for (const Sizes* splits : {&out_splits, &in_splits})
    for (const SymInt& split : *splits)
      if (split.expr() != out_splits[0].expr())
        refuse(where, "all_to_all_single",
               "constant splits that are not all equal cannot match on every rank; exchange the "
               "counts and read them "
               "with tolist()");
}

}  // namespace

Tensor all_to_all_single(const Tensor& x, const Sizes& out_splits, const Sizes& in_splits,
                         Line where) {
  const std::shared_ptr<Trace> trace = trace_of("all_to_all_single", std::vector{x}, where);
  const auto n = static_cast<std::size_t>(trace->group_size());
  if (out_splits.size() != n || in_splits.size() != n)
    refuse(where, "all_to_all_single",
           fmt::format("{} out_splits and {} in_splits for a group of {}", out_splits.size(),
                       in_splits.size(), n));
  if (x.ndim() == 0) refuse(where, "all_to_all_single", "a 0-d tensor has no rows");
  need_matching_constants(out_splits, in_splits, where);
  const shapes::Location here = trace->here(where);
  shapes::ShapeEnv& env = trace->env();
  Node node;
  for (const Sizes* splits : {&in_splits, &out_splits})
    for (const SymInt& split : *splits) {
      env.check(shapes::greater_equal(split.expr(), 0), here,
                "all_to_all_single: a split is not negative");
      node.exprs.push_back(split.expr());
    }
  env.check(shapes::equal(shapes::sum(exprs_of(in_splits)), meta_of(x).sizes[0]), here,
            "all_to_all_single: in_splits add up to the rows of the tensor");
  return emit(Op::AllToAll, {x}, std::move(node), where);
}

Tensor all_to_all_single(const Tensor& x, Line where) {
  const std::int64_t n = group_of("all_to_all_single", x, where);
  const auto rows = x.ndim() == 0 ? std::nullopt : meta_of(x).sizes[0].constant();
  if (!rows || *rows % n != 0)
    refuse(where, "all_to_all_single",
           fmt::format("without splits the rows of {} must be a constant multiple of the {} ranks; "
                       "pass the splits",
                       meta_text(meta_of(x)), n));
  const Sizes splits(static_cast<std::size_t>(n), SymInt(*rows / n));
  return all_to_all_single(x, splits, splits, where);
}

Tensor all_reduce(const Tensor& x, collectives::Reduce reduce, Line where) {
  return collective(Op::AllReduce, x, static_cast<std::int64_t>(reduce), where);
}
Tensor all_gather(const Tensor& x, Line where) {
  return collective(Op::AllGather, x, group_of("all_gather", x, where), where);
}
Tensor reduce_scatter(const Tensor& x, Line where) {
  return collective(Op::ReduceScatter, x, group_of("reduce_scatter", x, where), where);
}
Tensor broadcast(const Tensor& x, Rank root, Line where) {
  if (const std::int64_t n = group_of("broadcast", x, where); root.value < 0 || root.value >= n)
    refuse(where, "broadcast", fmt::format("there is no rank {} in a group of {}", root.value, n));
  return collective(Op::Broadcast, x, root.value, where);
}

}  // namespace lockstep::worker
