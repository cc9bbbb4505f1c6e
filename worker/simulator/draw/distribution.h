// Distributions of integers, sampled with integers alone: what is drawn is a function of 64 random
// bits, the same with every compiler and on every machine. The tables of the continuous ones are
// made once, with the functions of portable_math.h.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::worker::simulator {

/// Values that a draw may have, both included.
struct Bounds {
  std::int64_t low = INT64_MIN, high = INT64_MAX;
  bool operator==(const Bounds&) const = default;
};

/// How often a value occurs.
struct Bin {
  std::int64_t value = 0;
  std::int64_t weight = 0;  // >= 0
};

/// The most different values that a table may have.
inline constexpr std::int64_t kMaxTable = 1 << 20;
/// The greatest mean, deviation and median.
inline constexpr double kMaxMoment = 1e15;

/// Immutable; may be asked from several threads.
class Distribution {
 public:
  /// Always 0.
  Distribution() = default;
  /// Each with the same probability (but for the bias of a remainder of 64 bits). Requires
  /// low <= high.
  [[nodiscard]] static Distribution uniform(std::int64_t low, std::int64_t high);
  /// One of the list, each entry with the same probability. Requires one at least.
  [[nodiscard]] static Distribution choice(std::vector<std::int64_t> values);
  /// Each value by its weight. Requires 1 to kMaxTable bins and 1 <= sum of weights <= INT64_MAX.
  [[nodiscard]] static Distribution histogram(const std::vector<Bin>& bins);
  /// Rounded to the nearest integer; what is outside the bounds becomes the nearer bound. Requires
  /// deviation > 0 and moments up to kMaxMoment. nullopt: wider than kMaxTable values.
  [[nodiscard]] static std::optional<Distribution> normal(double mean, double deviation,
                                                          Bounds bounds);
  /// The same of median times e to the sigma z, with z standard normal. Requires median, sigma > 0.
  [[nodiscard]] static std::optional<Distribution> lognormal(double median, double sigma,
                                                             Bounds bounds);
  /// k of 1 to count with a probability in proportion to k to the -exponent. Requires
  /// 1 <= count <= kMaxTable and exponent >= 0.
  [[nodiscard]] static Distribution zipf(double exponent, std::int64_t count);
  /// The frequency, rounded down, of one of `count` kinds among `total` items whose frequencies
  /// are in proportion to k to the -exponent; each kind is as likely. Requires total within 0 and
  /// 2 to the 53.
  [[nodiscard]] static Distribution zipf_frequency(double exponent, std::int64_t count,
                                                   std::int64_t total);

  /// The same, with what is outside the bounds put to the nearer bound. Requires low <= high.
  [[nodiscard]] Distribution clamped(Bounds bounds) const;

  /// The value that these random bits stand for.
  [[nodiscard]] std::int64_t at(std::uint64_t random) const;

  /// No value outside of these is drawn.
  [[nodiscard]] Bounds reach() const;
  /// Its bounds, where it is uniform and not clamped.
  [[nodiscard]] std::optional<Bounds> as_uniform() const;

  bool operator==(const Distribution&) const = default;

 private:
  /// A table of values low, low + 1, …; `below` has the share of all values up to each.
  template <class Below>
  [[nodiscard]] static std::optional<Distribution> table(double reach_low, double reach_high,
                                                         Bounds bounds, Below below);
  void list_values(std::vector<std::int64_t> values);
  void make_guide();

  enum class Kind { Uniform, Choice, Table };
  Kind kind_ = Kind::Uniform;
  std::int64_t low_ = 0;              // uniform, and tables without values
  std::uint64_t span_ = 0;            // uniform: the greatest less the least
  std::vector<std::int64_t> values_;  // choices, and values of tables
  Bounds of_values_;
  std::vector<std::uint64_t> cuts_;   // value i is drawn below cut i; the last one beyond them all
  std::vector<std::uint32_t> guide_;  // by the first bits: the first value that may be drawn
  int guide_shift_ = 0;
  Bounds bounds_;
};

}  // namespace lockstep::worker::simulator
