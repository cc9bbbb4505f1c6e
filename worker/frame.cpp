#include <lockstep/worker/frame.h>

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/build.h>
#include <lockstep/worker/codegen.h>
#include <lockstep/worker/interpreter.h>
#include <lockstep/worker/job_context.h>

namespace lockstep::worker {

/// A graph that can be run: built, or by the interpreter.
struct FrameRunner::Compiled {
  Graph graph;
  std::unique_ptr<Executable> executable;  // null: interpreted
  bool ran = false;
};

struct FrameRunner::State {
  JobContext& job;
  Frame cache;
  int index = 0;
  std::map<int, Compiled> entries;
  Observation spare;
  FrameCounts counts;
};

namespace {

double milliseconds(Duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

/// The settle rounds of one run: each has a key of its own.
class SettleRounds final : public RunHost {
 public:
  explicit SettleRounds(JobContext& job) : job_(job) {}
  Result<void> settle(const std::optional<Status>& mine) override {
    RoundKey key = job_.key;
    key.kind = RoundKey::Kind::Settle;
    key.attempt = attempt_++;
    return job_.driver->status_round(key, {.pending = 0, .trouble = mine});
  }

 private:
  JobContext& job_;
  std::uint32_t attempt_ = 0;
};

}  // namespace

/// The tracing and compiling steps of one call.
class FrameRunner::Steps final : public CallSteps, private TraceHost {
 public:
  Steps(State& frame, const Observation& seen, const std::function<void(Trace&)>& body)
      : frame_(frame), seen_(seen), body_(body) {}

  Result<TraceReport> trace(const Decision& decision) override;
  std::string explain(std::size_t node) override;
  std::optional<Status> compile() override;

  [[nodiscard]] Compiled take() { return std::move(made_); }
  [[nodiscard]] const std::string& story() const { return story_; }

