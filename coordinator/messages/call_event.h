// A rank's report of a call that compiled, fell back or failed. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/status.h>
#include <lockstep/coordinator/messages/slot_report.h>
#include <lockstep/shapes/expr/fingerprint.h>

namespace lockstep::coordinator {

/// Longest texts accepted, in bytes.
inline constexpr std::size_t kReasonBytes = 1024, kDecisionsBytes = 1024,
                             kGraphTextBytes = 48 * 1024, kConfigurationBytes = 4096;

/// The text of a graph that ran or should have run; cut to kGraphTextBytes.
struct GraphText {
  shapes::Fingerprint graph{};
  std::string text;
  bool operator==(const GraphText&) const = default;
};

/// The settings of a job as "name=value" lines, from its lowest rank.
struct Configuration {
  std::string text;
  bool operator==(const Configuration&) const = default;
};

/// One call of one rank. Reports of one call by the ranks of a group normally differ only in
/// `reason` and the times.
struct CallEvent {
  enum class Outcome : std::uint8_t { Compiled, Fallback, Error };
  std::string frame;
  std::string group;                  // name of the group; empty: all ranks
  std::uint64_t epoch = 0, call = 0;  // the call's number in the group
  Outcome outcome = Outcome::Compiled;
  Code code = Code::Internal;   // set if the outcome is an error
  std::int32_t entry = -1;      // index in the frame's cache; -1: none
  std::uint32_t attempts = 1;   // number of traces that were needed
  shapes::Fingerprint graph{};  // graph of the program that runs; zero: none
  std::uint64_t nodes = 0;      // number of nodes of the graph
  /// Why no entry fits on this rank ("first call", "tokens.size(0) is 7, the entry has 5"), or the
  /// error.
  std::string reason;
  std::string decisions;                                  // "n=3 tokens=[s0, 10] s0>=2"
  Duration waited{0}, exchange{0}, trace{0}, compile{0};  // times of this rank
  bool operator==(const CallEvent&) const = default;
};
[[nodiscard]] std::string_view outcome_name(CallEvent::Outcome outcome);

}  // namespace lockstep::coordinator
