#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/controller/remote_program.h>

namespace lockstep::worker {
namespace {

using RemoteValues = std::map<std::string, RemoteValue>;

std::string list_text(const std::vector<SourceSpec>& specs) {
  std::vector<std::string> out;
  for (const SourceSpec& spec : specs) out.push_back(spec.text());
  return specs.empty() ? "no inputs" : fmt::format("{}", fmt::join(out, ", "));
}

std::string value_text(const RemoteValue& value) {
  if (const auto* tensor = std::get_if<Tensor>(&value))
    return tensor->traced() || tensor->empty()
               ? std::string("no tensor")
               : fmt::format("a tensor of {}", dtype_name(tensor->array().dtype()));
  if (std::holds_alternative<bool>(value)) return "a bool";
  return std::holds_alternative<double>(value) ? "a float" : "an int";
}

/// True if the value has the kind and dtype of `spec`, with ints allowed for floats. Dims are not
/// compared: only the workers know them.
bool is_one(const SourceSpec& spec, const RemoteValue& value) {
  switch (spec.kind) {
    case Kind::Int:
      return std::holds_alternative<std::int64_t>(value);
    case Kind::Float:
      return std::holds_alternative<double>(value) || std::holds_alternative<std::int64_t>(value);
    case Kind::Bool:
      return std::holds_alternative<bool>(value);
    case Kind::Tensor:
      break;
  }
  const auto* tensor = std::get_if<Tensor>(&value);
  return tensor != nullptr && !tensor->traced() && !tensor->empty() &&
         tensor->array().dtype() == spec.dtype;
}

/// Returns the first misfit between `inputs` and this list; nullopt if they fit.
std::optional<Status> misfit(const std::vector<SourceSpec>& list, const RemoteValues& inputs) {
  for (const SourceSpec& spec : list) {
    const auto given = inputs.find(spec.name);
    if (given == inputs.end())
      return bad_input(fmt::format("the input {} is missing", spec.text()), spec.name);
    if (!is_one(spec, given->second))
      return bad_input(fmt::format("the program takes {}, and is given {}", spec.text(),
                                   value_text(given->second)),
                       spec.name);
  }
  for (const auto& [name, value] : inputs)
    if (std::ranges::find(list, name, &SourceSpec::name) == list.end())
      return bad_input(
          fmt::format("the program has no input {}; it takes {}", name, list_text(list)), name);
  return std::nullopt;
}

}  // namespace

ProgramShape program_shape(const SavedProgram& program) {
  ProgramShape out;
  for (const SavedEntry& entry : program.entries) {
    std::vector<SourceSpec> specs = entry.decision.list()->sources();
    if (std::ranges::find(out.inputs, specs) == out.inputs.end())
      out.inputs.push_back(std::move(specs));
    const OutputShape shape = output_shape(entry.graph);
    std::map<std::string, DType> sorted;  // the workers' order
    for (std::size_t i = 0; i < shape.names.size(); ++i)
      sorted.emplace(shape.names[i], shape.dtypes[i]);
    OutputShape& last = out.outputs.emplace_back();
    for (const auto& [name, dtype] : sorted)
      last.names.push_back(name), last.dtypes.push_back(dtype);
  }
  return out;
}

std::string RemoteProgram::text() const {
  std::vector<std::string> inputs, outputs;
  for (const std::vector<SourceSpec>& list : shape_.inputs) inputs.push_back(list_text(list));
  for (const OutputShape& shape : shape_.outputs) {
    std::vector<std::string> given;
    for (std::size_t i = 0; i < shape.names.size(); ++i)
      given.push_back(fmt::format("{} {}", shape.names[i], dtype_name(shape.dtypes[i])));
    std::string text = fmt::format("{}", fmt::join(given, ", "));
    if (std::ranges::find(outputs, text) == outputs.end()) outputs.push_back(std::move(text));
  }
  return fmt::format("{}: {} -> {}", name(), fmt::join(inputs, " or "), fmt::join(outputs, " or "));
}

Result<void> RemoteProgram::fit(RemoteValues& inputs) const {
  std::optional<Status> wrong;
  for (const std::vector<SourceSpec>& list : shape_.inputs) {
    auto misfits = misfit(list, inputs);
    if (!misfits) {
      for (const SourceSpec& spec : list)
        if (auto* n = std::get_if<std::int64_t>(&inputs.at(spec.name));
            n != nullptr && spec.kind == Kind::Float)
          inputs.at(spec.name) = static_cast<double>(*n);
      return {};
    }
    if (!wrong) wrong = std::move(misfits);
  }
  if (!wrong) return {};
  wrong->message = fmt::format("{}: {}", name(), wrong->message);
  return *wrong;
}

Result<std::map<std::string, Tensor>> RemoteProgram::operator()(RemoteValues values) {
  const auto turn = calls_.session().enter(name());
  if (!turn) return turn.error();
  if (auto fits = fit(values); !fits) return fits.error();
  RemoteInputs inputs(calls_.session().dropped());
  for (auto& [name, value] : values) {
    inputs.enter_field(name);
    std::visit([&](auto& own) { inputs.leaf(own); }, value);  // releases tensors
    inputs.leave();
  }
  if (auto ready = calls_.prepare(inputs); !ready) return ready.error();
  const bool alike = std::ranges::all_of(shape_.outputs, [&](const OutputShape& shape) {
    return shape.names == shape_.outputs.front().names &&
           shape.dtypes == shape_.outputs.front().dtypes;
  });
  std::map<std::string, Tensor> out;
  const auto fill = [&](const OutputShape& shape, const std::vector<Array>& arrays) {
    for (std::size_t i = 0; i < arrays.size(); ++i) out.emplace(shape.names[i], arrays[i]);
  };
  if (alike) {
    auto arrays = calls_.issue(std::move(inputs), shape_.outputs.front());
    if (!arrays) return arrays.error();
    fill(shape_.outputs.front(), *arrays);
    return out;
  }
  const auto ended = calls_.run(std::move(inputs));
  if (!ended) return ended.error();
  const auto shape = std::ranges::find(shape_.outputs, ended->called.outputs, &OutputShape::names);
  if (shape == shape_.outputs.end())
    return internal_error(fmt::format("{} has outputs that no entry has", calls_.name()));
  auto arrays = calls_.outputs(*ended, *shape);
  if (!arrays) return arrays.error();
  fill(*shape, *arrays);
  return out;
}

}  // namespace lockstep::worker
