// Movement of elements: made of views, slices, padding and cat.
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include <lockstep/worker/tensor/language/index_places.h>
#include <lockstep/worker/tensor/language/movement_ops.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

std::size_t at(std::int64_t dim) { return static_cast<std::size_t>(dim); }

/// A slice known to lie in the dim.
Tensor cut(const Tensor& x, std::int64_t dim, const Expr& start, const Expr& length,
           const Line& where) {
  Node node;
  node.ints = {dim};
  node.exprs = {start};
  node.meta = meta_of(x);
  if (start == Expr(0) && node.meta.sizes[at(dim)] == length) return x;
  node.meta.sizes[at(dim)] = length;
  return emit(Op::Slice, {x}, std::move(node), where);
}

/// The index along `dim` of each element of a tensor of `sizes`.
Tensor index_in(Trace& trace, const std::vector<Expr>& sizes, std::int64_t dim, const Line& where) {
  Node node;
  node.op = Op::Iota;
  node.ints = {dim};
  node.meta = {DType::I64, sizes};
  return trace.add_node(std::move(node), where);
}

/// Distance of each element of the last two dims from the main diagonal, to the right.
Tensor right_of_diagonal(Trace& trace, const std::vector<Expr>& sizes, const Line& where) {
  const auto last = static_cast<std::int64_t>(sizes.size()) - 1;
  return emit(Op::Sub,
              {index_in(trace, sizes, last, where), index_in(trace, sizes, last - 1, where)}, {},
              where);
}

/// x where the distance from the main diagonal compares with `offset` as `compare` says, else 0.
Tensor kept_beside(const Tensor& x, Op compare, std::int64_t offset, const Line& where) {
  Trace& trace = *x.trace();
  const TensorMeta meta = meta_of(x);
  const Tensor distance = right_of_diagonal(trace, meta.sizes, where);
  const Tensor bound = filled(trace, meta_of(distance), static_cast<double>(offset), where);
  const Tensor kept = emit(compare, {distance, bound}, {}, where);
  return emit(Op::Where, {kept, x, filled(trace, meta, 0, where)}, {}, where);
}

Tensor triangle(std::string_view what, Op compare, const Tensor& x, std::int64_t diagonal,
                const Line& where) {
  (void)trace_of(what, std::vector{x}, where);
  if (x.ndim() < 2)
    refuse(where, what, fmt::format("takes matrices [.., M, N], not {}", meta_text(meta_of(x))));
  return kept_beside(x, compare, diagonal, where);
}

void need_not_negative(std::string_view what, Trace& trace, const Sizes& counts,
                       const Line& where) {
  for (const SymInt& count : counts) {
    if (count.expr().constant().value_or(0) < 0)
      refuse(where, what, fmt::format("a number is negative ({})", count.text()));
    trace.env().check(shapes::greater_equal(count.expr(), 0), trace.here(where),
                      fmt::format("{} needs numbers that are not negative", what));
  }
}

/// `size` - `count`, at least 0.
Expr left_of(const Expr& size, const Expr& count) {
  return count == Expr(0) ? size : shapes::max(size - count, Expr(0));
}

/// Two different dims, counted from the front.
std::pair<std::int64_t, std::int64_t> two_dims(std::string_view what, std::int64_t ndim,
                                               std::int64_t a, std::int64_t b, const Line& where) {
  for (std::int64_t* dim : {&a, &b}) {
    if (*dim < -ndim || *dim >= ndim)
      refuse(where, what, fmt::format("a tensor with {} dims has no dim {}", ndim, *dim));
    if (*dim < 0) *dim += ndim;
  }
  if (a == b) refuse(where, what, fmt::format("dim {} is named twice", a));
  return {a, b};
}

/// The order of dims that moves the last dims, in order, to `places`.
Dims last_to(const Dims& places, std::int64_t ndim) {
  const std::int64_t rest = ndim - static_cast<std::int64_t>(places.size());
  Dims order;
  for (std::int64_t d = 0, next = 0; d < ndim; ++d) {
    const auto found = std::find(places.begin(), places.end(), d);
    order.push_back(found == places.end() ? next++ : rest + (found - places.begin()));
  }
  return order;
}

}  // namespace

