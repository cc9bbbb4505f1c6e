#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/build.h>
#include <lockstep/worker/codegen.h>
#include <lockstep/worker/frame.h>
#include <lockstep/worker/interpreter.h>
#include <lockstep/worker/job_context.h>
#include <lockstep/worker/op.h>
#include <lockstep/worker/recorded_call.h>

namespace lockstep::worker {

/// A graph that can be run: built, or by the interpreter.
struct FrameRunner::Compiled {
  Graph graph;  // where it is interpreted
  shapes::Fingerprint fingerprint;
  std::uint64_t nodes = 0;
  std::string collectives;                 // one per line; what an audit compares
  std::unique_ptr<Executable> executable;  // null: interpreted
  Inputs inputs;                           // of the last run; the map is kept
};

struct FrameRunner::State {
  State(JobContext& context, GroupContext* group, const std::string& name, int number,
        const FrameOptions& options)
      : job(context),
        audited(options.audit),
        consistency(audited ? Consistency::Local
                            : options.consistency.value_or(context.decision.consistency)),
        over(group != nullptr ? *group : context.alone),
        agreed(context.agreeing(over, consistency)),
        cache(name),
        index(number) {
    counts.frame = name;
    counts.shared = &over == &job.everyone && consistency == Consistency::SameGraph;
    if (group == nullptr) unusable = not_of(options.group, name);
  }
  /// The key of this frame's next call.
  const RoundKey& next_call() {
    RoundKey& key = agreed.key;
    key.kind = RoundKey::Kind::Call;
    key.frame = cache.name;
    key.consistency.reset();
    if (consistency != job.decision.consistency) key.consistency = consistency;
    key.attempt = 0;
    ++key.call;
    return key;
  }
  static Status not_of(const Group& group, const std::string& frame) {
    return {Code::BadInput,
            fmt::format("frame {}: this rank is in no set of group {}; only its members make and "
                        "call its frames",
                        frame, group.name),
            group.name,
            {}};
  }

