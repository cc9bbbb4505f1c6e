// The text of a nest of loops: statements are put at the outermost level at which everything they
// mention exists, so what does not change in an inner loop is computed outside it. And the index
// arithmetic that goes with it, folded where it is constant.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::worker {

/// An int64 of the kernel as C++ text, with the loop level at which it is known: -1 outside all
/// loops, k inside loop k.
struct IndexText {
  std::string text = "0";
  int level = -1;
  std::optional<std::int64_t> constant = 0;
};
[[nodiscard]] IndexText index_constant(std::int64_t value);
[[nodiscard]] IndexText index_name(std::string name, int level);
[[nodiscard]] IndexText operator+(const IndexText& a, const IndexText& b);
[[nodiscard]] IndexText operator-(const IndexText& a, const IndexText& b);
[[nodiscard]] IndexText operator*(const IndexText& a, const IndexText& b);
[[nodiscard]] IndexText operator/(const IndexText& a, const IndexText& b);
[[nodiscard]] IndexText operator%(const IndexText& a, const IndexText& b);

/// A number that the loops inside a level add up to, in any order: `name` is declared at that
/// level.
struct Total {
  enum class Join : std::uint8_t { Sum, Max, Min, Or, Product };
  std::string type, name, first;
  Join join = Join::Sum;
};

class LoopNest {
 public:
  struct Loop {
    std::string variable, size;
    std::string header;  // instead of one that counts to `size`
  };
  LoopNest() : before_(1), after_(1) {}
  /// A loop inside the last one; its variable.
  IndexText open(const IndexText& size);
  /// A loop of another kind: "for (long i1 = n0; i1 < n1; ++i1)". Never among the free ones.
  void open_as(std::string header);
  [[nodiscard]] int innermost() const { return static_cast<int>(loops_.size()) - 1; }
  /// All loops up to the innermost one at the moment may run in any order, and at once.
  void set_free() { free_ = loops_.size(); }
  /// Declares a total in loop `level`.
  void total(int level, Total total);
  /// Into the body of loop `level` (-1: outside all), before the loop inside it, or after.
  void before(int level, std::string statement);
  void after(int level, std::string statement);
  /// Put in front of the innermost loop ("#pragma omp simd").
  void set_pragma(std::string pragma) { pragma_ = std::move(pragma); }
  /// One loop in another, as C++ runs them.
  [[nodiscard]] std::string text() const { return text(0, 1); }
  /// The loops from `first` on, with what stands in and around them, at `depth`.
  [[nodiscard]] std::string text(std::size_t first, std::size_t depth) const;

  // For who lays the loops out in another way.
  [[nodiscard]] const std::vector<Loop>& loops() const { return loops_; }
  [[nodiscard]] std::size_t free() const { return free_; }
  [[nodiscard]] const std::vector<Total>& totals() const { return totals_; }
  [[nodiscard]] const std::vector<std::string>& before(int level) const {
    return before_[static_cast<std::size_t>(level + 1)];
  }
  [[nodiscard]] const std::vector<std::string>& after(int level) const {
    return after_[static_cast<std::size_t>(level + 1)];
  }

 private:
  std::vector<Loop> loops_;
  std::vector<std::vector<std::string>> before_, after_;  // by level + 1
  std::size_t free_ = 0;
  std::vector<Total> totals_;
  std::string pragma_;
};

/// The lines of a statement, `depth` levels in.
[[nodiscard]] std::string indented(const std::string& statement, std::size_t depth);

}  // namespace lockstep::worker