Tensor select(const Tensor& x, std::int64_t dim, const SymInt& index, Line where) {
  const NamedCall call("select");
  const std::shared_ptr<Trace> trace = trace_of("select", std::vector{x}, {index}, where);
  const std::int64_t d = checked_dim("select", x, dim, where);
  const bool from_end = index.expr().constant().value_or(0) < 0;
  std::vector<Expr> sizes = meta_of(x).sizes;
  const SymInt start = from_end ? trace->integer(sizes[at(d)] + index.expr()) : index;
  sizes.erase(sizes.begin() + d);
  return view(slice(x, d, start, 1, where), std::move(sizes), where);
}

Tensor flatten(const Tensor& x, std::int64_t start, std::int64_t end, Line where) {
  const NamedCall call("flatten");
  (void)trace_of("flatten", std::vector{x}, where);
  if (x.ndim() == 0) return view(x, {Expr(1)}, where);
  const std::int64_t first = checked_dim("flatten", x, start, where),
                     last = checked_dim("flatten", x, end, where);
  if (first > last) refuse(where, "flatten", fmt::format("dim {} is behind dim {}", first, last));
  std::vector<Expr> sizes = meta_of(x).sizes;
  const auto begin = sizes.begin() + first;
  const Expr all = shapes::product({begin, sizes.begin() + last + 1});
  sizes.erase(begin + 1, sizes.begin() + last + 1);
  sizes[at(first)] = all;
  return view(x, std::move(sizes), where);
}

Tensor unflatten(const Tensor& x, std::int64_t dim, const Sizes& sizes, Line where) {
  const NamedCall call("unflatten");
  const std::int64_t d = checked_dim("unflatten", x, dim, where);
  if (sizes.empty()) refuse(where, "unflatten", "needs at least one size");
  Sizes all = x.sizes(where);
  all.erase(all.begin() + d);
  all.insert(all.begin() + d, sizes.begin(), sizes.end());
  return reshape(x, all, where);
}

Tensor movedim(const Tensor& x, const Dims& source, const Dims& destination, Line where) {
  const NamedCall call("movedim");
  (void)trace_of("movedim", std::vector{x}, where);
  if (source.size() != destination.size())
    refuse(where, "movedim",
           fmt::format("{} dims cannot go to {} places", source.size(), destination.size()));
  const auto ndim = static_cast<std::int64_t>(x.ndim());
  Dims order(at(ndim), -1);
  std::vector<bool> taken(at(ndim), false);
  for (std::size_t i = 0; i < source.size(); ++i) {
    const std::int64_t from = checked_dim("movedim", x, source[i], where),
                       to = checked_dim("movedim", x, destination[i], where);
    if (taken[at(from)] || order[at(to)] >= 0) refuse(where, "movedim", "a dim is named twice");
    taken[at(from)] = true;
    order[at(to)] = from;
  }
  std::int64_t next = 0;
  for (std::int64_t& from : order) {
    if (from >= 0) continue;
    while (taken[at(next)]) ++next;
    from = next++;
  }
  return in_order(x, std::move(order), where);
}

Tensor stack(const std::vector<Tensor>& xs, std::int64_t dim, Line where) {
  const NamedCall call("stack");
  if (xs.empty()) refuse(where, "stack", "needs at least one tensor");
  std::vector<Tensor> rows;
  for (const Tensor& x : xs) rows.push_back(unsqueeze(x, dim, where));
  return cat(rows, dim, where);
}

std::vector<Tensor> unbind(const Tensor& x, std::int64_t dim, Line where) {
  const NamedCall call("unbind");
  (void)trace_of("unbind", std::vector{x}, where);
  const std::int64_t d = checked_dim("unbind", x, dim, where);
  const auto count = meta_of(x).sizes[at(d)].constant();
  if (!count)
    refuse(where, "unbind",
           fmt::format("the size of dim {} of {} is not a number; slice() what is needed", d,
                       meta_text(meta_of(x))));
  std::vector<Tensor> out;
  for (std::int64_t i = 0; i < *count; ++i) out.push_back(select(x, d, i, where));
  return out;
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t n, std::int64_t dim, Line where) {
  const NamedCall call("chunk");
  (void)trace_of("chunk", std::vector{x}, where);
  const std::int64_t d = checked_dim("chunk", x, dim, where);
  if (n < 1) refuse(where, "chunk", fmt::format("cannot make {} parts", n));
  const Expr size = meta_of(x).sizes[at(d)], each = floor_div(size + Expr(n - 1), Expr(n));
  std::vector<Tensor> parts;
  Expr end = 0;
  for (std::int64_t i = 1; i <= n; ++i) {
    const Expr start = end;
    end = i == n ? size : shapes::min(each * Expr(i), size);
    parts.push_back(cut(x, d, start, end - start, where));
  }
  return parts;
}

