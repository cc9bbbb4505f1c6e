// A call out of the graph: a function that runs on the host, with values.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/tensor/graph/own_op.h>
#include <lockstep/worker/tensor/trace/tensor.h>

namespace lockstep::worker {

/// `function` runs on the host each time the graph does, on the real values of `inputs`, which are
/// copied from devices once computed. Its result has the dtype and sizes that `shape_rule` gives.
/// All ranks call it, at this place in the order of their collectives, host syncs and other host
/// calls, which they compare by `name`; it is never left out, merged or moved past another. An
/// exception on one rank is the error of all, with rank and line. The function must not talk to
/// other ranks: no rounds, collectives or calls of frames. What it captures has to live as long as
/// the frame. It has no gradient, unless custom_backward() gives it one.
///
///   host_call("log.loss", {loss}, [](auto in) { return in[0]; },
///             [](auto in, Array& out) { std::printf("%g\n", in[0].at(0)); out.set(0, 0); });
///
/// Throws TraceUsageError: for inputs as ops do, for a name that is taken by an op, and with the
/// message of a shape rule that refuses.
Tensor host_call(std::string name, const std::vector<Tensor>& inputs, OwnShapeRule shape_rule,
                 OwnReference function, Line where = Line::current());

/// The definition of such a call, needed to load a saved program that makes the call.
[[nodiscard]] OwnDefinition host_definition(std::string name, OwnShapeRule shape_rule,
                                            OwnReference function);

}  // namespace lockstep::worker
