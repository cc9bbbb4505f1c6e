// One run of the entry that was chosen for a call.
#include <algorithm>
#include <exception>

#include <lockstep/worker/compile/interpreter/interpreter.h>
#include <lockstep/worker/job/frame_state.h>
#include <lockstep/worker/job/job_run_host.h>
#include <lockstep/worker/job/preview/valueless.h>

namespace lockstep::worker {

namespace {

Array single(DType dtype, double value) { return Array::of(dtype, {}, std::span(&value, 1)); }

}  // namespace

Result<std::vector<Array>> FrameRunner::run(Compiled& entry, const Observation& seen,
                                            std::span<const InputValue> values,
                                            const std::function<void()>& inputs_bound) {
  State& frame = *state_;
  JobContext& job = frame.job;
  job.note(frame.agreed.rounds->key().text() + " runs");
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
  const auto release = [&] {
    for (const SourceSpec& source : sources)
      if (source.kind == Kind::Tensor) entry.inputs.find(source.name)->second = Array();
    inputs_bound();
  };
  if (job.mode == RunMode::Inferred) {
    auto outputs = stand_in(entry.graph, entry.inputs);
    release();
    return outputs;
  }
  if (job.mode == RunMode::Traced) {
    auto outputs = valueless_outputs(entry.graph, entry.inputs,
                                     [&job](const std::string& what) { job.sheet->stop(what); });
    release();
    return outputs;
  }
  JobRunHost host(job, frame.agreed, frame.over, release);
  if (!entry.executable) {
    frame.counts.nodes_interpreted += entry.nodes;
    auto outputs = [&]() -> Result<std::vector<Array>> {
      try {
        return interpret(entry.graph, entry.inputs, *frame.over.data, host);
      } catch (const std::exception& error) {  // no memory, or an input on a failed device
        return environment_error(error.what());
      }
    }();
    host.end_if_alone(outputs);
    return outputs;
  }
  frame.counts.nodes_compiled += entry.executable->program().nodes_compiled;
  frame.counts.nodes_interpreted += entry.executable->program().nodes_interpreted;
  const RunTimes before = entry.executable->time();
  auto outputs = entry.executable->run(entry.inputs, *frame.over.data, host);
  const RunTimes& after = entry.executable->time();
  job.run.runs += after.runs - before.runs;
  job.run.total += after.total - before.total;
  job.run.kernels += after.kernels - before.kernels;
  job.run.products += after.products - before.products;
  job.run.collectives += after.collectives - before.collectives;
  job.run.settling += after.settling - before.settling;
  host.end_if_alone(outputs);
  return outputs;
}

}  // namespace lockstep::worker