Tensor repeat(const Tensor& x, const Sizes& times, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("repeat", std::vector{x}, times, where);
  const std::vector<Expr> sizes = meta_of(x).sizes;
  if (times.size() < sizes.size())
    refuse(where, "repeat",
           fmt::format("takes a number for each dim of {}, not {}; tile() takes fewer",
                       meta_text(meta_of(x)), times.size()));
  need_not_negative("repeat", *trace, times, where);
  const std::size_t lead = times.size() - sizes.size();
  std::vector<Expr> apart, spread, out;
  for (std::size_t d = 0; d < times.size(); ++d) {
    const Expr size = d < lead ? Expr(1) : sizes[d - lead], many = times[d].expr();
    apart.insert(apart.end(), {Expr(1), size});
    spread.insert(spread.end(), {many, size});
    out.push_back(many * size);
  }
  return view(expanded(view(x, apart, where), spread, where), std::move(out), where);
}

Tensor tile(const Tensor& x, const Sizes& times, Line where) {
  const NamedCall call("tile");
  Sizes all = times;
  const auto ndim = static_cast<std::size_t>(x.ndim(where));
  if (all.size() < ndim) all.insert(all.begin(), ndim - all.size(), SymInt(1));
  return repeat(x, all, where);
}

Tensor roll(const Tensor& x, const Sizes& shifts, const Dims& dims, Line where) {
  const NamedCall call("roll");
  const std::shared_ptr<Trace> trace = trace_of("roll", std::vector{x}, shifts, where);
  if (dims.empty()) {
    if (shifts.size() != 1) refuse(where, "roll", "takes one shift where no dims are named");
    const std::vector<Expr> sizes = meta_of(x).sizes;
    return view(roll(flatten(x, 0, -1, where), shifts, {0}, where), sizes, where);
  }
  if (shifts.size() != dims.size())
    refuse(where, "roll", fmt::format("{} shifts for {} dims", shifts.size(), dims.size()));
  Tensor out = x;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t d = checked_dim("roll", x, dims[i], where);
    const Expr size = meta_of(out).sizes[at(d)];
    const Expr shift = trace->env().simplify(mod(shifts[i].expr(), shapes::max(size, Expr(1))));
    if (shift == Expr(0)) continue;
    Node node;
    node.ints = {d};
    out = emit(Op::Cat,
               {cut(out, d, size - shift, shift, where), cut(out, d, 0, size - shift, where)},
               std::move(node), where);
  }
  return out;
}

Tensor tril(const Tensor& x, std::int64_t diagonal, Line where) {
  const NamedCall call("tril");
  return triangle("tril", Op::Le, x, diagonal, where);
}
Tensor triu(const Tensor& x, std::int64_t diagonal, Line where) {
  const NamedCall call("triu");
  return triangle("triu", Op::Ge, x, diagonal, where);
}

