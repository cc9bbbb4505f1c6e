#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/controller/workers/worker_frame.h>

namespace lockstep::worker {
namespace {

/// Converts a number of a call to a 0-d array, which a loaded frame takes.
Array number_array(const CallInput& input) {
  switch (input.kind) {
    case Kind::Float: {
      const auto number = std::bit_cast<double>(input.number);
      return Array::of(DType::F64, {}, std::span(&number, 1));
    }
    case Kind::Bool: {
      const double number = input.number == 0 ? 0 : 1;
      return Array::of(DType::Bool, {}, std::span(&number, 1));
    }
    default: {
      Array out(DType::I64, {});
      *out.data_as<std::int64_t>() = input.number;
      return out;
    }
  }
}

SourceSpec spec_of(const GivenInput& input) {
  if (input.what->kind != Kind::Tensor) return {input.what->name, input.what->kind};
  return {input.what->name, Kind::Tensor, input.array.dtype(),
          static_cast<std::uint32_t>(input.array.sizes().size())};
}

}  // namespace

Status WorkerFrame::refuse(const Status& why) {
  return program_ ? program_->refuse(why) : runner_->refuse(why);
}

Result<WorkerFrame::Outputs> WorkerFrame::call_program(std::vector<GivenInput> inputs) {
  NamedValues named;
  for (GivenInput& input : inputs)
    named.insert_or_assign(input.what->name, input.what->kind == Kind::Tensor
                                                 ? std::move(input.array)
                                                 : number_array(*input.what));
  inputs.clear();
  auto out = (*program_)(std::move(named));
  if (!out) return out.error();
  Outputs outputs;
  for (auto& [name, array] : *out) {
    outputs.names.push_back(name);
    outputs.arrays.push_back(std::move(array));
  }
  return outputs;
}

/// Observes the inputs. Sorts them by name first, as sources are sorted.
Result<void> WorkerFrame::observe(std::vector<GivenInput>& inputs, Observation& out) {
  std::ranges::sort(inputs, {}, [](const GivenInput& input) { return input.what->name; });
  std::vector<SourceSpec> specs;
  for (const GivenInput& input : inputs) {
    if (!specs.empty() && specs.back().name == input.what->name)
      return bad_input(fmt::format("two inputs are called {}", input.what->name), input.what->name);
    if (input.what->kind == Kind::Tensor && !input.array)
      return bad_input(fmt::format("{}: the input {} was not put on this worker; put one on each",
                                   name_, input.what->name),
                       input.what->name);
    specs.push_back(spec_of(input));
    const std::size_t marks = input.what->marks.size();
    if (marks != 0 && marks != specs.back().ndim)
      return bad_input(fmt::format("{}: the input {} has {} marks and {} dims", name_,
                                   input.what->name, marks, specs.back().ndim),
                       input.what->name);
  }
  if (!list_ || list_->sources() != specs)
    list_ = std::make_shared<const SourceList>(std::move(specs));
  out.list = list_;
  out.values.assign(list_->offsets().back(), 0);
  out.scalars.assign(list_->scalars(), 0);
  out.orders.clear(), out.marks.clear(), out.fields.clear();
  values_.assign(inputs.size(), {});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const CallInput& input = *inputs[i].what;
    const auto at = static_cast<std::ptrdiff_t>(list_->offsets()[i]);
    const auto scalar = list_->scalar(i);
    if (input.kind == Kind::Tensor) {
      std::ranges::copy(inputs[i].array.sizes(), out.values.begin() + at);
      if (scalar) out.scalars[*scalar] = *scalar_in(inputs[i].array);
      if (!input.marks.empty()) {
        out.marks.resize(out.values.size(), Mark::None);
        std::ranges::copy(input.marks, out.marks.begin() + at);
      }
      values_[i].array = std::move(inputs[i].array);
    } else if (input.kind == Kind::Float) {
      values_[i].number = std::bit_cast<double>(input.number);
      out.scalars[*scalar] = input.number;
    } else {
      out.values[static_cast<std::size_t>(at)] = input.number;
    }
  }
  return {};
}

const WorkerFrame::Traced* WorkerFrame::trace_of(int entry) const {
  const auto found = entries_.find(entry);
  return found == entries_.end() ? nullptr : &found->second;
}

Result<WorkerFrame::Outputs> WorkerFrame::call(std::vector<GivenInput> inputs) {
  if (program_) return call_program(std::move(inputs));
  Observation observation = runner_->take_observation();
  const auto readable = [&]() -> Result<void> {
    try {
      return observe(inputs, observation);
    } catch (const std::runtime_error& error) {  // from scalar_in(): a device has failed
      return environment_error(error.what());
    }
  }();
  if (!readable) return runner_->refuse(readable.error());
  inputs.clear();
  auto out = runner_->call(std::move(observation), values_, {}, [this] { values_.clear(); });
  const CallOutcome& last = runner_->last();
  // A new entry stays even if its first run failed.
  if (last.kind == CallOutcome::Kind::Compiled) entries_.insert_or_assign(last.entry, traced_);
  if (!out) return out.error();
  if (last.kind == CallOutcome::Kind::Fallback)
    return Outputs{*std::move(out), traced_.outputs, {}};
  return Outputs{*std::move(out), entries_.at(last.entry).outputs, last.entry};
}

}  // namespace lockstep::worker
