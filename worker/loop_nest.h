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

class LoopNest {
 public:
  LoopNest() : before_(1), after_(1) {}
  /// A loop inside the last one; its variable.
  IndexText open(const IndexText& size);
  [[nodiscard]] int innermost() const { return static_cast<int>(loops_.size()) - 1; }
  /// Into the body of loop `level` (-1: outside all), before the loop inside it, or after.
  void before(int level, std::string statement);
  void after(int level, std::string statement);
  /// Put in front of the innermost loop ("#pragma omp simd").
  void set_pragma(std::string pragma) { pragma_ = std::move(pragma); }
  [[nodiscard]] std::string text() const;

 private:
  struct Loop {
    std::string variable, size;
  };
  std::vector<Loop> loops_;
  std::vector<std::vector<std::string>> before_, after_;  // by level + 1
  std::string pragma_;
};

}  // namespace lockstep::worker