 private:
  Result<bool> group_any(bool mine) override;
  [[nodiscard]] Result<std::vector<Bytes>> build(const Program& program);
  State& frame_;
  const Observation& seen_;
  const std::function<void(Trace&)>& body_;
  Compiled made_;
  std::optional<Status> round_failed_;
  std::uint32_t questions_ = 0;
  std::string story_;
};

Result<TraceReport> FrameRunner::Steps::trace(const Decision& decision) {
  JobContext& job = frame_.job;
  job.phase(Phase::Tracing);
  const TraceSetup setup{.frame = frame_.cache.name,
                         .decision = decision,
                         .observation = &seen_,
                         .group_size = job.driver->group().size(),
                         .host = this};
  Result<Graph> graph = worker::trace(setup, body_);
  job.phase(Phase::Running);
  if (round_failed_) return *round_failed_;
  TraceReport report;
  if (!graph) {
    report.failure = graph.error();
    return report;
  }
  made_.graph = std::move(*graph);
  report.graph = made_.graph.fingerprint();
  report.guards = made_.graph.guards;
  report.prefixes = made_.graph.prefix_fingerprints();
  return report;
}

Result<bool> FrameRunner::Steps::group_any(bool mine) {
  RoundKey key = frame_.job.key;
  key.kind = RoundKey::Kind::Verify;
  key.attempt = ++questions_;
  auto answer = frame_.job.driver->any(key, mine);
  if (!answer) round_failed_ = answer.error();
  return answer;
}

std::string FrameRunner::Steps::explain(std::size_t node) {
  const Graph& graph = made_.graph;
  if (node >= graph.nodes.size()) return {};
  return fmt::format("{}   # {}", graph.node_text(static_cast<NodeId>(node)),
                     graph.nodes[node].where.text());
}

/// The units are shared out among the ranks of this host: each builds its own, and once all have,
/// every rank loads all of them from the store.
std::optional<Status> FrameRunner::Steps::compile() {
  JobContext& job = frame_.job;
  const Instant start = job.clock.now();
  job.phase(Phase::Compiling);
  Result<Program> program = generate(made_.graph);
  std::optional<Status> failure;
  if (!program) failure = program.error();
  int built = 0, reused = 0;
  if (program) {
    for (int unit = job.host_rank; unit < program->unit_count() && !failure; unit += job.host_size) {
      job.note(fmt::format("builds unit {} of {} of {}", unit, program->unit_count(), frame_.cache.name));
      auto done = build_unit(*program, unit, *job.toolchain, job.artifacts);
      if (!done) failure = done.error();
      else if (done->not_stored) failure = *done->not_stored;
      else done->reused ? ++reused : ++built;
    }
  }
  RoundKey key = job.key;
  key.kind = RoundKey::Kind::Commit;
  key.attempt = 1;
  if (auto all = job.driver->status_round(key, {.pending = 0, .trouble = failure}); !all) {
    job.phase(Phase::Running);
    return failure ? *failure : all.error();
  }
  job.phase(Phase::Loading);
  const int units = program->unit_count();
  auto loaded = Executable::load(std::move(*program), *job.toolchain, job.artifacts);
  job.phase(Phase::Running);
  if (!loaded) return loaded.error();
  made_.executable = std::move(*loaded);
  story_ = fmt::format("{} kernels in {} units ({} built here, {} found), {:.0f} ms",
                       made_.executable->program().kernels.size(), units, built, reused,
                       milliseconds(job.clock.now() - start));
  return std::nullopt;
}

FrameRunner::FrameRunner(JobContext& job, std::string name, int index)
    : state_(new State{.job = job, .cache = {}, .index = index, .entries = {}, .spare = {}, .counts = {}}) {
  state_->cache.name = name;
  state_->counts.frame = std::move(name);
  state_->counts.index = index;
}
FrameRunner::~FrameRunner() = default;

const FrameCounts& FrameRunner::counts() const { return state_->counts; }

Observation FrameRunner::take_observation() { return std::exchange(state_->spare, {}); }

std::string FrameRunner::last_text() const {
  const int rank = state_->job.driver->group().rank().value;
  switch (last_.kind) {
    case CallOutcome::Kind::Reused:
      return CompileMark{rank, state_->index, last_.entry, 0}.text() + " reused";
    case CallOutcome::Kind::Compiled:
      return CompileMark{rank, state_->index, last_.entry, 0}.text() + " compiled";
    case CallOutcome::Kind::Fallback:
      return fmt::format("[r{}|{}] interpreted", rank, state_->index);
    case CallOutcome::Kind::Error:
      break;
  }
  return fmt::format("[r{}|{}] error", rank, state_->index);
}

Status FrameRunner::refuse(const Status& status) {
  JobContext& job = state_->job;
  job.key.kind = RoundKey::Kind::Call;
  job.key.frame = state_->cache.name;
  ++job.key.call;
  const auto joint = job.driver->status_round(job.key, {.pending = 0, .trouble = status});
  last_ = {CallOutcome::Kind::Error, -1, joint ? status : joint.error()};
  ++state_->counts.calls, ++state_->counts.errors;
  return *last_.error;
}

Result<std::vector<Array>> FrameRunner::call(Observation observation,
                                             std::span<const InputValue> values,
                                             const std::function<void(Trace&)>& body) {
  State& frame = *state_;
  JobContext& job = frame.job;
  job.key.kind = RoundKey::Kind::Call;
  job.key.frame = frame.cache.name;
  ++job.key.call;
  job.note(job.key.text());
  const std::uint64_t fits = frame.cache.lookup(observation);
  const bool first = frame.cache.entries.empty();
  std::vector<Misfit> misfits;
  if (fits == 0 && !first && job.log.on("info")) misfits = frame.cache.explain(observation);

  Steps steps(frame, observation, body);
  last_ = job.driver->call(job.key, frame.cache, observation, {}, steps, {});
  ++frame.counts.calls;
  if (last_.kind == CallOutcome::Kind::Error) {
    ++frame.counts.errors;
    frame.spare = std::move(observation);
    return *last_.error;
  }
  Result<std::vector<Array>> outputs = std::vector<Array>{};
  if (last_.kind == CallOutcome::Kind::Fallback) {
    ++frame.counts.fallbacks;
    const Compiled interpreted = steps.take();
    outputs = run(interpreted, observation, values);
  } else {
    if (last_.kind == CallOutcome::Kind::Compiled) {
      ++frame.counts.compiled;
      frame.entries.insert_or_assign(last_.entry, steps.take());
      (void)misfits;
    } else {
      ++frame.counts.reused;
    }
    outputs = run(frame.entries.at(last_.entry), observation, values);
  }
  frame.spare = std::move(observation);
  return outputs;
}

}  // namespace lockstep::worker
