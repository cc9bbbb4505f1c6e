#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/worker/agree/exchange/consistency.h>
#include <lockstep/worker/agree/process/report_folder.h>
#include <lockstep/worker/agree/process/session.h>
#include <lockstep/worker/job/job.h>
#include <lockstep/worker/job/job_context.h>
#include <lockstep/worker/job/job_devices.h>
#include <lockstep/worker/job/job_groups.h>
#include <lockstep/worker/job/job_summary.h>
#include <lockstep/worker/job/job_toolchain.h>
#include <lockstep/worker/job/preview/infer_mode.h>

namespace lockstep::worker {
namespace {

/// Fingerprint of this program file, which must be the same on all ranks.
const std::string& build_id() { return build_of("/proc/self/exe"); }

std::string configuration(const Settings& settings, const DecisionConfig& decision,
                          Processor processor) {
  return settings.agreed_text() +
         fmt::format(
             "assume_at_least_two={}\nautomatic_dynamic={}\nbuild={}\nconsistency={}\n"
             "processor={}\nrecompile_limit={}\nsettle={}\nspecialize_float={}\nspecialize_int={}"
             "\n",
             decision.assume_at_least_two, decision.automatic_dynamic, build_id(),
             consistency_name(decision.consistency), processor == Processor::Cuda ? "cuda" : "host",
             decision.recompile_limit, decision.settle, decision.specialize_float,
             decision.specialize_int);
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

/// The joint error of a failed start. Kept by the process because report() has no job.
std::optional<Status>& told_at_start() {
  static std::optional<Status> told;
  return told;
}

/// Prints a joint error of the start, once for all ranks. This must happen while MPI is up:
/// afterwards mpirun ends all ranks when the first exits, perhaps before the error is printed.
Status tell_at_start(Board& board, const Status& status) {
  if (!board.claim_report(exit_code(status.code))) {
    Job::report(status);
    board.end_report();
  }
  told_at_start() = status;
  return status;
}

}  // namespace

struct Job::State final : RoundObserver {
  std::unique_ptr<InferMode> infer;   // set in RunMode::Inferred
  std::unique_ptr<TraceSheet> sheet;  // set in RunMode::Traced and Inferred; used by world's watch
  Session session;
  World& world = session.world;
  std::unique_ptr<JobGroups> groups;
  JobContext context;
  JobToolchain toolchain{context};
  JobDevices devices{context};
  Processor processor = Processor::Host;
  std::deque<FrameRunner> frames;
  std::mutex refusing;
  std::deque<FrameRunner> refused;  // made during a call of another thread
  Instant started{0};
  bool summary = true;
  bool over = false;  // finished, failed or left

