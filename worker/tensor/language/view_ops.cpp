// Views and movement: reshape, permute, expand, slice, pad, cat, flip.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <lockstep/worker/tensor/language/op_builder.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

Expr expr_of(const Expr::Factor& factor) {
  const Expr::Atom& atom = *factor.atom;
  Expr base;
  switch (atom.op) {
    case Expr::Op::Symbol:
      base = Expr::symbol(atom.symbol);
      break;
    case Expr::Op::FloorDiv:
      base = floor_div(atom.operands[0], atom.operands[1]);
      break;
    case Expr::Op::Mod:
      base = mod(atom.operands[0], atom.operands[1]);
      break;
    case Expr::Op::Min:
    case Expr::Op::Max:
      base = atom.operands[0];
      for (std::size_t i = 1; i < atom.operands.size(); ++i)
        base = atom.op == Expr::Op::Min ? min(base, atom.operands[i]) : max(base, atom.operands[i]);
  }
  Expr power = 1;
  for (std::uint32_t i = 0; i < factor.power; ++i) power = power * base;
  return power;
}

/// Removes from both lists the elements that occur in both.
void cancel(std::vector<Expr>& left, std::vector<Expr>& right) {
  for (auto factor = right.begin(); factor != right.end();) {
    const auto same = std::find(left.begin(), left.end(), *factor);
    if (same == left.end()) {
      ++factor;
      continue;
    }
    left.erase(same);
    factor = right.erase(factor);
  }
}

/// The products of `from` and of `known`, with common factors cancelled: s0 * 64 over 64 is s0 for
/// every s0, 0 included. Sizes that are sums cancel only as a whole.
std::pair<Expr, Expr> cancelled(std::vector<Expr> from, std::vector<Expr> known) {
  cancel(from, known);
  std::vector<Expr> left, right;
  std::int64_t a = 1, b = 1;
  const auto split = [](const std::vector<Expr>& sizes, std::vector<Expr>& factors,
                        std::int64_t& number) {
    for (const Expr& size : sizes) {
      if (size.terms().size() != 1) {
        if (const auto constant = size.constant())
          number *= *constant;
        else
          factors.push_back(size);
        continue;
      }
      number *= size.terms()[0].coefficient;
      for (Expr::Factor factor : size.terms()[0].factors)
        for (const std::uint32_t n = std::exchange(factor.power, 1); factor.power <= n;
             ++factor.power)
          factors.push_back(expr_of({factor.atom, 1}));
    }
  };
  split(from, left, a);
  split(known, right, b);
  cancel(left, right);
  const std::int64_t common = std::max<std::int64_t>(1, std::gcd(a, b));
  return {shapes::product(left) * (a / common), shapes::product(right) * (b / common)};
}

/// The size in place of -1.
Expr left_over(Trace& trace, const std::vector<Expr>& from, const std::vector<Expr>& known,
               const Line& where) {
  const auto [total, rest] = cancelled(from, known);
  if (rest == Expr(1)) return total;
  if (rest == Expr(0))
    refuse(where, "reshape", "-1 beside a size of 0 could be anything; name the size");
  trace.env().check(shapes::not_equal(rest, 0), trace.here(where),
                    "reshape: -1 beside a size of 0");
  return trace.env().simplify(floor_div(total, rest));
}

/// The dims of `x` in the result's order.
Tensor permuted(const Tensor& x, Dims dims, const Line& where) {
  Node node;
  node.ints = std::move(dims);
  return emit(Op::Permute, {x}, std::move(node), where);
}

}  // namespace

Tensor reshape(const Tensor& x, const Sizes& sizes, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("reshape", std::vector{x}, sizes, where);
  const std::vector<Expr> from = meta_of(x).sizes;
  std::vector<Expr> to, known;
  std::optional<std::size_t> open;
  for (const SymInt& size : sizes) {
    to.push_back(trace->env().simplify(size.expr()));
    if (to.back() != Expr(-1)) {
      known.push_back(to.back());
      continue;
    }
    if (open) refuse(where, "reshape", "only one size may be -1");
    open = to.size() - 1;
  }
  if (open) to[*open] = left_over(*trace, from, known, where);
  for (const SymInt& size : sizes)
    if (!(size.expr() == Expr(-1)))
      trace->env().check(shapes::greater_equal(size.expr(), 0), trace->here(where),
                         NamedCall::said("reshape to a negative size"));
  const Expr have = shapes::product(from), want = shapes::product(to);
  if ((have - want).constant().value_or(0) != 0)
    refuse(where, "reshape",
           fmt::format("{} holds {} elements, not {}", meta_text(meta_of(x)), have.text(),
                       want.text()));
  trace->env().check(shapes::equal(have, want), trace->here(where),
                     "reshape needs the same number of elements");
  return view(x, std::move(to), where);
}

