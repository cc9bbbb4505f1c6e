// The record of a job, one file of JSON lines per rank (record.md): what each rank
// observed, was told and decided, so that a dry run can do it again. Written as it happens; refuses
// to overwrite another record, and never stops the job: where the disk gives out, the record ends.
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
#include <lockstep/worker/agreement/call_driver.h>
#include <lockstep/worker/exchange/columns.h>

namespace lockstep::worker {

inline constexpr std::string_view kRecordFormat = "lockstep.record/1";

/// The first line of a rank's file.
struct RecordHeader {
  int world_size = 1;
  Rank rank{};
  DecisionConfig config;
  std::string build_id;
  std::int64_t columns = kColumnsVersion;  // of what ranks sent
  /// How this rank's process was started; nothing where it is not known.
  struct Program {
    std::string path, directory;
    std::vector<std::string> arguments;  // without the program's name
    bool operator==(const Program&) const = default;
  };
  std::optional<Program> program{};
  bool operator==(const RecordHeader&) const = default;
};

/// Of this process.
[[nodiscard]] std::optional<RecordHeader::Program> this_program();

/// "rank-00003.jsonl"
[[nodiscard]] std::string record_file_name(Rank rank);

/// Covers all that a rank observed of a call. Recorded beside it, so that an observation that was
/// altered afterwards is found even where it would have changed no decision. `placed` stands for
/// the orders of dims: records had strides once.
[[nodiscard]] shapes::Fingerprint observation_digest(const Observation& observation,
                                                     std::span<const std::int64_t> placed);
[[nodiscard]] inline shapes::Fingerprint observation_digest(const Observation& observation) {
  return observation_digest(observation, observation.orders);
}

/// Writes one rank's file, as an observer of its drivers. Every line is one write(2) to a file
/// opened for appending, so a crash can cut the last line at most. One thread.
class Recorder final : public CallObserver {
 public:
  /// Told once where the disk takes no more; the job goes on without the rest of its record.
  using Report = std::function<void(const Status&)>;
  /// Makes the directory if need be and writes the header. Errors, which name the directory and not
  /// this rank's file, so that ranks with the same trouble say the same: Environment (cannot be
  /// written), BadInput (it holds a record already).
  [[nodiscard]] static Result<std::unique_ptr<Recorder>> open(const std::string& directory,
                                                              const RecordHeader& header,
                                                              Report report = {});
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The ranks of a group, as ranks of the job, before its first call; groups that are not declared
  /// are all ranks.
  void group(std::string_view name, const RankSet& members);
  /// One of the program's agreements, before its first call: calls say its number
  /// (CodeCache::agreement). The same on all ranks.
  void agreement(int number, std::string_view name, const DecisionConfig& config);
  /// Before the first call of a frame that starts from a stored state (a profile).
  /// `agreement`: CodeCache::agreement.
  void restored(std::string_view frame, const FrameState& state, int agreement = 0);
  /// Before the first call of a frame that starts from entries of a saved program: the bytes of
  /// saved/start_entries.h. `group`: of its calls' keys.
  void started(std::string_view frame, std::string_view group, std::span<const std::byte> entries);
  void began(const CallMachine& machine) override;
  void acts(const Action& action) override;
  void traced(const TraceReport& report) override;
  void explained(std::string_view text) override;
  void compiled(const std::optional<Status>& failure) override;
  void ended(const CallMachine& machine, const CallOutcome& outcome,
             const CallTimes& took) override;
  /// A round outside of calls (settle, finish); for readers, not replayed.
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
