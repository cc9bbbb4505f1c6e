#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/op_builder.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

/// The group of a collective: its name in the graph (empty for the frame's group) and its size.
struct Over {
  std::string name;
  std::int64_t size = 1;
};

Over over(std::string_view what, const Trace& trace, const Group& group, const Line& where) {
  const Group& frames = trace.group();
  if (group.name.empty() || group.name == frames.name) return {{}, trace.group_size()};
  if (group.empty())
    refuse(where, what,
           fmt::format("this rank is in no set of group {}; make the frame one of that group",
                       group.name));
  if (const RankSet others = group.members.minus(frames.members);
      !frames.empty() && !others.empty())
    refuse(
        where, what,
        fmt::format("group {} has ranks {}, which are not of group {}, whose ranks agree on this "
                    "frame; make the frame one of a group that holds both",
                    group.label(), others.text(), frames.label()));
  return {group.name, group.size()};
}

Over over(std::string_view what, const Tensor& x, const Group& group, const Line& where) {
  return over(what, *trace_of(what, std::vector{x}, where), group, where);
}

/// The number of rows in each rank's equal share of x. Refuses rows that cannot be shared equally.
SymInt share(std::string_view what, const Tensor& x, std::int64_t ranks, const Line& where) {
  const std::shared_ptr<Trace> trace = trace_of(what, std::vector{x}, where);
  const TensorMeta meta = meta_of(x);
  if (meta.sizes.empty()) refuse(where, what, "a 0-d tensor has no rows");
  const Expr& rows = meta.sizes[0];
  const shapes::Predicate whole = shapes::equal(shapes::mod(rows, ranks), 0);
  if (rows.has_unbacked())
    trace->env().check(whole, trace->here(where),
                       fmt::format("{}: the rows are a multiple of the {} ranks", what, ranks));
  else if (!SymBool(whole, trace, where))
    refuse(
        where, what,
        fmt::format("the rows of {} cannot be shared by {} ranks; pad them to a multiple, or pass "
                    "splits to all_to_all_single",
                    meta_text(meta), ranks));
  return trace->integer(shapes::floor_div(rows, ranks));
}

Tensor collective(Op op, const Tensor& x, std::int64_t attribute, Over ranks, const Line& where) {
  Node node;
  node.ints = {attribute};
  node.text = std::move(ranks.name);
  return emit(op, {x}, std::move(node), where);
}

/// Refuses unequal constants: splits that are the same on every rank match between ranks only if
/// all of them are equal.
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
                         const Group& group, Line where) {
  const std::shared_ptr<Trace> trace =
      trace_of("all_to_all_single", std::vector{x}, out_splits, where);
  for (const SymInt& split : in_splits) trace->need_own(split, where);
  Over ranks = over("all_to_all_single", x, group, where);
  const auto n = static_cast<std::size_t>(ranks.size);
  if (out_splits.size() != n || in_splits.size() != n)
    refuse(where, "all_to_all_single",
           fmt::format("{} out_splits and {} in_splits for a group of {}", out_splits.size(),
                       in_splits.size(), n));
  if (x.ndim() == 0) refuse(where, "all_to_all_single", "a 0-d tensor has no rows");
  need_matching_constants(out_splits, in_splits, where);
  const shapes::Location here = trace->here(where);
  shapes::ShapeEnv& env = trace->env();
  Node node;
  node.text = std::move(ranks.name);
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

Tensor all_to_all_single(const Tensor& x, const Group& group, Line where) {
  const std::int64_t n = over("all_to_all_single", x, group, where).size;
  const Sizes splits(static_cast<std::size_t>(n), share("all_to_all_single", x, n, where));
  const Tensor received = all_to_all_single(x, splits, splits, group, where);
  return view(received, meta_of(x).sizes, where);
}

Tensor all_reduce(const Tensor& x, collectives::Reduce reduce, const Group& group, Line where) {
  return collective(Op::AllReduce, x, static_cast<std::int64_t>(reduce),
                    over("all_reduce", x, group, where), where);
}
Tensor all_gather(const Tensor& x, const Group& group, Line where) {
  const Over ranks = over("all_gather", x, group, where);
  return collective(Op::AllGather, x, ranks.size, ranks, where);
}
Tensor reduce_scatter(const Tensor& x, const Group& group, Line where) {
  Over ranks = over("reduce_scatter", x, group, where);
  Node node;
  node.ints = {ranks.size};
  node.meta = meta_of(x);
  if (!node.meta.sizes.empty())
    node.meta.sizes[0] = share("reduce_scatter", x, ranks.size, where).expr();
  node.text = std::move(ranks.name);
  return emit(Op::ReduceScatter, {x}, std::move(node), where);
}
Tensor broadcast(const Tensor& x, Rank root, const Group& group, Line where) {
  const Over ranks = over("broadcast", x, group, where);
  if (root.value < 0 || root.value >= ranks.size)
    refuse(where, "broadcast",
           fmt::format("there is no rank {} in a group of {}", root.value, ranks.size));
  return collective(Op::Broadcast, x, root.value, ranks, where);
}

void check_same(const SymInt& size, const Group& group, Line where) {
  if (!size.trace()) return;  // a number of the program
  const std::shared_ptr<Trace> trace = size.trace();
  trace->need_open("an integer", where);
  Over ranks = over("check_same", *trace, group, where);
  const Expr known = trace->env().simplify(size.expr());
  if (known.constant()) return;
  if (!known.has_unbacked() && ranks.name.empty() && !trace->peers_may_differ())
    return trace->need_uniform({known, std::move(ranks.name), "check_same", trace->here(where)});
  // Compares in the run with the greatest size of the group. This covers sizes read from data,
  // sizes that other ranks may not compare, and sizes of a group within the frame's.
  const Tensor greatest =
      all_reduce(scalar(*trace, size, where), collectives::Reduce::Max, group, where);
  check(size == item(greatest, Values::Any, where), "check_same: another rank has more", where);
}

Tensor group_rank(const Tensor& like, const Group& group, Line where) {
  const Over ranks = over("group_rank", like, group, where);
  return trace_of("group_rank", std::vector{like}, where)->rank(ranks.name);
}

}  // namespace lockstep::worker