// The diagonal's square (the part of x that it crosses), viewed with one more element per row, has
// the diagonal as first column.
Tensor diagonal(const Tensor& x, std::int64_t offset, std::int64_t a, std::int64_t b, Line where) {
  (void)trace_of("diagonal", std::vector{x}, where);
  const auto [rows, columns] = two_dims("diagonal", x.ndim(), a, b, where);
  const Tensor matrices = movedim(x, {rows, columns}, {-2, -1}, where);
  std::vector<Expr> sizes = meta_of(matrices).sizes;
  const auto last = static_cast<std::int64_t>(sizes.size()) - 1;
  const Expr height = sizes[at(last - 1)], width = sizes[at(last)];
  const Expr below = std::max<std::int64_t>(-offset, 0), right = std::max<std::int64_t>(offset, 0);
  const Expr length = shapes::min(left_of(height, below), left_of(width, right));
  const Expr top = shapes::min(below, height), left = shapes::min(right, width);
  const Tensor square = cut(cut(matrices, last - 1, top, length, where), last, left, length, where);
  sizes.pop_back();
  sizes.back() = length * length;
  Node node;
  node.ints = {last - 1};
  node.exprs = {0, length};
  const Tensor longer = emit(Op::Pad, {view(square, sizes, where)}, std::move(node), where);
  sizes.back() = length;
  sizes.push_back(length + Expr(1));
  const Tensor shifted = view(longer, sizes, where);
  sizes.pop_back();
  return view(cut(shifted, last, 0, 1, where), std::move(sizes), where);
}

Tensor diag_embed(const Tensor& x, std::int64_t offset, std::int64_t a, std::int64_t b,
                  Line where) {
  const std::shared_ptr<Trace> trace = trace_of("diag_embed", std::vector{x}, where);
  if (x.ndim() < 1) refuse(where, "diag_embed", "takes at least one dim");
  const std::int64_t ndim = x.ndim() + 1;
  const auto [rows, columns] = two_dims("diag_embed", ndim, a, b, where);
  Node node;
  node.ints = {ndim - 2};
  node.exprs = {0, std::abs(offset)};
  const Tensor line = offset == 0 ? x : emit(Op::Pad, {x}, std::move(node), where);
  // The line is expanded along rows for a diagonal right of the main one, along columns for one
  // below it.
  std::vector<Expr> sizes = meta_of(line).sizes;
  const Expr side = sizes.back();
  sizes.insert(sizes.end() - (offset < 0 ? 1 : 0), Expr(1));
  const Tensor apart = view(line, sizes, where);
  sizes[at(ndim - 2)] = sizes[at(ndim - 1)] = side;
  const Tensor square = kept_beside(expanded(apart, sizes, where), Op::Eq, offset, where);
  return in_order(square, last_to({rows, columns}, ndim), where);
}

Tensor diag(const Tensor& x, std::int64_t offset, Line where) {
  if (x.ndim(where) != 1 && x.ndim(where) != 2)
    refuse(where, "diag",
           fmt::format("takes one or two dims, not {}; see diagonal() and diag_embed()", x.ndim()));
  return x.ndim() == 1 ? diag_embed(x, offset, 0, 1, where) : diagonal(x, offset, 0, 1, where);
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& xs, Indexing indexing, Line where) {
  if (xs.empty()) refuse(where, "meshgrid", "needs at least one tensor");
  (void)trace_of("meshgrid", xs, where);
  std::vector<Expr> sizes;
  for (const Tensor& x : xs) {
    if (x.ndim() > 1)
      refuse(where, "meshgrid",
             fmt::format("takes tensors of one dim, not {}", meta_text(meta_of(x))));
    sizes.push_back(x.ndim() == 0 ? Expr(1) : meta_of(x).sizes[0]);
  }
  const bool swapped = indexing == Indexing::Xy && xs.size() > 1;
  if (swapped) std::swap(sizes[0], sizes[1]);
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const std::size_t dim = swapped && i < 2 ? 1 - i : i;
    std::vector<Expr> line(sizes.size(), Expr(1));
    line[dim] = sizes[dim];
    out.push_back(expanded(view(xs[i], std::move(line), where), sizes, where));
  }
  return out;
}

