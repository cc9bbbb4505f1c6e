#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/collectives/startup.h>
#include <lockstep/worker/host_toolchain.h>
#include <lockstep/worker/job.h>
#include <lockstep/worker/job_context.h>
#include <lockstep/worker/job_groups.h>
#include <lockstep/worker/job_summary.h>
#include <lockstep/worker/world.h>

namespace lockstep::worker {
namespace {

/// Tells builds apart: ranks must run the same program file.
std::string build_id() {
  std::ifstream self("/proc/self/exe", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(self), {}};
  return shapes::fingerprint(bytes).text();
}

std::string configuration(const Settings& settings, const DecisionConfig& decision) {
  return settings.agreed_text() +
         fmt::format(
             "assume_at_least_two={}\nautomatic_dynamic={}\nbuild={}\nconsistency={}\n"
             "recompile_limit={}\n",
             decision.assume_at_least_two, decision.automatic_dynamic, build_id(),
             static_cast<int>(decision.consistency), decision.recompile_limit);
}

std::string what(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

/// The joint error of a start that failed. Kept by the process because report() has no job to ask.
std::optional<Status>& told_at_start() {
  static std::optional<Status> told;
  return told;
}

/// Prints a joint error of the start, once for all ranks. It must happen while MPI is up: after
/// that the first rank to exit has mpirun end the others, perhaps the one that was to speak.
Status tell_at_start(Board& board, const Status& status) {
  if (!board.claim_report(exit_code(status.code))) Job::report(status);
  told_at_start() = status;
  return status;
}

}  // namespace

struct Job::State {
  World world;
  std::unique_ptr<JobGroups> groups;
  std::unique_ptr<HostToolchain> toolchain;
  std::unique_ptr<coordinator::ArtifactStore> artifacts;
  std::unique_ptr<Recorder> recorder;
  JobContext context;
  std::deque<FrameRunner> frames;
  Instant started{0};
  bool summary = true;
  bool over = false;  // finished, failed or left

