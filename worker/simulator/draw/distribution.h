// Distributions of integers, sampled with integers only: a draw is a function of 64 random bits,
// the same with every compiler and on every machine. The tables of continuous distributions are
// made once, with the functions of portable_math.h.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace lockstep::worker::simulator {

/// Range of the values of a draw, both included.
struct Bounds {
  std::int64_t low = INT64_MIN, high = INT64_MAX;
  bool operator==(const Bounds&) const = default;
};

/// Value with its frequency.
struct Bin {
  std::int64_t value = 0;
  std::int64_t weight = 0;  // >= 0
};

/// Greatest number of different values in a table.
inline constexpr std::int64_t kMaxTable = 1 << 20;
/// Largest mean, deviation and median.
inline constexpr double kMaxMoment = 1e15;

/// Immutable; may be used from several threads.
class Distribution {
 public:
  /// Draws 0 only.
  Distribution() = default;
  /// All values have the same probability (apart from the small bias of a 64-bit remainder).
  /// Requires low <= high.
  [[nodiscard]] static Distribution uniform(std::int64_t low, std::int64_t high);
  /// All entries of the list have the same probability. Requires at least one.
  [[nodiscard]] static Distribution choice(std::vector<std::int64_t> values);
  /// The probability of a value is proportional to its weight. Requires 1 to kMaxTable bins and 1
  /// <= sum of weights <= INT64_MAX.
  [[nodiscard]] static Distribution histogram(const std::vector<Bin>& bins);
  /// Draws are rounded to the nearest integer; values outside the bounds become the nearer bound.
  /// Requires deviation > 0 and a mean and deviation up to kMaxMoment. nullopt: the table would
  /// need more than kMaxTable values.
  [[nodiscard]] static std::optional<Distribution> normal(double mean, double deviation,
                                                          Bounds bounds);
  /// Like normal(), for median * exp(sigma * z) with a standard normal z. Requires median > 0 and
  /// sigma > 0.
  [[nodiscard]] static std::optional<Distribution> lognormal(double median, double sigma,
                                                             Bounds bounds);
  /// Draws k from 1 to count, with a probability proportional to k^-exponent. Requires 1 <= count
  /// <= kMaxTable and exponent >= 0.
  [[nodiscard]] static Distribution zipf(double exponent, std::int64_t count);
  /// Draws one of `count` kinds uniformly, and gives the number of items of this kind among `total`
  /// items, rounded down. Kind k has a share of the items proportional to k^-exponent. Requires 0
  /// <= total <= 2^53.
  [[nodiscard]] static Distribution zipf_frequency(double exponent, std::int64_t count,
                                                   std::int64_t total);

  /// Returns this distribution with values outside the bounds moved to the nearer bound. Requires
  /// low <= high.
  [[nodiscard]] Distribution clamped(Bounds bounds) const;

  /// Returns the value drawn by these random bits.
  [[nodiscard]] std::int64_t at(std::uint64_t random) const;

  /// Returns bounds that no drawn value exceeds.
  [[nodiscard]] Bounds reach() const;
  /// Returns the bounds of a uniform distribution that is not clamped; else nullopt.
  [[nodiscard]] std::optional<Bounds> as_uniform() const;

  bool operator==(const Distribution&) const = default;

 private:
  /// Returns a table of the values low, low + 1, …; below(v) is the probability of values below v.
  template <class Below>
  [[nodiscard]] static std::optional<Distribution> table(double reach_low, double reach_high,
                                                         Bounds bounds, Below below);
  void list_values(std::vector<std::int64_t> values);
  void make_guide();

  enum class Kind { Uniform, Choice, Table };
  Kind kind_ = Kind::Uniform;
  std::int64_t low_ = 0;              // least value of Uniform, and of a Table without values_
  std::uint64_t span_ = 0;            // Uniform: greatest less least value
  std::vector<std::int64_t> values_;  // Choice: the values; Table: its values, if not consecutive
  Bounds of_values_;
  std::vector<std::uint64_t> cuts_;   // Table: a draw's index is the number of cuts <= its bits
  std::vector<std::uint32_t> guide_;  // by leading bits: least possible index
  int guide_shift_ = 0;
  Bounds bounds_;
};

}  // namespace lockstep::worker::simulator
