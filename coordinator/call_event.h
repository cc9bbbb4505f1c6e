// What a rank tells of a call in which more happened than running an entry that was there: it was
// compiled, fell back, or failed. And what it counts, for every call. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/status.h>
#include <lockstep/coordinator/report.h>
#include <lockstep/shapes/fingerprint.h>

namespace lockstep::coordinator {

/// Longest texts taken, in bytes.
inline constexpr std::size_t kReasonBytes = 1024, kDecisionsBytes = 1024,
                             kGraphTextBytes = 48 * 1024, kConfigurationBytes = 4096;

/// One call of one rank. All ranks of the frame's group tell the same of it, but for what it took.
struct CallEvent {
  enum class Outcome : std::uint8_t { Compiled, Fallback, Error };
  std::string frame;
  std::uint64_t group = kWorldGroup;
  std::uint64_t epoch = 0, call = 0;  // which call of the group's
  Outcome outcome = Outcome::Compiled;
  Code code = Code::Internal;   // of an error
  std::int32_t entry = -1;      // of the frame's cache; -1: none
  std::uint32_t attempts = 1;   // traces that it took
  shapes::Fingerprint graph{};  // that runs; zero: none
  std::uint64_t nodes = 0;      // of that graph
  /// Why no entry fit ("first call", "tokens.size(0) was 5, is 6 on ranks 0-2"), or the error.
  std::string reason;
  std::string decisions;  // "n=3 tokens=[s0, 10] s0>=2"
  Duration waited{0}, exchange{0}, trace{0}, compile{0};  // of this rank
  bool operator==(const CallEvent&) const = default;
};
[[nodiscard]] std::string_view outcome_name(CallEvent::Outcome outcome);

/// The rounds that a rank counts.
enum class RoundKind : std::uint8_t { Vote, Exchange, Verify, Commit, Status };
inline constexpr std::size_t kRoundKinds = 5;
[[nodiscard]] std::string_view round_kind_name(RoundKind kind);

/// What one rank has counted since it started.
struct CallCounters {
  std::uint64_t calls = 0, reused = 0, compiled = 0, fallbacks = 0, errors = 0;
  std::array<std::uint64_t, kRoundKinds> rounds{};
  Duration waited{0}, wire{0}, trace{0}, compile{0};  // summed
  bool operator==(const CallCounters&) const = default;
};

}  // namespace lockstep::coordinator
