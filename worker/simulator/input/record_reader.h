// Reads the record of a job (agreement/record.md). What a crash leaves behind, a last line that
// was cut, is tolerated and said; anything else that is not a record is an error with file and
// line. Calls are not held: CallIndex reads them again.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/simulator/input/call_index.h>

namespace lockstep::worker::simulator {

/// A call or a round that ended in an error.
struct RecordedFailure {
  RoundKey key;
  Status error;
};

struct RankRecord {
  std::string path;
  RecordHeader header;
  std::map<std::string, RankSet> groups;
  RecordedAgreements agreements;                      // of programs that call the library for them
  std::map<std::string, DecisionConfig> own_configs;  // of their frames
  CallIndex calls;
  std::optional<RecordedCall> last_call;
  std::array<std::size_t, 4> outcomes{};  // calls by CallOutcome::Kind
  std::optional<RoundKey> first_error;    // of a call
  std::optional<RecordedFailure> last_error;
  std::optional<RecordedFailure> failed_round;  // outside of calls (settle, finish); the last one
  bool truncated = false;                       // the last line was cut
  bool profiled = false;                        // frames started from what earlier runs had learnt
  bool loaded = false;                          // frames started from saved programs
  int lines = 0;                                // whole ones

  [[nodiscard]] bool ends_within_a_call() const { return last_call && !last_call->outcome; }
};

/// Sees every call of every rank once, rank by rank; the call is the last of `rank` so far.
using CallVisitor = std::function<void(const RankRecord& rank, const RecordedCall& call)>;

/// All ranks of a job, by rank. Errors: BadInput, with file and line.
[[nodiscard]] Result<std::vector<RankRecord>> read_record(const std::string& directory,
                                                          const CallVisitor& visit = {});

}  // namespace lockstep::worker::simulator
