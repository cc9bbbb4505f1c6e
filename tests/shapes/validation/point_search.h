// Exhaustive search over small domains of symbols. Internal to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include <lockstep/shapes/shape_env.h>

namespace lockstep::shapes {

using Point = std::map<Symbol, std::int64_t>;
/// The values of a point; it must outlive the result.
[[nodiscard]] Valuation valuation_of(const Point& point);

/// The points of the declared ranges of some symbols, in a fixed order: all points if there are at
/// most `most`, else the points of a box around the hints (for a symbol without a hint, around zero
/// or the bound nearest to zero).
class PointSearch {
 public:
  PointSearch(const std::vector<ShapeEnv::SymbolRecord>& symbols, std::size_t most);
  /// Whether the search covers every point.
  [[nodiscard]] bool is_whole() const { return whole_; }
  /// The first point for which the test holds.
  [[nodiscard]] std::optional<Point> first(const std::function<bool(const Point&)>& test) const;

 private:
  struct Side {
    Symbol symbol;
    Range range;
  };
  std::vector<Side> sides_;
  bool whole_ = true;
};

}  // namespace lockstep::shapes
