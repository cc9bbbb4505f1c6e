#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/tensor/graph/windows.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;
using Words = std::optional<std::string>;

bool below_zero(const Expr& e) { return e.constant().value_or(0) < 0; }

/// Requires three numbers per windowed dim, dims ascending, among the first `dims`.
Words attribute_error(const Node& node, std::size_t dims) {
  if (node.ints.empty() || node.ints.size() % 3 != 0) return "needs three numbers per dim";
  std::int64_t before = -1;
  for (std::size_t i = 0; i < node.ints.size(); i += 3) {
    if (node.ints[i] <= before || node.ints[i] >= static_cast<std::int64_t>(dims))
      return fmt::format("there is no dim {} in this place", node.ints[i]);
    if (node.ints[i + 1] < 1 || node.ints[i + 2] < 1)
      return "stride and dilation must be at least 1";
    before = node.ints[i];
  }
  return std::nullopt;
}

/// Requires that `whole` has the elements that all windows of `parts` need.
Words reach_error(const std::vector<Windowed>& windows, const std::vector<Expr>& parts,
                  const std::vector<Expr>& whole) {
  for (const Windowed& at : windows) {
    const Expr &count = parts[at.dim], &kernel = parts[at.kernel];
    const Expr last = (count - 1) * at.stride + (kernel - 1) * at.dilation;
    const bool none = count == Expr(0) || kernel == Expr(0);
    if (below_zero(count) || below_zero(kernel) || (!none && below_zero(whole[at.dim] - last - 1)))
      return fmt::format("{} windows of {} elements do not lie in {} elements", count.text(),
                         kernel.text(), whole[at.dim].text());
  }
  return std::nullopt;
}

}  // namespace

std::vector<Windowed> windowed_dims(const Node& node, std::size_t ndim) {
  std::vector<Windowed> out;
  const std::size_t count = node.ints.size() / 3;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back({static_cast<std::size_t>(node.ints[3 * i]), ndim - count + i,
                   node.ints[3 * i + 1], node.ints[3 * i + 2]});
  return out;
}

Words windows_error(const Node& node, const TensorMeta& x) {
  const bool apart = node.op == Op::Unfold;
  const std::size_t count = node.ints.size() / 3;
  const std::vector<Expr>& out = node.meta.sizes;
  const std::vector<Expr>&parts = apart ? out : x.sizes, &whole = apart ? x.sizes : out;
  const std::size_t dims = parts.size() - std::min(parts.size(), count);
  if (auto words = attribute_error(node, dims)) return words;
  bool fits = x.dtype == node.meta.dtype && whole.size() == (apart ? dims : parts.size());
  const auto windows = windowed_dims(node, parts.size());
  for (std::size_t d = 0, w = 0; fits && d < whole.size(); ++d) {
    const bool windowed = w < count && windows[w].dim == d;
    w += windowed ? 1 : 0;
    fits = windowed || whole[d] == parts[d];
  }
  if (!fits)
    return fmt::format("{} and {} differ in more than windows", meta_text(x), meta_text(node.meta));
  return reach_error(windows, parts, whole);
}

}  // namespace lockstep::worker