Tensor permute(const Tensor& x, const Dims& dims, Line where) {
  Dims order;
  for (const std::int64_t dim : dims) order.push_back(checked_dim("permute", x, dim, where));
  return permuted(x, std::move(order), where);
}

Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b, Line where) {
  Dims order(static_cast<std::size_t>(x.ndim(where)));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<std::size_t>(checked_dim("transpose", x, a, where))],
            order[static_cast<std::size_t>(checked_dim("transpose", x, b, where))]);
  return permuted(x, std::move(order), where);
}

Tensor expand(const Tensor& x, const Sizes& sizes, Line where) {
  const std::shared_ptr<Trace> trace = trace_of("expand", std::vector{x}, sizes, where);
  const std::vector<Expr> from = meta_of(x).sizes;
  if (sizes.size() < from.size()) refuse(where, "expand", "cannot drop dims");
  const std::size_t lead = sizes.size() - from.size();
  std::vector<Expr> to = exprs_of(sizes);
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] == Expr(-1)) {
      if (i < lead) refuse(where, "expand", "-1 stands for a dim that the tensor does not have");
      to[i] = from[i - lead];
    }
    to[i] = trace->env().simplify(to[i]);
    if (i < lead || trace->one_or(from[i - lead], where) == Expr(1)) {
      trace->env().check(shapes::greater_equal(to[i], 0), trace->here(where),
                         "expand to a negative size");
      continue;
    }
    if ((to[i] - from[i - lead]).constant().value_or(0) != 0)
      refuse(where, "expand",
             fmt::format("dim {} of {} does not expand to {}", i - lead, meta_text(meta_of(x)),
                         to[i].text()));
    trace->env().check(shapes::equal(to[i], from[i - lead]), trace->here(where),
                       "expand needs an equal size or the constant 1");
  }
  for (Expr& size : to) size = trace->env().simplify(size);
  return expanded(x, to, where);
}

Tensor unsqueeze(const Tensor& x, std::int64_t dim, Line where) {
  (void)trace_of("unsqueeze", std::vector{x}, where);
  const std::int64_t n = x.ndim() + 1;
  if (dim < -n || dim >= n)
    refuse(where, "unsqueeze", fmt::format("there is no place {} for a new dim", dim));
  std::vector<Expr> sizes = meta_of(x).sizes;
  sizes.insert(sizes.begin() + (dim < 0 ? dim + n : dim), Expr(1));
  return view(x, std::move(sizes), where);
}

Tensor squeeze(const Tensor& x, std::int64_t dim, Line where) {
  const std::int64_t d = checked_dim("squeeze", x, dim, where);
  const std::shared_ptr<Trace> trace = trace_of("squeeze", std::vector{x}, where);
  std::vector<Expr> sizes = meta_of(x).sizes;
  if (trace->one_or(sizes[static_cast<std::size_t>(d)], where) != Expr(1))
    refuse(where, "squeeze",
           fmt::format("dim {} of {} is not the constant 1", d, meta_text(meta_of(x))));
  sizes.erase(sizes.begin() + d);
  return view(x, std::move(sizes), where);
}

Tensor slice(const Tensor& x, std::int64_t dim, const SymInt& start, const SymInt& length,
             Line where) {
  const std::shared_ptr<Trace> trace = trace_of("slice", std::vector{x}, {start, length}, where);
  const std::int64_t d = checked_dim("slice", x, dim, where);
  Node node;
  node.meta = meta_of(x);
  Expr& size = node.meta.sizes[static_cast<std::size_t>(d)];
  const Expr rest = size - start.expr() - length.expr();
  if (start.expr().constant().value_or(0) < 0 || length.expr().constant().value_or(0) < 0 ||
      rest.constant().value_or(0) < 0)
    refuse(where, "slice",
           fmt::format("{} elements from {} do not lie in dim {} of {}", length.text(),
                       start.text(), d, meta_text(node.meta)));
  const shapes::Location here = trace->here(where);
  trace->env().check(shapes::greater_equal(start.expr(), 0), here,
                     "slice starts before the tensor");
  trace->env().check(shapes::greater_equal(length.expr(), 0), here, "slice of negative length");
  trace->env().check(shapes::greater_equal(rest, 0), here, "slice ends behind the tensor");
  size = length.expr();
  node.ints = {d};
  node.exprs = {start.expr()};
  return emit(Op::Slice, {x}, std::move(node), where);
}

