// Reads the record of a job (README.md, "Records"). What a crash leaves behind, a last line that
// was cut, is tolerated and said; anything else that is not a record is an error with file and
// line.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/record.h>

namespace lockstep::worker::simulator {

/// What one rank wrote during a call: an action that its machine asked for, or what came of it.
struct RecordedEvent {
  enum class Kind : std::uint8_t { Action, Trace, Explain, Compile };
  Kind kind = Kind::Action;
  std::string text;               // Action, Explain
  TraceReport trace;              // Trace
  std::optional<Status> failure;  // Compile
  Duration took{0};               // since the line before
  int line = 0;
};

struct RecordedCall {
  RoundKey key;
  Observation observation;
  std::optional<shapes::Fingerprint> seen;  // observation_digest() as the rank wrote it down
  Standing standing;
  std::optional<FrameState> stored;  // what the frame started from, on its first call
  std::vector<RecordedEvent> events;
  std::optional<CallOutcome> outcome;  // nullopt: the record ends within the call
  Duration pause{0}, closing{0};       // from the line before the call, and before its end
  int line = 0;
};

/// A round outside of calls that failed (settle, finish).
struct RecordedFailure {
  RoundKey key;
  Status error;
};

struct RankRecord {
  std::string path;
  RecordHeader header;
  std::map<std::string, RankSet> groups;
  std::vector<RecordedCall> calls;
  std::optional<RecordedFailure> failed_round;  // the last one
  bool truncated = false;                       // the last line was cut
  int lines = 0;                                // whole ones
};

/// All ranks of a job, by rank. Errors: BadInput, with file and line.
[[nodiscard]] Result<std::vector<RankRecord>> read_record(const std::string& directory);

}  // namespace lockstep::worker::simulator