  JobContext& job;
  bool audited;
  AuditLedger findings;
  Consistency consistency;
  GroupContext& over;              // whose collectives the frame has
  GroupContext& agreed;            // who agrees on its calls
  std::optional<Status> unusable;  // by this rank; nothing was agreed on
  Frame cache;
  int index;
  std::map<int, Compiled> entries;
  Observation spare;
  bool told_fallback = false;
  FrameCounts counts;
};

namespace {

double milliseconds(Duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

Array single(DType dtype, double value) { return Array::of(dtype, {}, std::span(&value, 1)); }

/// "3 symbols: batch.tokens.size(0) (hint 16), …"
std::string symbols_text(const Decision& decision) {
  if (decision.symbols.empty()) return "all sizes static";
  std::string out =
      fmt::format("{} symbol{}:", decision.symbols.size(), decision.symbols.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < decision.symbols.size(); ++i) {
    const SymbolDecision& symbol = decision.symbols[i];
    out += fmt::format("{} {} like {}", i == 0 ? "" : ",", symbol.source, symbol.hint);
    if (symbol.min && *symbol.min > 0) out += fmt::format(" (at least {})", *symbol.min);
  }
  return out;
}

/// What other ranks would have to do as well: kind, group, attributes and sizes, without the number
/// of rows where ranks may differ in it.
std::string collectives_text(const Graph& graph) {
  std::string out;
  for (const Node& node : graph.nodes) {
    if (op_row(node.op).kind != OpClass::Collective) continue;
    out += fmt::format("{} of {}", op_row(node.op).name, dtype_name(node.meta.dtype));
    for (std::size_t d = node.op == Op::AllToAll ? 1 : 0; d < node.meta.sizes.size(); ++d)
      out += " x " + node.meta.sizes[d].text();
    if (!node.ints.empty()) out += fmt::format(", {{{}}}", fmt::join(node.ints, ", "));
    if (!node.text.empty()) out += ", group " + node.text;
    out += "\n";
  }
  return out;
}

/// This rank is busy and alive, though it makes no progress that others see: a slow compile is not
/// a dead rank. Renewed by the build of each unit.
class Lease {
 public:
  explicit Lease(JobContext& job) : job_(job) {
    job_.phase(Phase::Compiling);
    job_.busy_for(job_.settings.deadline);
  }
  ~Lease() {
    job_.busy_for(Duration{0});
    job_.phase(Phase::Running);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

 private:
  JobContext& job_;
};

/// The settle rounds of one run: each has a key of its own.
class SettleRounds final : public RunHost {
 public:
  SettleRounds(JobContext& job, GroupContext& agreed) : job_(job), agreed_(agreed) {}
  Result<void> settle(const std::optional<Status>& mine) override {
    RoundKey key = agreed_.key;
    key.kind = RoundKey::Kind::Settle;
    key.attempt = attempt_++;
    auto all = agreed_.driver->status_round(key, {.pending = 0, .trouble = mine});
    joint_error_ = joint_error_ || !all;
    return all;
  }
  collectives::Communicator* group(std::string_view name) override {
    const auto found = job_.groups.find(name);
    return found == job_.groups.end() ? nullptr : found->second.data;
  }
  /// A round failed, so all ranks have the error.
  [[nodiscard]] bool joint_error() const { return joint_error_; }

 private:
  JobContext& job_;
  GroupContext& agreed_;
  std::uint32_t attempt_ = 0;
  bool joint_error_ = false;
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
  [[nodiscard]] TraceReport report_of(Result<Graph> graph);
  [[nodiscard]] std::optional<Status> build(const Program& program, int unit,
                                            std::vector<Bytes>& objects);
  State& frame_;
  const Observation& seen_;
  const std::function<void(Trace&)>& body_;
  Compiled made_;
  std::optional<Status> round_failed_;
  std::uint32_t questions_ = 0;
  int built_ = 0;
  std::string story_;
};

Result<TraceReport> FrameRunner::Steps::trace(const Decision& decision) {
  JobContext& job = frame_.job;
  job.phase(Phase::Tracing);
  const TraceSetup setup{.frame = frame_.cache.name,
                         .decision = decision,
                         .observation = &seen_,
                         .group_size = frame_.over.data->size(),
                         .group = frame_.over.group,
                         .local = frame_.consistency == Consistency::Local && !frame_.audited,
                         .host = this};
  Result<Graph> graph = worker::trace(setup, body_);
  job.phase(Phase::Running);
  if (round_failed_) return *round_failed_;
  return report_of(std::move(graph));
}

TraceReport FrameRunner::Steps::report_of(Result<Graph> graph) {
  TraceReport report;
  if (!graph) {
    report.failure = graph.error();
    return report;
  }
  for (const Node& node : graph->nodes)
    if (op_row(node.op).kind == OpClass::Collective && !node.text.empty() &&
        frame_.job.groups.find(node.text) == frame_.job.groups.end()) {
      report.failure =
          Status{Code::TraceError,
                 fmt::format("frame {}: {}: group {} has not been declared in this job",
                             frame_.cache.name, node.where.text(), node.text),
                 {},
                 {}};
      return report;
    }
  made_.graph = std::move(*graph);
  report.graph = made_.fingerprint = made_.graph.fingerprint();
  made_.nodes = made_.graph.nodes.size();
  if (frame_.audited) made_.collectives = collectives_text(made_.graph);
  report.collectives = made_.graph.collectives_fingerprint();
  report.group_guards = made_.graph.group_guards;
  report.guards = made_.graph.guards;
  // What may differ need not be searched for what does.
  report.prefixes = frame_.consistency == Consistency::SameCollectives
                        ? made_.graph.joint_prefixes()
                        : made_.graph.prefix_fingerprints();
  report.skeleton = made_.graph.skeleton_fingerprint();
  return report;
}

Result<bool> FrameRunner::Steps::group_any(bool mine) {
  RoundKey key = frame_.agreed.key;
  key.kind = RoundKey::Kind::Verify;
  key.attempt = ++questions_;
  auto answer = frame_.agreed.driver->any(key, mine);
  if (!answer) round_failed_ = answer.error();
  return answer;
}

std::string FrameRunner::Steps::explain(std::size_t node) {
  const Graph& graph = made_.graph;
  if (frame_.consistency == Consistency::SameCollectives) {
    const std::vector<NodeId> joint = graph.joint_nodes();
    if (node >= joint.size()) return "";
    node = joint[node];
  }
  std::string text;
  if (node < graph.nodes.size())
    text = fmt::format("{}   # {}", graph.node_text(static_cast<NodeId>(node)),
                       graph.nodes[node].where.text());
  return text;
}

/// The units are shared out among the ranks of this host: each builds its own. Once all have, every
/// rank takes the others' from the store.
std::optional<Status> FrameRunner::Steps::compile() {
  JobContext& job = frame_.job;
  const GroupContext& agreed = frame_.agreed;
  const Instant start = job.clock.now();
  const Lease lease(job);
  Result<Program> program = generate(std::move(made_.graph));
  std::vector<Bytes> objects;
  std::optional<Status> failure;
  if (program) {
    objects.resize(program->units.size());
    for (int u = agreed.host_rank; u < program->unit_count() && !failure; u += agreed.host_size)
      failure = build(*program, u, objects);
  } else {
    failure = program.error();
  }
  RoundKey key = agreed.key;
  key.kind = RoundKey::Kind::Commit;
  key.attempt = 1;
  const auto any_failed = agreed.driver->any(key, failure.has_value());
  if (!any_failed) return any_failed.error();
  if (*any_failed) return failure;  // the commit vote tells all ranks whose it was
  for (int u = 0; u < program->unit_count() && !failure; ++u)
    if (objects[static_cast<std::size_t>(u)].empty()) failure = build(*program, u, objects);
  if (failure) return failure;
  const std::size_t kernels = program->kernels.size();
  auto loaded = Executable::load(std::move(*program), objects, job.clock);
  if (!loaded) return loaded.error();
  made_.executable = std::move(*loaded);
  story_ = fmt::format("{} kernels in {} units, {} of them built here, {:.0f} ms", kernels,
                       objects.size(), built_, milliseconds(job.clock.now() - start));
  return std::nullopt;
}

std::optional<Status> FrameRunner::Steps::build(const Program& program, int unit,
                                                std::vector<Bytes>& objects) {
  JobContext& job = frame_.job;
  job.note(fmt::format("builds unit {} of {}, {}", unit, program.unit_count(), frame_.cache.name));
  job.busy_for(kBuildLimit);
  Result<BuiltUnit> done = build_unit(program, unit, *job.toolchain, job.artifacts);
  if (!done) return done.error();
  if (done->not_stored && !job.told_not_stored) {
    job.log.line("info",
                 fmt::format("lockstep: rank {}: {}", job.rank(), done->not_stored->message));
    job.told_not_stored = true;
  }
  built_ += !done->reused;
  objects[static_cast<std::size_t>(unit)] = std::move(done->object);
  return std::nullopt;
}

FrameRunner::FrameRunner(JobContext& job, std::string name, int index, const FrameOptions& options)
    : state_(new State(job, job.group(options.group), name, index, options)) {}
FrameRunner::~FrameRunner() = default;

const FrameCounts& FrameRunner::counts() const { return state_->counts; }

Observation FrameRunner::take_observation() { return std::exchange(state_->spare, {}); }

std::string FrameRunner::last_text() const {
  const int rank = state_->job.rank();
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

const Status& FrameRunner::unusable() {
  last_ = {CallOutcome::Kind::Error, -1, *state_->unusable};
  ++state_->counts.calls, ++state_->counts.errors;
  return *last_.error;
}

Status FrameRunner::refuse(const Status& status) {
  if (state_->unusable) return unusable();
  if (state_->audited) {
    Observation nothing;
    nothing.list = std::make_shared<const SourceList>(std::vector<SourceSpec>{});
    last_ = {CallOutcome::Kind::Error, -1, status};
    ++state_->counts.calls, ++state_->counts.errors;
    if (auto joint = audit(nullptr, nothing)) last_.error = std::move(joint);
    return *last_.error;
  }
  const RoundKey& key = state_->next_call();
  const auto joint = state_->agreed.driver->status_round(key, {.pending = 0, .trouble = status});
  last_ = {CallOutcome::Kind::Error, -1, joint ? status : joint.error()};
  ++state_->counts.calls, ++state_->counts.errors;
  return *last_.error;
}

Result<std::vector<Array>> FrameRunner::call(Observation observation,
                                             std::span<const InputValue> values,
                                             const std::function<void(Trace&)>& body) {
  State& frame = *state_;
  if (frame.unusable) return unusable();
  JobContext& job = frame.job;
  const RoundKey& key = frame.next_call();
  job.note(key.text());
  const std::uint64_t fits = frame.cache.lookup(observation);
  const bool first = frame.cache.entries.empty();
  std::vector<Misfit> misfits;
  if (fits == 0 && !first && job.log.on("info")) misfits = frame.cache.explain(observation);

  Steps steps(frame, observation, body);
  last_ =
      recorded_call(job.recorder, *frame.agreed.driver, key, frame.cache, observation, {}, steps);
  ++frame.counts.calls;
  if (last_.kind == CallOutcome::Kind::Error) {
    ++frame.counts.errors;
    if (frame.audited)
      if (auto joint = audit(nullptr, observation)) last_.error = std::move(joint);
    frame.spare = std::move(observation);
    return *last_.error;
  }
  Compiled interpreted;
  Compiled* chosen = &interpreted;
  if (last_.kind == CallOutcome::Kind::Fallback) {
    ++frame.counts.fallbacks;
    interpreted = steps.take();
    if (!frame.told_fallback)
      job.log.line("info",
                   fmt::format("lockstep: {} has reached its recompile limit of {}; calls that fit "
                               "no entry are interpreted from here on, on all ranks",
                               frame.cache.name, job.decision.recompile_limit));
    frame.told_fallback = true;
  } else {
    if (last_.kind == CallOutcome::Kind::Compiled) {
      ++frame.counts.compiled;
      frame.entries.insert_or_assign(last_.entry, steps.take());
      say_compiled(misfits, steps.story());
    } else {
      ++frame.counts.reused;
    }
    chosen = &frame.entries.at(last_.entry);
  }
  std::optional<Status> stopped;
  if (frame.audited) stopped = audit(chosen, observation);
  Result<std::vector<Array>> outputs = std::vector<Array>{};
  if (stopped)
    outputs = *std::move(stopped);
  else
    outputs = run(*chosen, observation, values);
  frame.counts.errors += outputs.has_error();
  frame.spare = std::move(observation);
  return outputs;
}

/// Compares what this rank is about to run, or that it has nothing to run, with the group. The
/// error is joint; what is found and may go on is logged.
std::optional<Status> FrameRunner::audit(const Compiled* about_to_run, const Observation& seen) {
  State& frame = *state_;
  JobContext& job = frame.job;
  AuditedCall own{.observation = seen};
  if (about_to_run != nullptr) {
    own.program = about_to_run->fingerprint;
    own.collectives = about_to_run->collectives.empty()
                          ? shapes::Fingerprint{}
                          : shapes::fingerprint(about_to_run->collectives);
    own.collectives_text = about_to_run->collectives;
    own.is_new = last_.kind == CallOutcome::Kind::Compiled;
    if (last_.entry >= 0)
      own.program_text =
          decision_text(frame.cache.entries[static_cast<std::size_t>(last_.entry)].decision);
  } else {
    own.trouble = last_.error;
  }
  RoundKey& key = frame.over.key;
  key.kind = RoundKey::Kind::Audit;
  key.frame = frame.cache.name;
  key.consistency.reset();
  key.attempt = 0;
  ++key.call;
  job.note(key.text());
  AuditOutcome outcome = frame.over.driver->audit(key, frame.findings, std::move(own));
  const Result<void> well = outcome.error ? Result<void>(*outcome.error) : Result<void>();
  if (job.recorder != nullptr) job.recorder->round(key, well);
  if (outcome.finding && outcome.times == 1 && frame.over.data->rank().value == 0)
    job.log.line("info", "lockstep: audit: " + outcome.finding->text());
  return std::move(outcome.error);
}

void FrameRunner::say_compiled(const std::vector<Misfit>& misfits, const std::string& story) {
  State& frame = *state_;
  const JobContext& job = frame.job;
  const int rank = job.rank();
  const CompileMark mark{rank, frame.index, last_.entry, 0};
  const Entry& entry = frame.cache.entries[static_cast<std::size_t>(last_.entry)];
  for (const Misfit& misfit : misfits)
    job.log.line("info", mark,
                 fmt::format("{}: entry {} does not fit here: {}", frame.cache.name, misfit.entry,
                             misfit.reason));
  if (frame.over.data->rank().value == 0) {
    job.log.line(
        "info", mark,
        fmt::format("{}: compiled: {}; {}", frame.cache.name, symbols_text(entry.decision), story));
    job.log.line("debug", mark, decision_text(entry.decision));
    const auto namer = entry.decision.source_namer();
    for (const shapes::Guard& guard : entry.guards)
      job.log.line("guards", mark,
                   fmt::format("guard {}   # {}", guard.predicate.text(namer), guard.where.text()));
    const Program& program = frame.entries.at(last_.entry).executable->program();
    if (job.log.on("graph")) job.log.line("graph", mark, program.graph.text());
    if (job.log.on("output_code")) job.log.line("output_code", mark, program.text());
  }
}

Result<std::vector<Array>> FrameRunner::run(Compiled& entry, const Observation& seen,
                                            std::span<const InputValue> values) {
  State& frame = *state_;
  JobContext& job = frame.job;
  job.note(frame.agreed.key.text() + " runs");
  const auto& sources = seen.list->sources();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    Array& input = entry.inputs[sources[i].name];
    switch (sources[i].kind) {
      case Kind::Tensor:
        input = values[i].array;
        break;
      case Kind::Float:
        input = single(DType::F64, values[i].number);
        break;
      case Kind::Int: {
        input = Array(DType::I64, {});
        *input.data_as<std::int64_t>() = seen.of(i)[0];
        break;
      }
      case Kind::Bool:
        input = single(DType::Bool, static_cast<double>(seen.of(i)[0]));
        break;
    }
  }
  if (entry.inputs.find("job.rank") == entry.inputs.end()) {
    entry.inputs["job.rank"] = single(DType::I64, frame.over.data->rank().value);
    for (const auto& [name, group] : job.groups)
      entry.inputs[rank_source(name)] = single(DType::I64, group.group.rank.value);
  }
  if (std::find(frame.counts.graphs.begin(), frame.counts.graphs.end(), entry.fingerprint) ==
      frame.counts.graphs.end())
    frame.counts.graphs.push_back(entry.fingerprint);
  SettleRounds rounds(job, frame.agreed);
  if (!entry.executable) {
    frame.counts.nodes_interpreted += entry.nodes;
    return interpret(entry.graph, entry.inputs, *frame.over.data, rounds);
  }
  frame.counts.nodes_compiled += entry.executable->program().nodes_compiled;
  frame.counts.nodes_interpreted += entry.executable->program().nodes_interpreted;
  const RunTimes before = entry.executable->time();
  auto outputs = entry.executable->run(entry.inputs, *frame.over.data, rounds);
  const RunTimes& after = entry.executable->time();
  job.run.runs += after.runs - before.runs;
  job.run.total += after.total - before.total;
  job.run.kernels += after.kernels - before.kernels;
  job.run.products += after.products - before.products;
  job.run.collectives += after.collectives - before.collectives;
  job.run.settling += after.settling - before.settling;
  // Without memory a rank cannot take part in what is left of the graph: its peers wait in the next
  // collective, so the watchdog ends the job with this rank's reason.
  if (!outputs && outputs.error().code == Code::Environment && !rounds.joint_error() &&
      job.watch != nullptr)
    job.watch->end_job(outputs.error());
  return outputs;
}

}  // namespace lockstep::worker
