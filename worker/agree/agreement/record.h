// The record of a job, one file of JSON lines per rank (record.md): what each rank observed,
// received and decided, so that a dry run can replay it. Written as the job runs. Never overwrites
// another record and never stops the job: if a write fails, the record ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/agree/agreement/call_driver.h>
#include <lockstep/worker/agree/exchange/columns.h>

namespace lockstep::worker {

inline constexpr std::string_view kRecordFormat = "lockstep.record/1";

/// The first line of a rank's file.
struct RecordHeader {
  int world_size = 1;
  Rank rank{};
  DecisionConfig config;
  std::string build_id;
  std::int64_t columns = kColumnsVersion;  // version of the ranks' messages
  /// How this rank's process was started; nullopt: not known.
  struct Program {
    std::string path, directory;
    std::vector<std::string> arguments;  // without the program's name
    bool operator==(const Program&) const = default;
  };
  std::optional<Program> program{};
  bool operator==(const RecordHeader&) const = default;
};

/// The program of this process; nullopt: not known.
[[nodiscard]] std::optional<RecordHeader::Program> this_program();

/// "rank-00003.jsonl"
[[nodiscard]] std::string record_file_name(Rank rank);

/// Fingerprint of all that a rank observed of a call. It is recorded with the observation, so that
/// an observation altered afterwards is found even if that changes no decision. `placed`: the
/// orders of dims; in older records the strides.
[[nodiscard]] shapes::Fingerprint observation_digest(const Observation& observation,
                                                     std::span<const std::int64_t> placed);
[[nodiscard]] inline shapes::Fingerprint observation_digest(const Observation& observation) {
  return observation_digest(observation, observation.orders);
}

/// Writes one rank's file, as an observer of its drivers. Every line is one write(2) to a file
/// opened for appending, so a crash can cut the last line at most. Single-threaded.
class Recorder final : public CallObserver {
 public:
  /// Called once, when a write fails; the job goes on without the rest of its record.
  using Report = std::function<void(const Status&)>;
  /// Makes the directory if need be and writes the header. Errors: Environment (the directory
  /// cannot be written), BadInput (it holds a record already). They name the directory and not this
  /// rank's file, so that they are equal on ranks with the same problem.
  [[nodiscard]] static Result<std::unique_ptr<Recorder>> open(const std::string& directory,
                                                              const RecordHeader& header,
                                                              Report report = {});
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Writes the members of a group, as ranks of the job. To be called before the group's first
  /// call; groups that are not declared have all ranks.
  void group(std::string_view name, const RankSet& members);
  /// Writes one of the program's agreements, before its first call. Calls refer to it by `number`
  /// (CodeCache::agreement), which is the same on all ranks.
  void agreement(int number, std::string_view name, const DecisionConfig& config);
  /// Writes the stored state (a profile) that a frame starts from, before its first call.
  /// `agreement`: CodeCache::agreement.
  void restored(std::string_view frame, const FrameState& state, int agreement = 0);
  /// Writes the entries of a saved program that a frame starts from, before its first call: the
  /// bytes of saved/start_entries.h. `group`: as in the keys of its calls.
  void started(std::string_view frame, std::string_view group, std::span<const std::byte> entries);
  void began(const CallMachine& machine) override;
  void acts(const Action& action) override;
  void traced(const TraceReport& report) override;
  void explained(std::string_view text) override;
  void compiled(const std::optional<Status>& failure) override;
  void ended(const CallMachine& machine, const CallOutcome& outcome,
             const CallTimes& took) override;
  /// Writes a round outside of calls (settle, finish); for readers, not replayed.
  void round(const RoundKey& key, const Result<void>& result);

 private:
  class Line;
  Recorder(int fd, std::string path);
  void write(const Line& line);
  [[nodiscard]] std::int64_t since_last();

  int fd_;
  std::string path_;
  Report report_;
  SystemClock clock_;
  Instant last_;
  std::set<shapes::Fingerprint> known_lists_;
  bool cut_ = false;  // the disk took no more; nothing is written after that
};

}  // namespace lockstep::worker