  [[nodiscard]] Result<void> trace(bool attached);
  [[nodiscard]] Result<World> join(WorldOptions& joining) const;
  void tell_failed(std::string_view what, const Status& status) const;
  [[nodiscard]] Result<void> publish();
  [[nodiscard]] Result<void> compare_start();
  void open_threads();
  [[nodiscard]] Result<void> open_devices();
  [[nodiscard]] Result<void> open_record();
  /// The ranks that agree: all, or this one alone with coordination off.
  [[nodiscard]] GroupContext& agreeing() {
    return context.agreeing(context.everyone, Consistency::SameGraph);
  }
  void reaches_call(const RoundKey& call) override { context.note(call.text()); }
  void began(const RoundKey& round) override { context.note(round.text()); }
  void ended(const RoundKey& round, const Result<void>& result) override;
  [[nodiscard]] Result<void> status_round(RoundKey::Kind kind, const RankStatus& rank_status = {});
  [[nodiscard]] Status tell_gone(const Status& gone);
  [[noreturn]] void end_process(const Status& why) const;
  [[nodiscard]] std::vector<FrameCounts> counts() const;
  [[nodiscard]] Result<void> print_summary();
};

/// Opens this rank's sheet, if the job is traced in place of being run.
Result<void> Job::State::trace(bool attached) {
  const Settings& settings = context.settings;
  if (!settings.trace) return {};
  auto opened = TraceSheet::open(*settings.trace, Rank{settings.rank}, settings.world_size,
                                 settings.rendezvous.empty());
  if (!opened) return opened.error();
  sheet = std::move(*opened);
  context.mode = RunMode::Traced;
  context.sheet = sheet.get();
  if (!settings.infer.empty()) {
    auto asked = InferMode::open(settings.infer);
    if (!asked) return asked.error();
    infer = std::move(*asked);
    context.mode = RunMode::Inferred;
    context.infer = infer.get();
  }
  sheet->leave_by([this] { leave_world(world, context.settings.deadline); });
  if (attached)
    sheet->note(
        "the job joins a communicator of the program's own, which has other ranks than the trace: "
        "what the program asks MPI itself is answered for one process");
  return {};
}

Result<World> Job::State::join(WorldOptions& joining) const {
  Result<void> found = find_ranks(joining, context.settings, build_id());
  Result<World> joined = found ? join_world(joining) : Result<World>(found.error());
  if (!joined) tell_failed("the start", joined.error());
  return joined;
}

void Job::State::tell_failed(std::string_view what, const Status& status) const {
  if (sheet) sheet->failed(what, status);
}

Result<void> Job::State::publish() {
  if (auto done = session.publish(context.settings, context.log); !done) return done;
  context.feed = session.feed();
  if (session.reporter() != nullptr) groups->observe(*session.reporter());
  return {};
}

Result<void> Job::State::compare_start() {
  return session.compare(configuration(context.settings, context.decision, processor), build_id());
}

/// Called when all ranks of this host have their seats on the board.
void Job::State::open_threads() {
  const BoardSnapshot seen = world.board->snapshot();
  std::vector<std::int32_t> here;
  for (const RankState& rank : seen.ranks)
    if (rank.known && rank.host == host_id()) here.push_back(rank.pid);
  const int wanted = context.settings.threads;
  context.threads = std::make_unique<Threads>(wanted > 0 ? wanted : share_of_cores(here));
}

Result<void> Job::State::open_devices() {
  if (auto open = devices.open(groups->everyone()); !open) return open;
  return devices.connect(context.everyone, groups->everyone());
}

Result<void> Job::State::open_record() {
  auto opened = session.open_record(context.settings, context.decision, this_program(),
                                    [this](const Status& status) { context.tell(status.message); });
  context.recorder = session.recorder();
  if (!opened || context.recorder == nullptr) return opened;
  groups->observe(*context.recorder);
  if (!context.settings.coordination) groups->record_alone();
  return {};
}

void Job::State::ended(const RoundKey& round, const Result<void>& result) {
  if (context.recorder != nullptr) context.recorder->round(round, result);
  if (!result) tell_failed(round.text(), result.error());
}

Result<void> Job::State::status_round(RoundKey::Kind kind, const RankStatus& rank_status) {
  GroupContext& all = agreeing();
  return all.rounds->status_round(all.round(kind), rank_status);
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
  const std::vector<FrameCounts> counted = counts();
  const auto lines = gather(*world.all, frame_lines(world.all->rank(), counted));
  if (!lines) return lines.error();
  if (world.all->rank().value == 0 && summary) {
    const std::string text = summary_text(world.all->size(), *lines, counted, groups->times(),
                                          least, most, toolchain.cost());
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
      options.settings ? Settings::traced(*options.settings) : Settings::from_environment();
  if (!settings) return settings.error();
  auto state = std::make_unique<State>();
  JobContext& context = state->context;
  if (options.check_captures) settings->check_captures = *options.check_captures;
  context.settings = *settings;
  context.decision = options.decision;
  state->processor = options.processor;
  // The defaults of PyTorch's autocast.
  if (options.processor == Processor::Cuda) state->context.low_precision = DType::F16;
  context.log = Log(settings->log);
  state->summary = options.summary;
  if (auto traced = state->trace(comm != nullptr); !traced) return traced.error();
  WorldOptions joining{
      .comm = comm, .deadline = settings->deadline, .report_dir = report_folder(*settings)};
  joining.before_end = [sheet = context.sheet,
                        told = std::move(options.before_end)](const Status& verdict) {
    if (sheet != nullptr) sheet->stop_if_peer_stopped(verdict);
    if (sheet != nullptr) sheet->failed("a wait", verdict);
    if (told) told(verdict);
  };
  auto world = state->join(joining);
  if (!world) return world.error();
  state->world = std::move(*world);
  state->groups = std::make_unique<JobGroups>(state->world, context, *state);
  if (auto open = state->groups->open(); !open) return open.error();
  context.watch = state->world.watch.get();
  state->started = context.clock.now();
  auto job = std::unique_ptr<Job>(new Job(std::move(state)));
  State& s = *job->state_;
  s.over = true;  // there is no job to leave until the ranks have compared their settings
  Board& board = *s.world.board;
  if (auto same = s.compare_start(); !same) {
    s.tell_failed("the start", same.error());
    return tell_at_start(board, same.error());
  }
  if (!context.settings.coordination && job->rank() == 0)
    context.log.line("info",
                     "lockstep: LOCKSTEP_COORDINATION=off: every rank decides for itself; expect "
                     "hangs and wrong numbers");
  if (auto published = s.publish(); !published) return tell_at_start(board, published.error());
  s.over = false;
  if (job->rank() == 0 && context.runs()) prune_reports(context.settings);
  // A rank that cannot start must not leave the others waiting.
  const auto record = s.open_record();
  RankStatus rank_status;
  if (!record) rank_status.local_error = record.error();
  const bool runs = context.runs();  // if not, nothing is built and no device is needed
  if (runs) s.toolchain.open_directories();
  if (runs) s.open_threads();
  auto ready = s.status_round(RoundKey::Kind::Start, rank_status);
  if (runs && ready && s.processor == Processor::Cuda) ready = s.open_devices();
  if (runs && ready) ready = s.toolchain.agree(s.agreeing().driver(), s.agreeing().rounds->key());
  if (!ready) {
    s.over = true;
    return tell_at_start(board, ready.error());
  }
  return job;
}

Job::~Job() {
  if (!state_) return;
  // A call of another thread uses what would be destroyed.
  const auto turn = state_->context.turns.take("the end of the job");
  if (!turn) state_->end_process(turn.error());
  if (!state_->over)
    leave(std::uncaught_exceptions() > 0 ? "an exception ended its program"
                                         : "its program ended without finish()");
}

int Job::rank() const { return state_->world.all->rank().value; }
int Job::size() const { return state_->world.all->size(); }
JobContext& Job::context() { return state_->context; }

FrameRunner& Job::add_frame(std::string name, const FrameOptions& options) {
  const auto turn = state_->context.turns.take(name);
  if (!turn) {
    const std::scoped_lock lock(state_->refusing);
    return state_->refused.emplace_back(state_->context, std::move(name), turn.error());
  }
  const int index = static_cast<int>(state_->frames.size());
  if (options.audit || options.consistency == Consistency::Local) state_->groups->record_alone();
  return state_->frames.emplace_back(state_->context, std::move(name), index, options);
}

Result<LoadedFrame> Job::load(const std::string& path, const LoadOptions& options) {
  return load(read_program(path, {.known = options.own_ops}), path, options);
}

Result<LoadedFrame> Job::load(Result<SavedProgram> program, const std::string& from,
                              const LoadOptions& options) {
  const auto turn = state_->context.turns.take("load()");
  if (!turn) return turn.error();
  return load_frame(state_->context, std::move(program), from, options,
                    [this](std::string name, const FrameOptions& made) -> FrameRunner& {
                      return add_frame(std::move(name), made);
                    });
}

FrameRunner& Job::frame_traced_by(std::string name, DistantTracer tracer) {
  FrameRunner& made = add_frame(std::move(name), {});
  made.trace_by(std::move(tracer));
  return made;
}

Result<Group> Job::group(std::string name, const RankSet& members) {
  const auto turn = state_->context.turns.take("group()");
  if (!turn) return turn.error();
  auto group = state_->groups->declare(name, members);
  if (!group) state_->tell_failed("group " + name, group.error());
  if (!group || group->empty() || !state_->context.device) return group;
  GroupContext& at = *state_->context.group(*group);
  if (auto connected = state_->devices.connect(at, at.driver()); !connected)
    return connected.error();
  return group;
}

Result<void> Job::settle() {
  const auto turn = state_->context.turns.take("settle()");
  if (!turn) return turn.error();
  return state_->status_round(RoundKey::Kind::Settle);
}

Result<bool> Job::more(bool have) {
  const auto turn = state_->context.turns.take("more()");
  if (!turn) return turn.error();
  GroupContext& all = state_->agreeing();
  return all.rounds->any_rank(all.round(RoundKey::Kind::More), have);
}

Result<void> Job::resync() {
  JobContext& context = state_->context;
  const auto turn = context.turns.take("resync()");
  if (!turn) return turn.error();
  const auto resync = [](const GroupContext& ranks) {
    return ranks.rounds->resync(ranks.round(RoundKey::Kind::Resync));
  };
  if (auto all = resync(state_->agreeing()); !all) return all;
  // Sets of one name are disjoint and all ranks take the names in the same order, so waits form no
  // ring.
  if (context.settings.coordination)
    for (const auto& [name, group] : context.groups)
      if (auto all = resync(group); !all) return all;
  return {};
}

Result<void> Job::finish() {
  State& s = *state_;
  const auto turn = s.context.turns.take("finish()");
  if (!turn) return turn.error();
  RankStatus rank_status;
  rank_status.pending = program_fingerprint(s.counts()).low;
  s.over = true;
  if (!s.context.settings.coordination) {
    // Ranks that decided alone still end together: a stuck rank is found here.
    s.context.note("finish");
    if (auto all = s.groups->everyone().status_round({.kind = RoundKey::Kind::Finish}, {}); !all)
      return all;
  } else if (auto all = s.status_round(RoundKey::Kind::Finish, rank_status); !all) {
    return all;
  }
  s.devices.close();
  if (!s.context.runs()) {
    s.sheet->finished();
    return {};
  }
  return s.print_summary();
}

Status Job::leave(const std::string& why) {
  const auto turn = state_->context.turns.take("the end of the job");
  if (!turn) state_->end_process(turn.error());
  state_->over = true;
  Status told =
      state_->tell_gone({Code::Gone, fmt::format("rank {} left the job: {}", rank(), why)});
  state_->devices.abort();
  return told;
}

/// Reports to the peers that this rank leaves; returns the error that all ranks get.
Status Job::State::tell_gone(const Status& gone) {
  const GroupContext& all = agreeing();
  const PeersGo peers = context.groups.empty() ? PeersGo::On : PeersGo::Elsewhere;
  const auto unheard = all.rounds->leave(all.round(RoundKey::Kind::Close), gone, peers);
  if (!unheard) return unheard.error();
  world.end_job(gone);
  return gone;
}

/// Ends the process during a call of another thread: nothing can be destroyed, and no round made.
void Job::State::end_process(const Status& why) const {
  world.end_job(why);
  report(why);
  std::_Exit(exit_code(why.code));
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
  const auto turn = state_->context.turns.take("the end of the job");
  if (!turn) state_->end_process(status);
  state_->over = true;
  state_->devices.abort();
  state_->tell_failed("the job", status);
  // The error is joint: the first rank to claim the report prints it for all. For a job that is
  // traced, the command prints it.
  if (!state_->context.runs()) return exit_code(status.code);
  Board& board = *state_->world.board;
  if (!board.claim_report(exit_code(status.code))) {
    report(status);
    board.end_report();
  }
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