namespace {

/// The windows in order of their dims, counted from the front, as nodes list them. `ndim`: number
/// of dims of x before those of the windows.
std::vector<Windows> in_dim_order(std::string_view what, std::vector<Windows> windows,
                                  std::int64_t ndim, const Line& where) {
  for (Windows& one : windows) {
    if (one.dim < -ndim || one.dim >= ndim)
      refuse(where, what, fmt::format("a tensor with {} dims has no dim {}", ndim, one.dim));
    one.dim += one.dim < 0 ? ndim : 0;
    if (one.stride < 1 || one.dilation < 1)
      refuse(where, what, "the stride and the dilation of windows are at least 1");
  }
  std::ranges::sort(windows, {}, &Windows::dim);
  if (std::ranges::adjacent_find(windows, {}, &Windows::dim) != windows.end())
    refuse(where, what, "a dim is named twice");
  return windows;
}

Dims window_attributes(const std::vector<Windows>& windows) {
  Dims out;
  for (const Windows& one : windows) out.insert(out.end(), {one.dim, one.stride, one.dilation});
  return out;
}

/// Number of elements from the first one of the first window to the last one of the last window.
Expr reach(const Windows& of, const Expr& count, const Expr& size) {
  return (count - 1) * of.stride + (size - 1) * of.dilation + 1;
}

void need_reach(std::string_view what, Trace& trace, const Expr& have, const Expr& need,
                const Line& where) {
  if ((have - need).constant().value_or(0) < 0)
    refuse(where, what,
           fmt::format("windows over {} elements do not lie within {}", need.text(), have.text()));
  trace.env().check(shapes::greater_equal(have - need, 0), trace.here(where),
                    fmt::format("{} needs windows that lie within the tensor", what));
}

}  // namespace

Tensor unfold(const Tensor& x, const std::vector<Windows>& windows, Line where) {
  Sizes given;
  for (const Windows& one : windows) {
    given.push_back(one.size);
    if (one.count) given.push_back(*one.count);
  }
  const std::shared_ptr<Trace> trace = trace_of("unfold", std::vector{x}, given, where);
  if (windows.empty()) return x;
  const std::vector<Windows> ordered = in_dim_order("unfold", windows, x.ndim(), where);
  Node node{.ints = window_attributes(ordered), .meta = meta_of(x)};
  for (const Windows& one : ordered) {
    const Expr size = trace->env().simplify(one.size.expr());
    Expr& whole = node.meta.sizes[static_cast<std::size_t>(one.dim)];
    if (size.constant().value_or(1) < 1) refuse(where, "unfold", "windows have elements");
    trace->env().check(shapes::greater_equal(size, 1), trace->here(where),
                       "unfold needs windows of at least one element");
    const Expr count = one.count ? one.count->expr() : Expr(1);
    if (count.constant().value_or(0) < 0)
      refuse(where, "unfold", fmt::format("there are no {} windows", count.text()));
    trace->env().check(shapes::greater_equal(count, 0), trace->here(where),
                       "unfold needs a number of windows that is at least 0");
    need_reach("unfold", *trace, whole, reach(one, count, size), where);
    whole = trace->env().simplify(
        one.count ? count : floor_div(whole - reach(one, 1, size), one.stride) + 1);
    node.meta.sizes.push_back(size);
  }
  return emit(Op::Unfold, {x}, std::move(node), where);
}

Tensor fold(const Tensor& x, const std::vector<Windows>& windows, const Sizes& sizes, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("fold", std::vector{x}, sizes, where);
  const auto count = static_cast<std::int64_t>(windows.size());
  if (windows.empty() || sizes.size() != windows.size() || x.ndim() < 2 * count)
    refuse(where, "fold", "takes windows along at least one dim, and one size for each such dim");
  const std::int64_t ndim = x.ndim() - count;
  const std::vector<Windows> ordered = in_dim_order("fold", windows, ndim, where);
  Node node{.ints = window_attributes(ordered), .meta = meta_of(x)};
  Dims within;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    // Sizes are in the order of the windows as given.
    const auto same = [&](const Windows& one) {
      return (one.dim < 0 ? one.dim + ndim : one.dim) == ordered[i].dim;
    };
    const auto at = std::ranges::find_if(windows, same) - windows.begin();
    Expr& whole = node.meta.sizes[static_cast<std::size_t>(ordered[i].dim)];
    const Expr size = trace->env().simplify(sizes[static_cast<std::size_t>(at)].expr());
    within.push_back(ndim + static_cast<std::int64_t>(i));
    need_reach("fold", *trace, size,
               reach(ordered[i], whole, node.meta.sizes[static_cast<std::size_t>(within.back())]),
               where);
    whole = size;
  }
  return sum(emit(Op::Overlay, {x}, std::move(node), where), within, Keep::Drop, where);
}

}  // namespace lockstep::worker
