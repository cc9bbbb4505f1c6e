// The text of a nest of loops. Each statement is placed at the outermost level at which its
// operands exist, so values that do not change in an inner loop are computed outside it. Also the
// index arithmetic, with constants folded.
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

/// A total that the loops inside a level add up, in any order. `name` is declared at that level.
struct Total {
  enum class Join : std::uint8_t { Sum, Max, Min, Or, Product };
  std::string type, name, first;
  Join join = Join::Sum;
};

class LoopNest {
 public:
  struct Loop {
    std::string variable, size;
    std::string header;  // if not empty, replaces the loop that counts to `size`
  };
  LoopNest() : before_(1), after_(1) {}
  /// Opens a loop inside the last one. Returns its variable.
  IndexText open(const IndexText& size);
  /// Opens a loop of another kind: "for (long i1 = n0; i1 < n1; ++i1)". It must not be a free loop.
  void open_as(std::string header);
  [[nodiscard]] int innermost() const { return static_cast<int>(loops_.size()) - 1; }
  /// Makes all loops opened so far free: their iterations may run in any order, also concurrently.
  void set_free() { free_ = loops_.size(); }
  /// Makes the nest run a part of its iterations: the first `loops` loops, taken as one loop over
  /// all their iterations in order, go from `first` to before `last`. These are names of the
  /// kernel.
  void split(std::size_t loops, std::string first, std::string last);
  /// Declares a total in loop `level`.
  void total(int level, Total total);
  /// Adds a statement to the body of loop `level` (-1: outside all), before or after the loop
  /// inside it.
  void before(int level, std::string statement);
  void after(int level, std::string statement);
  /// Sets a line before the innermost loop ("#pragma omp simd").
  void set_pragma(std::string pragma) { pragma_ = std::move(pragma); }
  /// Returns nested loops, as C++ runs them.
  [[nodiscard]] std::string text() const { return text(0, 1); }
  /// Returns the loops from `first` on with their statements, indented by `depth`.
  [[nodiscard]] std::string text(std::size_t first, std::size_t depth) const;

  // The parts of the nest, for targets that lay out the loops otherwise.
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
  [[nodiscard]] std::string header(std::size_t level) const;

  std::vector<Loop> loops_;
  std::vector<std::vector<std::string>> before_, after_;  // by level + 1
  std::size_t free_ = 0, split_ = 0;
  std::string first_, last_;
  std::vector<Total> totals_;
  std::string pragma_;
};

/// Returns the lines of a statement, indented by `depth` levels.
[[nodiscard]] std::string indented(const std::string& statement, std::size_t depth);

}  // namespace lockstep::worker
