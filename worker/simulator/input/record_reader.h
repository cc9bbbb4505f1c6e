// Reads the record of a job (agreement/record.md). A last line that a crash cut off is tolerated
// and reported; any other defect is an error with file and line. Calls are not held: CallIndex
// reads them again.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/simulator/input/call_index.h>

namespace lockstep::worker::simulator {

/// Call or round that ended in an error.
struct RecordedFailure {
  RoundKey key;
  Status error;
};

struct RankRecord {
  std::string path;
  RecordHeader header;
  std::map<std::string, RankSet> groups;
  RecordedAgreements agreements;                      // agreements of programs that call the
                                                      // library
  std::map<std::string, DecisionConfig> own_configs;  // configurations of the agreements' frames
  CallIndex calls;
  std::optional<RecordedCall> last_call;
  std::array<std::size_t, 4> outcomes{};  // number of calls, by CallOutcome::Kind
  std::optional<RoundKey> first_error;    // key of the first call with an error
  std::optional<RecordedFailure> last_error;
  std::optional<RecordedFailure> failed_round;  // the last one outside of calls (settle, finish)
  bool truncated = false;                       // the last line was cut off
  bool profiled = false;                        // frames started from states of earlier runs
  bool loaded = false;                          // frames started from saved programs
  int lines = 0;                                // number of whole lines

  [[nodiscard]] bool ends_within_a_call() const { return last_call && !last_call->outcome; }
};

/// Receives every call of every rank once, rank by rank. `call` is the current rank.last_call.
using CallVisitor = std::function<void(const RankRecord& rank, const RecordedCall& call)>;

/// Reads all ranks of a job, ordered by rank. Errors: BadInput, with file and line.
[[nodiscard]] Result<std::vector<RankRecord>> read_record(const std::string& directory,
                                                          const CallVisitor& visit = {});

}  // namespace lockstep::worker::simulator
