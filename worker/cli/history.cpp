// lockstep history [JOB]
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <lockstep/coordinator/store/history_store.h>
#include <lockstep/worker/agree/process/settings.h>
#include <lockstep/worker/cli/history_table.h>
#include <lockstep/worker/cli/subcommand.h>

namespace lockstep::worker::cli {
namespace {

using namespace coordinator;

struct HistoryOptions {
  std::string job, store;
  bool json = false;
};

/// Returns the stored profile of a job; empty if none is stored, as for a job without an id.
std::vector<std::pair<FrameKey, Profile>> profile_of(const std::string& directory,
                                                     const std::string& job) {
  auto store =
      ProfileStore::open({.directory = directory, .job_id = job, .access = Database::Access::Read});
  if (!store) return {};
  auto all = (*store)->all();
  return all ? *std::move(all) : std::vector<std::pair<FrameKey, Profile>>{};
}

Result<RecordedJobs> read(HistoryStore& store, const std::string& job) {
  RecordedJobs recorded;
  recorded.job = job;
  recorded.now =
      std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  auto runs = store.runs(job);
  if (!runs) return runs.error();
  for (HistoryRun& run : *runs) {
    RecordedRun& one = recorded.runs.emplace_back();
    one.run = std::move(run);
    if (job.empty()) continue;
    auto calls = store.calls(one.run);
    if (!calls) return calls.error();
    auto notes = store.notes(one.run);
    if (!notes) return notes.error();
    one.calls = *std::move(calls);
    one.notes = *std::move(notes);
  }
  return recorded;
}

int run(const HistoryOptions& options) {
  const auto settings = Settings::from_environment();
  if (!settings) return complain(settings.error());
  const std::string directory = options.store.empty() ? settings->stores_dir() : options.store;
  auto store = HistoryStore::open({.directory = directory, .access = Database::Access::Read});
  if (!store) return complain(store.error());
  auto recorded = read(**store, options.job);
  if (!recorded) return complain(recorded.error());
  if (!options.job.empty()) {
    recorded->profile = profile_of(settings->stores_dir(), options.job);
    if (recorded->runs.empty() && recorded->profile.empty())
      return complain(
          fmt::format("there is no run of a job {} in the history; lockstep history lists those "
                      "that there are.",
                      options.job),
          kUsage);
  }
  return print_result(options.json ? history_document(*recorded) : history_table(*recorded), kOk);
}

}  // namespace

std::function<int()> declare_history(CLI::App& app) {
  auto options = std::make_shared<HistoryOptions>();
  app.add_option("JOB", options->job, "one job, with what it compiled and why")
      ->type_name("JOB")
      ->default_str("all jobs");
  app.add_option("--store", options->store, "directory that the coordinator was given with --store")
      ->type_name("DIR")
      ->default_str("stores/ in the cache directory");
  app.add_flag("--json", options->json, "print one JSON document instead of a table");
  describe(app, {.codes = {{kUsage, "wrong usage, or no such job"},
                           {6, "written by a later lockstep"},
                           {kEnvironment, "there is no history, or it is damaged"}},
                 .variables = {"LOCKSTEP_CACHE_DIR"},
                 .examples = {"lockstep history", "lockstep history JOB --json"}});
  return [options] { return run(*options); };
}

}  // namespace lockstep::worker::cli
