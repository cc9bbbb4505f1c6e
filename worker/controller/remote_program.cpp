#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/controller/remote_program.h>

namespace lockstep::worker {

Result<std::map<std::string, Tensor>> RemoteProgram::operator()(
    const std::map<std::string, RemoteValue>& values) {
  RemoteInputs inputs(calls_.session().dropped());
  for (const auto& [name, value] : values) {
    inputs.enter_field(name);
    std::visit([&](auto copy) { inputs.leaf(copy); },  // a copy, as the walk lets go of tensors
               value);
    inputs.leave();
  }
  if (auto ready = calls_.prepare(inputs); !ready) return ready.error();
  const bool alike = std::ranges::all_of(shapes_, [&](const OutputShape& shape) {
    return shape.names == shapes_.front().names && shape.dtypes == shapes_.front().dtypes;
  });
  std::map<std::string, Tensor> out;
  const auto fill = [&](const OutputShape& shape, const std::vector<Array>& arrays) {
    for (std::size_t i = 0; i < arrays.size(); ++i) out.emplace(shape.names[i], arrays[i]);
  };
  if (alike) {
    auto arrays = calls_.issue(std::move(inputs), shapes_.front());
    if (!arrays) return arrays.error();
    fill(shapes_.front(), *arrays);
    return out;
  }
  const auto ended = calls_.run(std::move(inputs));
  if (!ended) return ended.error();
  const auto shape = std::ranges::find(shapes_, ended->called.outputs, &OutputShape::names);
  if (shape == shapes_.end())
    return Status{Code::Internal, fmt::format("{} has outputs that no entry has", calls_.name())};
  auto arrays = calls_.outputs(*ended, *shape);
  if (!arrays) return arrays.error();
  fill(*shape, *arrays);
  return out;
}

}  // namespace lockstep::worker
