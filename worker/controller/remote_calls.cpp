#include <set>

#include <lockstep/worker/controller/remote_calls.h>

namespace lockstep::worker {

OutputShape output_shape(const Graph& graph) {
  OutputShape out;
  for (const Graph::Output& output : graph.outputs) {
    out.names.push_back(output.name);
    out.dtypes.push_back(graph.nodes[output.node].meta.dtype);
  }
  return out;
}

Result<void> RemoteCalls::prepare(RemoteInputs& inputs) {
  if (inputs.failure) {
    Status why = *inputs.failure;
    why.message = fmt::format("{}: {}", name_, why.message);
    return why;
  }
  claim_moved(inputs);
  for (auto& [input, array] : inputs.own)
    if (auto put = put_own(inputs.inputs[input], array); !put) {
      drop_moved(inputs.inputs);
      return put;
    }
  inputs.own.clear();
  return {};
}

/// Takes over the handles that the walk has released: the call itself tells the workers to drop
/// them.
void RemoteCalls::claim_moved(RemoteInputs& inputs) {
  std::set<Handle> moved;
  for (CallInput& input : inputs.inputs) {
    if (input.kind != Kind::Tensor || input.tensor == Handle{}) continue;
    if (session_.dropped()->take(input.tensor)) moved.insert(input.tensor);
    input.moved = moved.contains(input.tensor);
  }
}

Result<void> RemoteCalls::put_own(CallInput& input, const Array& array) {
  if (array.bytes() > kMostMessageBytes / 2)
    return bad_input(
        fmt::format("{}: the tensor {} has {} bytes, and at most {} are sent; have the "
                    "workers read it from files",
                    name_, input.name, array.bytes(), kMostMessageBytes / 2),
        input.name);
  const Handle handle = session_.new_handles(1);
  PutTensor put{handle, input.name, {}, {}};
  put.tensor = {array.dtype(), array.sizes(),
                std::string(static_cast<const char*>(array.data()), array.bytes())};
  if (auto given = session_.give(std::move(put), input.name); !given) return given;
  input.tensor = handle;
  input.moved = true;
  return {};
}

/// Drops the moved inputs of a call that was not sent.
void RemoteCalls::drop_moved(const std::vector<CallInput>& inputs) {
  std::set<Handle> moved;
  for (const CallInput& input : inputs)
    if (input.moved) moved.insert(input.tensor);
  for (const Handle handle : moved) session_.dropped()->add(handle);
}

CallFrame RemoteCalls::call_of(RemoteInputs inputs) {
  CallFrame out;
  out.frame = frame_;
  out.call = session_.new_call();
  out.inputs = std::move(inputs.inputs);
  return out;
}

std::vector<Array> RemoteCalls::arrays(Handle first, const OutputShape& shape) const {
  std::vector<Array> out;
  for (std::size_t i = 0; i < shape.dtypes.size(); ++i)
    out.push_back(remote_array(after(first, i), shape.dtypes[i], session_.dropped()));
  return out;
}

Result<std::vector<Array>> RemoteCalls::issue(RemoteInputs inputs, const OutputShape& shape) {
  CallFrame call = call_of(std::move(inputs));
  call.room = static_cast<std::uint32_t>(shape.names.size());
  call.first = session_.new_handles(call.room);
  call.names = names_digest(shape.names);
  std::vector<Array> out = arrays(call.first, shape);
  if (auto given = session_.give(call, what(call.call)); !given) {
    drop_moved(call.inputs);
    return given.error();
  }
  return out;
}

Result<RemoteCalls::Ended> RemoteCalls::run(RemoteInputs inputs) {
  CallFrame call = call_of(std::move(inputs));
  call.room = kMostOutputs;
  call.first = session_.new_handles(call.room);
  call.tell = true;
  const std::string text = what(call.call);
  if (auto given = session_.give(call, text); !given) {
    drop_moved(call.inputs);
    return given.error();
  }
  auto called = session_.answer<Called>(text, call.first);
  if (!called) return called.error();
  return Ended{*std::move(called), call.first};
}

Result<std::vector<Array>> RemoteCalls::outputs(const Ended& ended, const OutputShape& shape) {
  if (ended.called.outputs == shape.names) return arrays(ended.first, shape);
  return internal_error(
      fmt::format("{} has other outputs than its trace", what(ended.called.call)));
}

}  // namespace lockstep::worker