  [[nodiscard]] Result<void> compare_start();
  [[nodiscard]] Result<void> open_tools();
  /// All ranks, or this one alone where coordination is off.
  [[nodiscard]] GroupContext& agreeing() {
    return context.agreeing(context.everyone, Consistency::SameGraph);
  }
  [[nodiscard]] Result<void> status_round(RoundKey::Kind kind, const Standing& standing);
  [[nodiscard]] std::vector<FrameCounts> counts() const;
  [[nodiscard]] Result<void> print_summary();
};

/// This rank's place among those of its host, as the board shows it: who builds which unit.
Result<void> Job::State::compare_start() {
  return collectives::startup_round(*world.all, configuration(context.settings, context.decision));
}

Result<void> Job::State::open_tools() {
  auto compiler =
      HostToolchain::open({.compiler = context.settings.compiler, .limit = kBuildLimit});
  if (!compiler) return compiler.error();
  toolchain = std::move(*compiler);
  // What one rank's disk does to it, and what the job can do without.
  const auto tell = [log = context.log, rank = world.all->rank().value](const Status& status) {
    log.line("info", fmt::format("lockstep: rank {}: {}", rank, status.message));
  };
  if (!context.settings.record_dir.empty()) {
    auto opened = Recorder::open(context.settings.record_dir,
                                 {.world_size = world.all->size(),
                                  .rank = world.all->rank(),
                                  .config = context.decision,
                                  .build_id = build_id()},
                                 tell);
    if (!opened) return opened.error();
    recorder = std::move(*opened);
    context.recorder = recorder.get();
    if (!context.settings.coordination) groups->record_alone();
  }
  const std::string& directory = context.settings.cache_dir;
  std::error_code ignored;  // the store says what is wrong with the directory
  std::filesystem::create_directories(std::filesystem::path(directory).parent_path(), ignored);
  auto store = coordinator::ArtifactStore::open({.directory = directory, .report = tell});
  if (store) {
    artifacts = std::move(*store);
  } else {
    // A rank without a cache builds what it needs; it is no reason to stop the job.
    context.log.line("info", fmt::format("lockstep: rank {} goes on without an artifact cache: {}",
                                         world.all->rank().value, store.error().message));
  }
  return {};
}

Result<void> Job::State::status_round(RoundKey::Kind kind, const Standing& standing) {
  GroupContext& all = agreeing();
  all.key.kind = kind;
  all.key.frame.clear();
  all.key.consistency.reset();
  all.key.attempt = 0;
  ++all.key.call;
  context.note(all.key.text());
  auto result = all.driver->status_round(all.key, standing);
  if (recorder) recorder->round(all.key, result);
  return result;
}

std::vector<FrameCounts> Job::State::counts() const {
  std::vector<FrameCounts> all;
  for (const FrameRunner& frame : frames) all.push_back(frame.counts());
  return all;
}

Result<void> Job::State::print_summary() {
  const JobTimes mine = JobTimes::of(context, groups->times(), context.clock.now() - started);
  JobTimes least, most;
  for (auto [reduce, into] :
       {std::pair{collectives::Reduce::Min, &least}, {collectives::Reduce::Max, &most}}) {
    const collectives::Collective over_ranks{.kind = collectives::Collective::Kind::AllReduce,
                                             .dtype = DType::F64,
                                             .reduce = reduce,
                                             .send = mine.seconds,
                                             .receive = into->seconds,
                                             .rows = JobTimes::kCount,
                                             .label = "summary"};
    if (auto done = world.all->run(over_ranks); !done) return done;
  }
  if (world.all->rank().value == 0 && summary) {
    const std::string text =
        summary_text(world.all->size(), counts(), groups->times(), least, most, toolchain->cost());
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }
  return {};
}

Job::Job(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Job>> Job::init(int*, char***, JobOptions options) {
  return attach_to(nullptr, std::move(options));
}

Result<std::unique_ptr<Job>> Job::attach_to(const void* comm, JobOptions options) {
  Result<Settings> settings =
      options.settings ? Result<Settings>(*options.settings) : Settings::from_environment();
  if (!settings) return settings.error();
  auto state = std::make_unique<State>();
  JobContext& context = state->context;
  context.settings = *settings;
  context.decision = options.decision;
  context.log = Log(settings->log);
  state->summary = options.summary;
  auto world = join_world(comm, settings->deadline, settings->record_dir);
  if (!world) return world.error();
  state->world = std::move(*world);
  state->groups = std::make_unique<JobGroups>(state->world, context);
  if (auto open = state->groups->open(); !open) return open.error();
  context.watch = state->world.watch.get();
  state->started = context.clock.now();
  auto job = std::unique_ptr<Job>(new Job(std::move(state)));
  State& s = *job->state_;
  s.over = true;  // until the ranks have agreed there is nothing to leave
  Board& board = *s.world.board;
  if (auto same = s.compare_start(); !same) return tell_at_start(board, same.error());
  s.groups->find_places();
  if (!context.settings.coordination && job->rank() == 0)
    context.log.line("info",
                     "lockstep: LOCKSTEP_COORDINATION=off: every rank decides for itself; expect "
                     "hangs and wrong numbers");
  s.over = false;
  // A rank that lacks a compiler must not leave the others waiting.
  const auto tools = s.open_tools();
  Standing standing;
  if (!tools) standing.trouble = tools.error();
  if (auto ready = s.status_round(RoundKey::Kind::Start, standing); !ready) {
    s.over = true;
    return tell_at_start(board, ready.error());
  }
  context.toolchain = s.toolchain.get();
  context.artifacts = s.artifacts.get();
  return job;
}

Job::~Job() {
  if (!state_) return;
  if (!state_->over)
    leave(std::uncaught_exceptions() > 0 ? "an exception ended its program"
                                         : "its program ended without finish()");
}

int Job::rank() const { return state_->world.all->rank().value; }
int Job::size() const { return state_->world.all->size(); }

FrameRunner& Job::add_frame(std::string name, const FrameOptions& options) {
  const int index = static_cast<int>(state_->frames.size());
  if (options.audit || options.consistency == Consistency::Local) state_->groups->record_alone();
  return state_->frames.emplace_back(state_->context, std::move(name), index, options);
}

Result<Group> Job::group(std::string name, const RankSet& members) {
  return state_->groups->declare(std::move(name), members);
}

Result<void> Job::settle() { return state_->status_round(RoundKey::Kind::Settle, {}); }

Result<void> Job::finish() {
  State& s = *state_;
  Standing standing;
  standing.pending = program_fingerprint(s.counts()).low;
  s.over = true;
  if (!s.context.settings.coordination) {
    // Ranks that decided for themselves still end together: whoever is stuck is found here.
    s.context.note("finish");
    if (auto all = s.groups->everyone().status_round({.kind = RoundKey::Kind::Finish}, {}); !all)
      return all;
  } else if (auto all = s.status_round(RoundKey::Kind::Finish, standing); !all) {
    return all;
  }
  return s.print_summary();
}

Status Job::leave(const std::string& why) {
  state_->over = true;
  Status gone{Code::Gone, fmt::format("rank {} left the job: {}", rank(), why), {}, {}};
  // Peers may wait in any of the groups, where no round of all ranks reaches them.
  if (!state_->context.groups.empty() && state_->context.watch != nullptr) {
    std::fflush(nullptr);
    state_->context.watch->end_job(gone);
  }
  const auto told = state_->status_round(RoundKey::Kind::Close, {.pending = 0, .trouble = gone});
  return told ? gone : told.error();
}

int Job::run(const std::function<Result<void>()>& program) {
  Result<void> outcome;
  try {
    outcome = program();
  } catch (...) {
    return fail(leave(what(std::current_exception())));
  }
  if (outcome) outcome = finish();
  return outcome ? 0 : fail(outcome.error());
}

int Job::fail(const Status& status) {
  state_->over = true;
  // The error is joint: one rank prints it for all. The first to claim the report is the one.
  if (!state_->world.board->claim_report(exit_code(status.code))) report(status);
  return exit_code(status.code);
}

int Job::report(const Status& status) {
  if (told_at_start() == status) return exit_code(status.code);
  const std::string text = "lockstep: " + status.text() + "\n";
  std::fflush(stdout);
  std::fputs(text.c_str(), stderr);
  return exit_code(status.code);
}

}  // namespace lockstep::worker
