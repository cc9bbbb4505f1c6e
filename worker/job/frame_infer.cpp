// Classes of sizes of a frame's function: FrameRunner::infer, and the answers to `lockstep infer`.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <lockstep/collectives/simulated/fake.h>
#include <lockstep/worker/compile/interpreter/interpreter.h>
#include <lockstep/worker/job/frame_state.h>
#include <lockstep/worker/job/preview/infer_mode.h>
#include <lockstep/worker/job/preview/valueless.h>

namespace lockstep::worker {
namespace {

Array number(std::int64_t value) {
  Array out(DType::I64, {});
  *out.data_as<std::int64_t>() = value;
  return out;
}

/// The host of a run without other ranks: its collectives act as if all ranks did what this one
/// does.
class MirroredRun final : public RunHost {
 public:
  explicit MirroredRun(JobContext& job) : job_(job) {}

  Result<void> settle(const std::optional<LocalFailure>& mine) override {
    return mine ? Result<void>(mine->status) : Result<void>{};
  }
  collectives::Communicator* group(std::string_view name) override {
    const auto known = groups_.find(name);
    if (known != groups_.end()) return known->second.get();
    const auto declared = job_.groups.find(name);
    if (declared == job_.groups.end()) return nullptr;
    auto made = collectives::fake_communicator(
        declared->second.group.rank, static_cast<int>(declared->second.group.members.size()));
    if (!made) return nullptr;
    return groups_.emplace(std::string(name), std::move(*made)).first->second.get();
  }

 private:
  JobContext& job_;
  std::map<std::string, std::unique_ptr<collectives::Communicator>, std::less<>> groups_;
};

/// Interprets the graph as one rank of `over`.
Result<std::vector<Array>> run_mirrored(JobContext& job, const GroupContext& over,
                                        const Graph& graph, Inputs inputs) {
  auto ranks = collectives::fake_communicator(over.data->rank(), over.data->size());
  if (!ranks) return ranks.error();
  inputs["job.rank"] = number(over.data->rank().value);
  for (const auto& [name, group] : job.groups)
    inputs[rank_source(name)] = number(group.group.rank.value);
  MirroredRun host(job);
  try {
    return interpret(graph, inputs, **ranks, host);
  } catch (const std::exception& error) {  // out of memory
    return environment_error(error.what());
  }
}

std::vector<SymbolDecision> named(const std::set<std::string>& names) {
  std::vector<SymbolDecision> out;
  for (const std::string& name : names) {
    out.emplace_back();
    out.back().source = name;
  }
  return out;
}

}  // namespace

/// The symbols of the entry that has most of them, among entries with the structure of
/// `observation`.
std::optional<std::vector<SymbolDecision>> FrameRunner::known_symbols(
    const Observation& observation) const {
  const Entry* most = nullptr;
  for (const Entry& entry : state_->cache().entries)
    if (!entry.superseded && entry.same_structure(observation) &&
        (most == nullptr || entry.decision.symbols.size() > most->decision.symbols.size()))
      most = &entry;
  return most == nullptr ? std::nullopt : std::optional(most->decision.symbols);
}

Result<InferredFrame> FrameRunner::infer(Observation observation,
                                         std::span<const InputValue> values,
                                         const std::function<void(Trace&)>& body,
                                         const InferOptions& options) {
  State& frame = *state_;
  if (frame.unusable) return *frame.unusable;
  if (frame.taken) return *frame.taken;
  // Marks the dims that the constraints name. If the inputs break a constraint, this is no error
  // here, and no dim is marked.
  static_cast<void>(frame.constraints.apply(frame.cache().name, observation));
  return infer_over(
      std::move(observation), values, body, options,
      options.symbols ? std::optional(named(*options.symbols)) : known_symbols(observation));
}

Result<InferredFrame> FrameRunner::infer_over(
    Observation observation, std::span<const InputValue> values,
    const std::function<void(Trace&)>& body, const InferOptions& options,
    const std::optional<std::vector<SymbolDecision>>& symbols) {
  State& frame = *state_;
  auto decision = decision_about(observation, symbols);
  if (!decision) return decision.error();
  const auto setup = [&frame](const Decision& under, const Observation& seen) {
    return TraceSetup{.frame = frame.cache().name,
                      .decision = under,
                      .observation = &seen,
                      .group_size = frame.over.data->size(),
                      .group = frame.over.group,
                      .local = frame.consistency == Consistency::Local && !frame.audited,
                      .peers_may_differ = frame.audited ||
                                          frame.consistency == Consistency::SameCollectives ||
                                          frame.consistency == Consistency::SharedSizes,
                      .constraints = frame.constraints.texts(),
                      .specialize_float = frame.job.decision.specialize_float,
                      .shapes = {.complex = frame.complex_branches}};
  };
  return infer_classes({.decision = std::move(*decision),
                        .observation = std::move(observation),
                        .values = values,
                        .setup = setup,
                        .body = body,
                        .run =
                            [&frame](const Graph& graph, Inputs inputs) {
                              return run_mirrored(frame.job, frame.over, graph, std::move(inputs));
                            }},
                       options);
}

/// Outputs with which the program can go on after a call: zeros. If a size is known only in the
/// run, the graph is run.
Result<std::vector<Array>> FrameRunner::stand_in(const Graph& graph, const Inputs& inputs) {
  auto outputs = valueless_outputs(graph, inputs, [](const std::string&) {});
  if (!outputs) return outputs;
  try {
    for (Array& output : *outputs)
      if (output.far_memory()) output = Array::zeros(output.dtype(), output.sizes());
  } catch (const std::exception&) {  // a size is not known
    return run_mirrored(state_->job, state_->over, graph, inputs);
  }
  return outputs;
}

/// Writes this frame's classes of sizes if they were requested for inputs of this structure.
Result<void> FrameRunner::write_classes(const Observation& observation,
                                        std::span<const InputValue> values,
                                        const std::function<void(Trace&)>& body) {
  State& frame = *state_;
  InferMode& mode = *frame.job.infer;
  const std::string structure = structure_of(observation);
  const InferRequest::Asked* asked = mode.asked(frame.agreed.label, frame.cache().name, structure);
  if (asked == nullptr) return {};
  const auto classes = infer_over(observation, values, body, {.box = mode.box()}, asked->symbols);
  if (!classes) return classes.error();
  if (auto told = mode.tell(*classes, structure); !told) return told;
  if (mode.done()) frame.job.sheet->stop("every frame of the record has been inferred");
  return {};
}

}  // namespace lockstep::worker
