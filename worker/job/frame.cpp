#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/recompile_advice.h>
#include <lockstep/worker/job/frame_steps.h>

namespace lockstep::worker {

namespace {

/// "3 symbols: batch.tokens.size(0) like 16, …"
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

}  // namespace

FrameRunner::FrameRunner(JobContext& job, std::string name, int index, const FrameOptions& options)
    : state_(new State(job, job.group(options.group), name, index, options)) {}
FrameRunner::FrameRunner(JobContext& job, std::string name, const Status& why)
    : state_(new State(job, nullptr, name, -1, {})) {
  state_->unusable = why;
}
FrameRunner::~FrameRunner() = default;

Result<Turn> FrameRunner::enter() const { return state_->job.turns.take(state_->cache().name); }

const FrameCounts& FrameRunner::counts() const { return state_->counts; }

void FrameRunner::trace_by(DistantTracer tracer) {
  state_->origin = State::Origin::Controller;
  state_->tracer = std::move(tracer);
}

Observation FrameRunner::take_observation() { return std::exchange(state_->spare, {}); }

std::string FrameRunner::last_text() const {
  const int rank = state_->job.rank();
  switch (last_.kind) {
    case CallOutcome::Kind::Reused:
      return CompileLabel{rank, state_->index, last_.entry, 0}.text() + " reused";
    case CallOutcome::Kind::Compiled:
      return CompileLabel{rank, state_->index, last_.entry, 0}.text() + " compiled";
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
  write_trace(nullptr);
  return *last_.error;
}

// Ends the program after the last of the requested calls, because the outputs of that call would
// not be used.
void FrameRunner::write_trace(const Compiled* traced, const std::optional<Status>& stopped) {
  State& frame = *state_;
  if (frame.job.runs()) return;
  TraceSheet* sheet = frame.job.sheet;
  CallOutcome outcome = last_;
  if (stopped) outcome = {CallOutcome::Kind::Error, last_.entry, stopped};
  if (frame.job.settings.trace->saves) save_traced(*sheet);
  const bool has_graph = traced != nullptr && !traced->graph.nodes.empty();
  sheet->call({.frame = frame.cache().name,
               .group = frame.over.group.name,
               .outcome = outcome,
               .entry = last_.entry < 0
                            ? nullptr
                            : &frame.cache().entries[static_cast<std::size_t>(last_.entry)],
               .graph = has_graph ? &traced->graph : nullptr,
               .fingerprint = has_graph ? traced->fingerprint : shapes::Fingerprint{}});
  if (sheet->full()) sheet->stop("as many calls as were asked for have been made");
}

Status FrameRunner::refuse(const Status& status) {
  if (state_->unusable) return unusable();
  if (state_->audited) {
    Observation nothing;
    nothing.list = std::make_shared<const SourceList>(std::vector<SourceSpec>{});
    last_ = {CallOutcome::Kind::Error, -1, status};
    ++state_->counts.calls, ++state_->counts.errors;
    if (auto joint = audit(nullptr, nothing)) last_.error = std::move(joint);
    write_trace(nullptr);
    return *last_.error;
  }
  const JobContext& job = state_->job;
  const auto refused = state_->calls.refuse(status);
  if (refused.unheard && job.watch != nullptr && state_->agreed.driver().group().size() > 1)
    job.watch->end_job(status);
  last_ = {CallOutcome::Kind::Error, -1, refused.error};
  ++state_->counts.calls, ++state_->counts.errors;
  write_trace(nullptr);
  return *last_.error;
}

void FrameRunner::restore_profile(const Observation& observation) {
  State& frame = *state_;
  if (frame.origin == State::Origin::File)
    return;  // a loaded frame makes no decisions, so it needs no sizes of earlier runs
  if (frame.counts.calls == 0 && frame.counts.shared)
    if (const auto found = frame.job.learnt.find(frame.cache().name);
        found != frame.job.learnt.end())
      frame.calls.begin_with(found->second);
  const auto given = frame.calls.restore(observation);
  if (given && frame.job.recorder != nullptr)
    frame.job.recorder->restored(frame.cache().name, *given);
}

void FrameRunner::prefetch(Observation observation, std::optional<Status> unreadable) {
  State& frame = *state_;
  if (frame.unusable) return;  // every call returns that error
  if (!unreadable) unreadable = frame.taken;
  if (!unreadable) unreadable = frame.constraints.apply(frame.cache().name, observation);
  if (!unreadable) restore_profile(observation);
  if (unreadable) observation = ObservationBuilder().build();
  frame.calls.promise(std::move(observation), {.pending = 0, .local_error = std::move(unreadable)});
}

// The group chooses the entry of a call, so all ranks count the same hits.
std::optional<Status> FrameRunner::check_captures(Steps& steps, const Compiled& entry) {
  State& frame = *state_;
  if (frame.counts.reused % frame.job.settings.check_captures != 0) return std::nullopt;
  std::optional<Status> mine = steps.trace_again(entry, last_.entry);
  RoundKey key = frame.agreed.rounds->key();
  key.kind = RoundKey::Kind::Captures;
  const auto joint = frame.agreed.driver().status_round(key, {.pending = 0, .local_error = mine});
  return joint ? mine : joint.error();
}

/// Agrees on one call, and casts the vote of the next prefetched call.
CallOutcome FrameRunner::agree(const Observation& observation, Steps& steps) {
  State& frame = *state_;
  const JobContext& job = frame.job;
  const CallDriver& driver = frame.agreed.driver();
  const Duration before = driver.times().trace + driver.times().compile;
  const Instant start = job.clock.now();
  return frame.calls.call(observation, {}, steps, [&] {
    const Duration others = driver.times().trace + driver.times().compile - before;
    agreement_ = job.clock.now() - start - others;
  });
}

Result<std::vector<Array>> FrameRunner::call(Observation observation,
                                             std::span<const InputValue> values,
                                             const std::function<void(Trace&)>& body,
                                             const std::function<void()>& inputs_bound) {
  State& frame = *state_;
  if (frame.unusable) return unusable();
  if (frame.taken) return refuse(*frame.taken);
  JobContext& job = frame.job;
  if (const auto broken = frame.constraints.apply(frame.cache().name, observation))
    return refuse(*broken);
  const bool has_function = frame.origin == State::Origin::Function;
  if (job.mode == RunMode::Inferred && has_function)
    if (auto told = write_classes(observation, values, body); !told) return told.error();
  restore_profile(observation);
  if (const auto broken = frame.calls.broken(observation)) return refuse(*broken);
  Steps steps(frame, observation, body);
  last_ = agree(observation, steps);
  ++frame.counts.calls;
  if (last_.kind == CallOutcome::Kind::Error) {
    ++frame.counts.errors;
    if (frame.audited)
      if (auto joint = audit(nullptr, observation)) last_.error = std::move(joint);
    frame.spare = std::move(observation);
    const Compiled tried = steps.take();
    write_trace(&tried);
    return *last_.error;
  }
  Compiled interpreted;
  Compiled* chosen = &interpreted;
  if (last_.kind == CallOutcome::Kind::Fallback) {
    ++frame.counts.fallbacks;
    interpreted = steps.take();
    if (!frame.told_fallback)
      job.log.line("info",
                   "lockstep: " + limit_text(frame.cache().name, job.decision, steps.misfits()));
    frame.told_fallback = true;
  } else {
    if (last_.kind == CallOutcome::Kind::Compiled) {
      ++frame.counts.compiled;
      if (frame.counts.shared)
        job.learnt.insert_or_assign(frame.cache().name, profile_of(frame.cache()));
      frame.entries.insert_or_assign(last_.entry, steps.take());
      // Superseded entries run no more: frees them and their captured CUDA graphs.
      std::erase_if(frame.entries, [&](const auto& made) {
        return frame.cache().entries[static_cast<std::size_t>(made.first)].superseded;
      });
      say_compiled(steps);
    } else {
      ++frame.counts.reused;
    }
    chosen = &frame.entries.at(last_.entry);
  }
  std::optional<Status> stopped;
  if (job.settings.check_captures != 0 && last_.kind == CallOutcome::Kind::Reused && has_function)
    stopped = check_captures(steps, *chosen);
  if (frame.audited) {
    last_.error = stopped;
    if (auto joint = audit(stopped ? nullptr : chosen, observation)) stopped = std::move(joint);
  }
  write_trace(chosen, stopped);
  Result<std::vector<Array>> outputs = std::vector<Array>{};
  if (stopped)
    outputs = *std::move(stopped);
  else
    outputs = run(*chosen, observation, values, inputs_bound);
  frame.counts.errors += outputs.has_error();
  frame.spare = std::move(observation);
  return outputs;
}

void FrameRunner::say_compiled(const Steps& steps) {
  State& frame = *state_;
  const JobContext& job = frame.job;
  const int rank = job.rank();
  const CompileLabel mark{rank, frame.index, last_.entry, steps.refused() ? 1 : 0};
  const Entry& entry = frame.cache().entries[static_cast<std::size_t>(last_.entry)];
  for (const Misfit& misfit : steps.misfits())
    job.log.line("info", mark,
                 fmt::format("{}: entry {} does not fit here: {}", frame.cache().name, misfit.entry,
                             misfit.reason));
  if (frame.over.data->rank().value == 0) {
    say_advice(mark, steps);
    job.log.line("info", mark,
                 fmt::format("{}: {}: {}; {}", frame.cache().name,
                             job.mode == RunMode::Compiled ? "compiled" : "traced",
                             symbols_text(entry.decision), steps.story()));
    job.log.line("debug", mark, decision_text(entry.decision));
    const auto namer = entry.namer();
    for (const shapes::Guard& guard : entry.guards)
      job.log.line("guards", mark,
                   fmt::format("guard {}   # {}", guard.predicate.text(namer), guard.where.text()));
    const Compiled& made = frame.entries.at(last_.entry);
    const Program* program = made.executable ? &made.executable->program() : nullptr;
    const Graph& graph = program != nullptr ? program->graph : made.graph;
    if (job.log.on("graph")) job.log.line("graph", mark, graph.text());
    for (const std::string& line : graph.read_backs) job.log.line("graph", mark, line);
    if (program != nullptr && job.log.on("output_code"))
      job.log.line("output_code", mark, program->text());
  }
}

void FrameRunner::say_advice(const CompileLabel& mark, const Steps& steps) {
  State& frame = *state_;
  std::vector<std::string>& told = frame.counts.advice;
  std::vector<std::string> advice = recompile_advice(frame.cache().entries);
  if (steps.refused())
    advice.push_back(fmt::format(
        "its trace fails with every size a symbol, so sizes that change make entries up to the "
        "limit of {} ({}); mark the dim static if it never varies",
        frame.job.decision.recompile_limit, steps.refused()->message));
  for (std::string& text : advice) {
    if (std::ranges::find(told, text) != told.end()) continue;
    frame.job.log.line("info", mark, fmt::format("{}: {}", frame.cache().name, text));
    told.push_back(std::move(text));
  }
}

}  // namespace lockstep::worker
