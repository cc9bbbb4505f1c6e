#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include <lockstep/worker/controller/frame_tracing.h>
#include <lockstep/worker/controller/remote_inputs.h>

namespace lockstep::worker {
namespace {

/// Represents any tensor where only the structure counts.
Tensor placeholder() { return Array::zeros(DType::F32, {}); }

}  // namespace

void RemoteInputs::fail(std::string_view what) {
  if (failure) return;
  failure = bad_input(fmt::format("{} {} the frames of a controller do not take; pass tensors and "
                                  "numbers",
                                  name(), what),
                      path_.text());
}

void RemoteInputs::add(Kind kind, std::int64_t number) {
  CallInput& input = inputs.emplace_back();
  input.name = name();
  input.kind = kind;
  input.number = number;
}

void RemoteInputs::leaf(Tensor& tensor) {
  if (tensor.traced()) return fail("is a tensor of a trace, which");
  if (tensor.empty()) return fail("is an empty tensor, which");
  const auto handle = handle_of(tensor.array(), dropped_);
  if (!handle && !failure) {
    failure = handle.error();
    failure->message = fmt::format("{}: {}", name(), failure->message);
  }
  if (!handle) return;
  add(Kind::Tensor, 0);
  inputs.back().marks = tensor.marks();
  if (*handle)
    inputs.back().tensor = **handle;
  else
    own.emplace_back(inputs.size() - 1, tensor.array());
  tensor = placeholder();
}

void RemoteInputs::leaf(SymInt& n) {
  const auto number = n.expr().constant();
  if (n.trace() || !number) return fail("is an integer of a trace, which");
  add(Kind::Int, *number);
}

void RemoteInputs::leaf(SymFloat& f) {
  if (f.traced()) return fail("is a float of a trace, which");
  add(Kind::Float, std::bit_cast<std::int64_t>(f.value()));
}

void RemoteInputs::leaf(double& f) { add(Kind::Float, std::bit_cast<std::int64_t>(f)); }

void RemoteInputs::leaf(RankKey& key) {
  if (key.traced()) return fail("is a key of a trace, which");
  add(Kind::Tensor, 0);
  own.emplace_back(inputs.size() - 1, key.array());
}

void RemoteInputs::leaf(Key& key) {
  RankKey same = key;
  leaf(same);
}

std::string RemoteInputs::structure() const {
  std::string out = key();
  for (const CallInput& input : inputs)
    if (input.kind == Kind::Bool) out += input.number != 0 ? '1' : '0';
  return out;
}

std::string RemoteInputs::key() const {
  std::vector<SourceSpec> specs;
  for (const CallInput& input : inputs) specs.push_back({input.name, input.kind});
  std::ranges::sort(specs, {}, &SourceSpec::name);
  return inputs_key(specs);
}

void RemoteOutputs::need_known(bool traced) const {
  if (!traced) return;
  throw TraceUsageError(fmt::format(
      "output {} is a number that the run gives; under a controller a frame returns tensors, which "
      "stay on the workers, so return it as a 0-d tensor",
      path_.text().empty() ? "result" : path_.text()));
}

}  // namespace lockstep::worker