Tensor pad(const Tensor& x, std::int64_t dim, const SymInt& before, const SymInt& after,
           Line where) {
  const NamedCall call("pad");
  const std::shared_ptr<Trace> trace = trace_of("pad", std::vector{x}, {before, after}, where);
  Node node;
  node.ints = {checked_dim("pad", x, dim, where)};
  for (const SymInt& count : {before, after}) {
    if (count.expr().constant().value_or(0) < 0)
      refuse(where, "pad", fmt::format("a count is negative ({})", count.text()));
    trace->env().check(shapes::greater_equal(count.expr(), 0), trace->here(where),
                       "pad by a negative count");
    node.exprs.push_back(count.expr());
  }
  return emit(Op::Pad, {x}, std::move(node), where);
}

Tensor cat(const std::vector<Tensor>& given, std::int64_t dim, Line where) {
  if (given.empty()) refuse(where, "cat", "needs at least one tensor");
  const std::shared_ptr<Trace> trace = trace_of("cat", given, where);
  const std::vector<Tensor> xs = of_one_dtype("cat", given, where);
  const std::int64_t d = checked_dim("cat", xs[0], dim, where);
  const auto along = static_cast<std::size_t>(d);
  for (const Tensor& x : xs) {
    if (x.ndim() != xs[0].ndim())
      refuse(where, "cat",
             fmt::format("{} and {} do not fit", meta_text(meta_of(xs[0])), meta_text(meta_of(x))));
    for (std::size_t i = 0; i < meta_of(x).sizes.size(); ++i)
      if (i != along)
        trace->env().check(shapes::equal(meta_of(xs[0]).sizes[i], meta_of(x).sizes[i]),
                           trace->here(where), "cat needs equal sizes but for one dim");
  }
  std::vector<Tensor> parts;
  for (const Tensor& x : xs) {
    std::vector<Expr> sizes = meta_of(xs[0]).sizes;
    sizes[along] = meta_of(x).sizes[along];
    parts.push_back(view(x, std::move(sizes), where));
  }
  if (parts.size() == 1) return parts[0];
  Node node;
  node.ints = {d};
  return emit(Op::Cat, parts, std::move(node), where);
}

Tensor flip(const Tensor& x, const Dims& dims, Line where) {
  (void)trace_of("flip", std::vector{x}, where);
  if (dims.empty()) return x;
  Node node;
  for (const std::int64_t dim : dims) node.ints.push_back(checked_dim("flip", x, dim, where));
  std::sort(node.ints.begin(), node.ints.end());
  if (std::adjacent_find(node.ints.begin(), node.ints.end()) != node.ints.end())
    refuse(where, "flip", "a dim is named twice");
  return emit(Op::Flip, {x}, std::move(node), where);
}

std::vector<Tensor> split(const Tensor& x, const Sizes& sizes, std::int64_t dim, Line where) {
  const NamedCall call("split");
  const std::shared_ptr<Trace> trace = trace_of("split", std::vector{x}, sizes, where);
  const Expr size = meta_of(x).sizes[static_cast<std::size_t>(checked_dim("split", x, dim, where))];
  for (const SymInt& part : sizes)
    trace->env().check(shapes::greater_equal(part.expr(), 0), trace->here(where),
                       "split into a part of negative size");
  trace->env().check(shapes::equal(shapes::sum(exprs_of(sizes)), size), trace->here(where),
                     "the parts of a split add up to the size");
  std::vector<Tensor> parts;
  SymInt start;
  for (const SymInt& part : sizes) {
    parts.push_back(slice(x, dim, start, part, where));
    start = start + part;
  }
  return parts;
}

}  // namespace lockstep::worker
