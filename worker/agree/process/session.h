// One process's part in a job: the ranks that it joined, and the coordinator and the record that
// observe its calls. Held by a Job and by a group of the C library.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <lockstep/coordinator/store/artifact_store.h>
#include <lockstep/coordinator/store/profile_store.h>
#include <lockstep/worker/agree/agreement/call_reporter.h>
#include <lockstep/worker/agree/agreement/record.h>
#include <lockstep/worker/agree/process/log.h>
#include <lockstep/worker/agree/process/settings.h>
#include <lockstep/worker/agree/process/world.h>

namespace lockstep::worker {

/// Identifies the build of a program or library: the fingerprint of its file. Read once per path.
[[nodiscard]] const std::string& build_of(const std::string& path);

/// Members are destroyed in reverse order: observers of calls before the world.
class Session {
 public:
  World world;

  /// Collective: the ranks compare their configurations. `build`: build_of(). Errors: those of
  /// startup_round().
  [[nodiscard]] Result<void> compare(std::string configuration, std::string build);
  /// Collective, after compare(): makes this rank report to a coordinator, as `settings` say.
  /// Errors: those of publish_progress().
  [[nodiscard]] Result<void> publish(const Settings& settings, const Log& log);
  /// Opens this rank's file of the record, if the settings name a folder. `config` and `program`
  /// as in RecordHeader. Errors: those of Recorder::open().
  [[nodiscard]] Result<void> open_record(const Settings& settings, const DecisionConfig& config,
                                         std::optional<RecordHeader::Program> program,
                                         Recorder::Report report);

  /// Null: no coordinator follows the calls.
  [[nodiscard]] const std::shared_ptr<coordinator::Feed>& feed() const { return feed_; }
  /// Null: no coordinator follows the calls.
  [[nodiscard]] CallReporter* reporter() const { return reporter_.get(); }
  /// Null: there is no record.
  [[nodiscard]] Recorder* recorder() const { return recorder_.get(); }

 private:
  std::string configuration_, build_;
  std::shared_ptr<coordinator::Feed> feed_;
  std::unique_ptr<CallReporter> reporter_;
  std::unique_ptr<Recorder> recorder_;
};

/// Opens the stores of this user, at the places in `settings`. `report` receives later errors of
/// the disk. Errors: the stores'.
[[nodiscard]] Result<std::unique_ptr<coordinator::ArtifactStore>> open_artifacts(
    const Settings& settings, std::function<void(const Status&)> report);
[[nodiscard]] Result<std::unique_ptr<coordinator::ProfileStore>> open_profiles(
    const Settings& settings, std::function<void(const Status&)> report);

}  // namespace lockstep::worker
