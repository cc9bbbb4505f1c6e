// Ops defined outside of lockstep, by a name, a shape rule and a reference.
#pragma once

#include <memory>
#include <vector>

#include <lockstep/worker/tensor/graph/own_op.h>
#include <lockstep/worker/tensor/trace/own_gradient.h>

namespace lockstep::worker {

/// An op that frames call like any other. It is one node of the graph. The interpreter runs its
/// reference; a program for the host runs its text, else its function, else its reference; a
/// program for a device runs its text, else as on the host, with values copied there and back.
/// Ranks compare its definition: if texts, versions or claims differ, they fail at their first call
/// of the frame, with the op's name.
///
///   const OwnOp swish({.name = "example.swish",
///                      .version = "1",
///                      .shape_rule = [](auto inputs) { return inputs[0]; },
///                      .reference = swish_on_arrays,
///                      .host_text = "for (long i = thread; i < count; i += threads)"
///                                   "  out[i] = in0[i] / (1 + exp_(-in0[i]));"},
///                     [](const BackwardCall& call) { return std::vector{...}; });
///   const Tensor y = swish({x});
///
/// opcheck() (worker/compile/opcheck) tests an OwnOp.
class OwnOp {
 public:
  /// `gradient`: as for custom_backward(), with one output; it may call own ops. Without a
  /// gradient, grad() through the op refuses.
  explicit OwnOp(OwnDefinition definition, BackwardFunction gradient = {})
      : definition_(std::make_shared<const OwnDefinition>(std::move(definition))),
        gradient_(std::move(gradient)) {}
  /// Throws TraceUsageError: for inputs as other ops do; for an invalid definition (the name is
  /// taken, a part is missing); with the message of a shape rule that refuses the inputs; if the
  /// frame uses another op of that name.
  [[nodiscard]] Tensor operator()(const std::vector<Tensor>& inputs,
                                  Line where = Line::current()) const;
  [[nodiscard]] const OwnDefinition& definition() const { return *definition_; }
  [[nodiscard]] bool has_gradient() const { return gradient_ != nullptr; }

 private:
  std::shared_ptr<const OwnDefinition> definition_;
  BackwardFunction gradient_;
};

}  // namespace lockstep::worker
