// A rank's counts of its rounds: how they ended, and how long they took.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <lockstep/collectives/base/clock.h>

namespace lockstep {

/// Spans of time, counted by length.
struct SpanCounts {
  /// Upper bounds of the buckets, in seconds; the last bucket has none.
  static constexpr std::array<double, 7> kBounds{1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10};
  std::array<std::uint64_t, kBounds.size() + 1> buckets{};  // each span counts in one bucket

  void add(Duration span) {
    // `bound` is kBounds in nanoseconds: powers of ten from 10,000 on.
    std::size_t bucket = 0;
    for (Duration::rep bound = 10'000; bucket < kBounds.size() && span.count() > bound; bound *= 10)
      ++bucket;
    ++buckets[bucket];
  }
  bool operator==(const SpanCounts&) const = default;
};

/// How a round ended on this rank.
enum class RoundEnd : std::uint8_t {
  Agreed,
  Resolved,  // a vote: no entry fits on all ranks, so the ranks compile together
  Diverged,  // the ranks disagreed, or one of them objected
  Broken,    // a rank did not join, or the transport failed
};

/// Rounds, counted by how they ended.
struct EndCounts {
  std::array<std::uint64_t, 4> by_end{};
  std::uint64_t& operator[](RoundEnd end) { return by_end[static_cast<std::size_t>(end)]; }
  std::uint64_t operator[](RoundEnd end) const { return by_end[static_cast<std::size_t>(end)]; }
  /// Corrects how the last round ended.
  void move(RoundEnd from, RoundEnd to) { --(*this)[from], ++(*this)[to]; }
  bool operator==(const EndCounts&) const = default;
};

struct RoundCounts {
  EndCounts votes, exchanges;
  SpanCounts wait;  // time in votes until the first message arrived
  SpanCounts wire;  // remaining time of votes, and all time of exchanges

  /// Number of all counters; numbers() lists them in a fixed order.
  static constexpr std::size_t kNumbers = 2 * 4 + 2 * (SpanCounts::kBounds.size() + 1);
  [[nodiscard]] std::array<std::uint64_t*, kNumbers> numbers() { return numbers_of<std::uint64_t>(*this); }
  [[nodiscard]] std::array<const std::uint64_t*, kNumbers> numbers() const {
    return numbers_of<const std::uint64_t>(*this);
  }
  RoundCounts& operator+=(RoundCounts other);
  RoundCounts& operator-=(RoundCounts other);
  bool operator==(const RoundCounts&) const = default;

 private:
  template <class Number, class Rounds>
  static std::array<Number*, kNumbers> numbers_of(Rounds& rounds) {
    std::array<Number*, kNumbers> all{};
    auto next = all.begin();
    for (auto* ends : {&rounds.votes, &rounds.exchanges})
      for (auto& number : ends->by_end) *next++ = &number;
    for (auto* spans : {&rounds.wait, &rounds.wire})
      for (auto& number : spans->buckets) *next++ = &number;
    return all;
  }
};

inline RoundCounts& RoundCounts::operator+=(RoundCounts other) {
  const auto mine = numbers(), others = other.numbers();
  for (std::size_t i = 0; i < kNumbers; ++i) *mine[i] += *others[i];
  return *this;
}
inline RoundCounts& RoundCounts::operator-=(RoundCounts other) {
  const auto mine = numbers(), others = other.numbers();
  for (std::size_t i = 0; i < kNumbers; ++i) *mine[i] -= *others[i];
  return *this;
}

}  // namespace lockstep
