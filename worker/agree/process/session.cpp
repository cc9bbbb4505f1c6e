#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include <lockstep/collectives/base/private_folder.h>
#include <lockstep/collectives/startup.h>
#include <lockstep/shapes/expr/fingerprint.h>
#include <lockstep/worker/agree/process/job_publisher.h>
#include <lockstep/worker/agree/process/session.h>

namespace lockstep::worker {

const std::string& build_of(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(path);
  if (!is_new) return at->second;
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return at->second = shapes::fingerprint(bytes).text();
}

Result<void> Session::compare(std::string configuration, std::string build) {
  configuration_ = std::move(configuration);
  build_ = std::move(build);
  return collectives::startup_round(*world.all, configuration_);
}

Result<void> Session::publish(const Settings& settings, const Log& log) {
  auto feed = publish_progress(world, settings, log, build_, configuration_);
  if (!feed) return feed.error();
  feed_ = *std::move(feed);
  if (feed_) reporter_ = std::make_unique<CallReporter>(feed_);
  return {};
}

Result<void> Session::open_record(const Settings& settings, const DecisionConfig& config,
                                  std::optional<RecordHeader::Program> program,
                                  Recorder::Report report) {
  if (settings.record_dir.empty()) return {};
  auto opened = Recorder::open(settings.record_dir,
                               {.world_size = world.all->size(),
                                .rank = world.all->rank(),
                                .config = config,
                                .build_id = build_,
                                .program = std::move(program)},
                               std::move(report));
  if (!opened) return opened.error();
  recorder_ = *std::move(opened);
  return {};
}

Result<std::unique_ptr<coordinator::ArtifactStore>> open_artifacts(
    const Settings& settings, std::function<void(const Status&)> report) {
  make_private_folder(std::filesystem::path(settings.cache_dir).parent_path());
  return coordinator::ArtifactStore::open({.directory = settings.cache_dir,
                                           .report = std::move(report),
                                           .limit = settings.cache_limit});
}

Result<std::unique_ptr<coordinator::ProfileStore>> open_profiles(
    const Settings& settings, std::function<void(const Status&)> report) {
  make_private_folder(settings.stores_dir());
  return coordinator::ProfileStore::open(
      {.directory = settings.stores_dir(), .job_id = settings.job_id, .report = std::move(report)});
}

}  // namespace lockstep::worker
