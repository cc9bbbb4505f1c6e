#include <algorithm>
#include <utility>

#include <lockstep/worker/compile/execution/rounded_rows.h>
#include <lockstep/worker/tensor/graph/row_symbols.h>

namespace lockstep::worker {

RoundedRows::RoundedRows(const Graph& graph, CaptureOptions options)
    : graph_(graph), options_(std::move(options)), rows_(row_symbols(graph)) {
  for (auto& [source, sizes] : options_.sizes) std::ranges::sort(sizes);
}

bool RoundedRows::round_up(RunValues& values) {
  const auto& symbols = graph_.symbols;
  std::map<std::size_t, std::int64_t> rounded;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const auto listed = options_.sizes.find(symbols[i].source);
    if (listed == options_.sizes.end()) continue;
    const std::int64_t size = values.symbol(i);
    const auto next = std::ranges::lower_bound(listed->second, size);
    if (next == listed->second.end()) return false;
    if (*next == size) continue;
    // 0 rows are not rounded up: a table that the rows index may be empty too.
    if (size == 0 || std::ranges::find(rows_, symbols[i].symbol) == rows_.end()) return false;
    rounded[i] = *next;
  }
  for (const auto& [i, size] : rounded) given_[symbols[i].symbol] = values.symbol(i);
  values.change(rounded);
  return true;
}

std::optional<std::int64_t> RoundedRows::given(std::span<const shapes::Expr> sizes) const {
  for (const auto& [symbol, rows] : given_)
    if (!sizes.empty() && sizes[0] == shapes::Expr::symbol(symbol)) return rows;
  return std::nullopt;
}

}  // namespace lockstep::worker
