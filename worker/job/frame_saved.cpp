// Saves a frame's entries as a program, and starts a frame from a program in place of a function.
#include <utility>

#include <fmt/format.h>

#include <lockstep/coordinator/store/seal.h>
#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/toolchain/toolchain_key.h>
#include <lockstep/worker/files/saved/saved_file.h>
#include <lockstep/worker/files/saved/start_entries.h>
#include <lockstep/worker/job/frame_steps.h>

namespace lockstep::worker {
namespace {

std::string processor_of(const JobContext& job) {
  return job.device ? "CUDA " + job.device->architecture() : processor_kind();
}

/// The objects of a built program: from the artifact store, else built once more.
Result<std::vector<PackedObject>> packed_objects(const JobContext& job, const Program& program) {
  std::vector<PackedObject> out;
  for (int unit = 0; unit < program.unit_count(); ++unit) {
    PackedObject made{program.unit_key(unit, job.tools.toolchain_key), {}, {}};
    if (job.tools.store != nullptr)
      if (auto kept = job.tools.store->load(made.key); kept && *kept)
        made.object = **std::move(kept);
    if (made.object.empty() && job.tools.toolchain == nullptr) return *job.tools.no_toolchain;
    if (made.object.empty()) {
      auto built = job.tools.toolchain->build(program.units[static_cast<std::size_t>(unit)]);
      if (!built) return built.error();
      made.object = *std::move(built);
    }
    made.digest = coordinator::content_digest(made.object);
    out.push_back(std::move(made));
  }
  return out;
}

/// Why this rank cannot use the objects for a program; empty: it can.
std::string unusable_objects(const JobContext& job, const Program& program,
                             const std::vector<PackedObject>& objects, const PackedFor& made_for) {
  const std::string here = processor_of(job);
  if (made_for.processor != here)
    return fmt::format("its objects are for {}, this is {}",
                       made_for.processor.empty() ? "another processor" : made_for.processor, here);
  if (objects.size() != program.units.size()) return "it does not have an object for each unit";
  for (std::size_t unit = 0; unit < objects.size(); ++unit) {
    if (objects[unit].key != program.unit_key(static_cast<int>(unit), made_for.toolchain))
      return "its objects are of another version of lockstep";
    if (objects[unit].digest != coordinator::content_digest(objects[unit].object))
      return "an object in it is not the one that was packed";
  }
  return {};
}

}  // namespace

Result<SavedProgram> FrameRunner::saved(const SaveOptions& options) const {
  const State& frame = *state_;
  const JobContext& job = frame.job;
  if (frame.unusable) return *frame.unusable;
  SavedProgram out{
      .frame = frame.cache().name,
      .consistency = frame.consistency,
      .audit = frame.audited,
      .complex_as_asserts = frame.complex_branches == shapes::ShapeOptions::Complex::Assert,
      .constraints = frame.constraints.texts(),
      .group = frame.over.group.name,
      .ranks = frame.over.data->size()};
  for (const auto& [number, made] : frame.entries) {
    const Entry& entry = frame.cache().entries[static_cast<std::size_t>(number)];
    if (entry.superseded) continue;
    SavedEntry saved{.decision = entry.decision, .graph = made.traced()};
    // Digests omit hints. If only hints differ, as under same_collectives, `decision` is enough.
    if (entry.reported.digest() != entry.decision.digest()) saved.reported = entry.reported;
    if (options.objects) {
      if (!made.executable)
        return environment_error(
            fmt::format("frame {} is interpreted, so there are no compiled objects to pack; "
                        "save it where there is a compiler",
                        frame.cache().name));
      auto objects = packed_objects(job, made.executable->program());
      if (!objects) return objects.error();
      saved.objects = *std::move(objects);
      out.packed = PackedFor{job.tools.toolchain_key, processor_of(job)};
    }
    for (const std::string& group : groups_of(saved.graph))
      if (const auto known = job.groups.find(group); known != job.groups.end())
        out.groups[group] = known->second.group.size();
    out.entries.push_back(std::move(saved));
  }
  if (out.entries.empty())
    return bad_input(
        fmt::format("frame {} has compiled nothing yet, so there is nothing to save; call "
                    "it once before",
                    frame.cache().name));
  return out;
}

Result<void> FrameRunner::start_from(SavedProgram program, const std::string& path) {
  State& frame = *state_;
  GroupRounds& rounds = *frame.agreed.rounds;
  frame.origin = State::Origin::File;
  frame.loaded_from = path;
  std::vector<Entry> entries = start_entries(program);
  if (frame.job.recorder != nullptr)
    frame.job.recorder->started(frame.cache().name, frame.agreed.label, encode_starts(entries));
  RoundKey round = frame.calls.key();
  round.kind = RoundKey::Kind::Load;
  std::optional<Status> failure;
  const Observation nothing;
  const std::function<void(Trace&)> no_function;
  for (int i = 0; i < static_cast<int>(entries.size()); ++i) {
    Steps steps(frame, nothing, no_function);
    auto wrong = steps.load(program.entries[static_cast<std::size_t>(i)],
                            program.packed ? &*program.packed : nullptr, round);
    if (wrong && !failure) failure = std::move(wrong);
    if (!wrong && !failure) say_loaded(i, steps);
    frame.entries.insert_or_assign(i, steps.take());
  }
  if (auto all = rounds.status_round(round, {.pending = 0, .local_error = failure}); !all)
    return all.error();
  worker::start_from(frame.cache(), std::move(entries));
  return {};
}

void FrameRunner::save_traced(TraceSheet& sheet) const {
  const State& frame = *state_;
  if (last_.kind != CallOutcome::Kind::Compiled && frame.origin != State::Origin::File) return;
  const auto program = saved({});
  const Result<void> done =
      program ? write_program(frame.job.settings.trace->program(frame.job.rank(), frame.index),
                              *program)
              : Result<void>(program.error());
  if (!done)
    sheet.note(fmt::format("{} is not saved: {}", frame.cache().name, done.error().message));
}

void FrameRunner::say_loaded(int entry, const Steps& steps) {
  const State& frame = *state_;
  if (frame.over.data->rank().value != 0) return;
  frame.job.log.line(
      "info", {frame.job.rank(), frame.index, entry, 0},
      fmt::format("{}: loaded from {}; {}", frame.cache().name, frame.loaded_from, steps.story()));
}

std::optional<Status> FrameRunner::Steps::load(SavedEntry& entry, const PackedFor* packed,
                                               RoundKey round) {
  JobContext& job = frame_.job;
  made_.decision = entry.decision;
  const TraceReport report = report_of(std::move(entry.graph));
  std::optional<Status> failure = report.failure;
  std::optional<Result<Program>> program;
  std::string unusable = packed == nullptr || entry.objects.empty() ? "none are packed" : "";
  if (!failure && unusable.empty() && job.runs()) {
    program = generate(made_.graph, job.device ? Target::Cuda : Target::Host);
    unusable = *program ? unusable_objects(job, **program, entry.objects, *packed)
                        : (*program).error().message;
    if (!unusable.empty())
      job.tell(fmt::format("{} is {} here, as {}", frame_.loaded_from,
                           job.mode == RunMode::Compiled ? "compiled" : "interpreted", unusable));
  }
  // All ranks load objects, or all build together.
  const auto some_cannot = frame_.agreed.rounds->any_rank(round, !unusable.empty());
  if (!some_cannot) return some_cannot.error();
  if (failure) made_.graph = Graph{};
  if (!*some_cannot && program) return take_packed(*program, entry.objects);
  if (!failure) return compile();
  if (job.mode == RunMode::Compiled) (void)build(*failure);
  return failure;
}

/// Loads the packed objects, which have been checked.
std::optional<Status> FrameRunner::Steps::take_packed(Result<Program>& program,
                                                      const std::vector<PackedObject>& objects) {
  std::vector<Bytes> units;
  for (const PackedObject& packed : objects) units.push_back(packed.object);
  const std::size_t kernels = program->kernels.size();
  auto loaded = Executable::load(std::move(*program), units, frame_.job.clock, frame_.job.device);
  if (!loaded) return loaded.error();
  if (frame_.recordings) (*loaded)->capture(*frame_.recordings);
  made_.executable = std::move(*loaded);
  made_.graph = Graph{};
  story_ = fmt::format("{} kernels in {} units, all of them packed", kernels, units.size());
  return std::nullopt;
}

Status FrameRunner::Steps::nothing_fits() const {
  std::string text = fmt::format(
      "no entry of the saved program {} fits, and the function that it was traced from is not "
      "there",
      frame_.loaded_from);
  const std::vector<Misfit> misfits = frame_.cache().explain(seen_);
  for (const Misfit& misfit : misfits)
    text += fmt::format("; entry {}: {}", misfit.entry, misfit.reason);
  if (misfits.size() < frame_.cache().entries.size())
    text += misfits.empty() ? "; those that fit here do not fit on all ranks"
                            : "; the others do not fit on all ranks";
  text +=
      "; call it with sizes that an entry serves, or save it again where it was called with these";
  return bad_input(std::move(text));
}

}  // namespace lockstep::worker
