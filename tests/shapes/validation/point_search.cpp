#include <algorithm>

#include <lockstep/shapes/expr/wide.h>

#include "point_search.h"

namespace lockstep::shapes {
namespace {

constexpr std::size_t kLongest = 1000;  // values of one symbol in a box

// At most `values` numbers of the range, around `middle` if possible.
Range around(std::int64_t middle, const Range& range, std::size_t values) {
  const Wide count = static_cast<Wide>(values);
  const Wide lower = std::max<Wide>(range.lower, Wide{middle} - count / 2);
  const Wide upper = std::min<Wide>(range.upper, lower + count - 1);
  return {static_cast<std::int64_t>(lower), static_cast<std::int64_t>(upper)};
}

}  // namespace

Valuation valuation_of(const Point& point) {
  return [&point](Symbol symbol) -> std::optional<std::int64_t> {
    const auto found = point.find(symbol);
    return found == point.end() ? std::nullopt : std::optional(found->second);
  };
}

PointSearch::PointSearch(const std::vector<ShapeEnv::SymbolRecord>& symbols, std::size_t most) {
  Wide points = 1;
  for (const auto& record : symbols) {
    sides_.push_back({record.symbol, record.declared});
    const Wide width = Wide{record.declared.upper} - record.declared.lower + 1;
    points = std::min<Wide>(points * std::min<Wide>(width, most + 1), most + 1);
  }
  whole_ = points <= static_cast<Wide>(most);
  if (whole_) return;
  std::size_t values = kLongest;
  const auto too_many = [&] {
    std::size_t all = 1;
    for (std::size_t i = 0; i < sides_.size() && all <= most; ++i) all *= values;
    return all > most;
  };
  while (values > 1 && too_many()) --values;
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    Range& range = sides_[i].range;
    const std::int64_t zero = std::clamp<std::int64_t>(0, range.lower, range.upper);
    range = around(symbols[i].hint.value_or(zero), range, values);
  }
}

std::optional<Point> PointSearch::first(const std::function<bool(const Point&)>& test) const {
  Point point;
  for (const auto& side : sides_) {
    if (side.range.empty()) return std::nullopt;
    point[side.symbol] = side.range.lower;
  }
  for (;;) {
    if (test(point)) return point;
    auto side = sides_.begin();
    for (; side != sides_.end(); ++side) {
      std::int64_t& value = point[side->symbol];
      if (value < side->range.upper) {
        ++value;
        break;
      }
      value = side->range.lower;
    }
    if (side == sides_.end()) return std::nullopt;
  }
}

}  // namespace lockstep::shapes
