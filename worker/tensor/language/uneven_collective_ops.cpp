// Collectives of rows whose number differs between ranks, made of an exchange of counts and one of
// rows. An all_to_all carries both, so its gradient, checks and backends serve here, too.
#include <numeric>

#include <fmt/format.h>

#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/op_builder.h>

namespace lockstep::worker {
namespace {

/// The order of dims in which `dim` and the first are swapped: its own inverse.
Dims swapped(std::int64_t ndim, std::int64_t dim) {
  Dims order(static_cast<std::size_t>(ndim));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[0], order[static_cast<std::size_t>(dim)]);
  return order;
}

Tensor rows_first(const Tensor& x, std::int64_t dim, const Line& where) {
  return dim == 0 ? x : permute(x, swapped(x.ndim(), dim), where);
}

/// `x` repeated `times` times along the first dim.
Tensor repeated(const Tensor& x, std::int64_t times, const Line& where) {
  Sizes each = x.sizes();
  each.insert(each.begin(), times);
  const Tensor all = expand(unsqueeze(x, 0, where), each, where);
  each.erase(each.begin());
  each[0] = x.size(0) * times;
  return reshape(all, each, where);
}

std::int64_t ranks_of(const Tensor& like, const Group& group, const Line& where) {
  const std::shared_ptr<Trace> trace = trace_of("a collective", std::vector{like}, where);
  const bool frames = group.name.empty() || group.name == trace->group().name;
  return frames ? trace->group_size() : group.size();
}

Sizes of_each(std::int64_t ranks, const SymInt& rows) {
  return Sizes(static_cast<std::size_t>(ranks), rows);
}

}  // namespace

Sizes sizes_of_ranks(const Tensor& like, const SymInt& size, const Group& group, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("sizes_of_ranks", std::vector{like}, where);
  const std::int64_t ranks = ranks_of(like, group, where);
  const Tensor mine = expand(unsqueeze(scalar(*trace, size, where), 0, where), {ranks}, where);
  return tolist(all_to_all_single(mine, group, where), Values::NonNegative, where);
}

Tensor all_gather(const Tensor& x, std::int64_t dim, const Group& group, Line where) {
  dim = checked_dim("all_gather", x, dim, where);
  const Tensor rows = rows_first(x, dim, where);
  const std::int64_t ranks = ranks_of(x, group, where);
  const bool alike = meta_of(rows).sizes[0].constant().has_value();
  const Tensor all = alike ? all_gather(rows, group, where)
                           : all_to_all_single(repeated(rows, ranks, where),
                                               sizes_of_ranks(x, rows.size(0), group, where),
                                               of_each(ranks, rows.size(0)), group, where);
  return rows_first(all, dim, where);
}

Tensor reduce_scatter(const Tensor& x, const SymInt& share, std::int64_t dim, const Group& group,
                      Line where) {
  dim = checked_dim("reduce_scatter", x, dim, where);
  const Tensor rows = rows_first(x, dim, where);
  const std::int64_t ranks = ranks_of(x, group, where);
  const Tensor parts = all_to_all_single(rows, of_each(ranks, share),
                                         sizes_of_ranks(x, share, group, where), group, where);
  Sizes each = rows.sizes();
  each[0] = share;
  each.insert(each.begin(), ranks);
  return rows_first(sum(reshape(parts, each, where), {0}, Keep::Drop, where), dim, where);
}

Tensor send_recv(const Tensor& x, const std::vector<Route>& routes, const Group& group,
                 Line where) {
  const std::shared_ptr<Trace> trace = trace_of("send_recv", std::vector{x}, where);
  const std::int64_t ranks = ranks_of(x, group, where);
  if (x.ndim() == 0) refuse(where, "send_recv", "a 0-d tensor has no rows");
  const Tensor me = group_rank(x, group, where), places = arange(*trace, ranks, where);
  Tensor sends = full(*trace, {ranks}, 0, DType::I64, where);
  for (std::size_t i = 0; i < routes.size(); ++i) {
    const Route& route = routes[i];
    for (const Rank end : {route.from, route.to})
      if (end.value < 0 || end.value >= ranks)
        refuse(where, "send_recv",
               fmt::format("there is no rank {} in a group of {}", end.value, ranks));
    for (std::size_t k = 0; k < i; ++k)
      if (routes[k].from == route.from || routes[k].to == route.to)
        refuse(where, "send_recv",
               fmt::format("rank {} {} twice; call send_recv once for each",
                           routes[k].from == route.from ? route.from.value : route.to.value,
                           routes[k].from == route.from ? "sends" : "receives"));
    const auto one_where = [&](const Tensor& truth) { return cast(truth, DType::I64, where); };
    sends = sends + one_where(me == route.from.value) * one_where(places == route.to.value);
  }
  // A rank without a receiver keeps its rows.
  const Tensor counts = sends * scalar(*trace, x.size(0), where);
  const Sizes in = tolist(counts, Values::NonNegative, where);
  const Sizes out = tolist(all_to_all_single(counts, group, where), Values::NonNegative, where);
  SymInt sent = 0;
  for (const SymInt& split : in) sent = sent + split;
  return all_to_all_single(slice(x, 0, 0, sent, where), out, in, group, where);
}

}  // namespace lockstep::worker
