// Ops that are defined outside of lockstep: a name, a shape rule and a reference make one.
#pragma once

#include <memory>
#include <vector>

#include <lockstep/worker/graph/own_op.h>
#include <lockstep/worker/trace/own_gradient.h>

namespace lockstep::worker {

/// An op that frames call like any other. It is one node of the graph: interpreted by its
/// reference; in a program for the host its text, else its function, else its reference; on a
/// device its text, else as on the host, with values brought there and back. Ranks compare its
/// definition: two ranks whose texts, versions or claims differ fail at their first call of the
/// frame, with the op's name.
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
/// opcheck() (worker/opcheck) tests one.
class OwnOp {
 public:
  /// `gradient`: as of custom_backward(), with one output; what it calls may be own ops. Without
  /// one, grad() that comes past refuses.
  explicit OwnOp(OwnDefinition definition, BackwardFunction gradient = {})
      : definition_(std::make_shared<const OwnDefinition>(std::move(definition))),
        gradient_(std::move(gradient)) {}
  /// Throws TraceUsageError: for inputs as other ops do; for a definition that is none (the name is
  /// taken, something is missing); with the words of a shape rule that refuses the inputs; where
  /// the frame uses another op of that name.
  [[nodiscard]] Tensor operator()(const std::vector<Tensor>& inputs,
                                  Line where = Line::current()) const;
  [[nodiscard]] const OwnDefinition& definition() const { return *definition_; }
  [[nodiscard]] bool has_gradient() const { return gradient_ != nullptr; }

 private:
  std::shared_ptr<const OwnDefinition> definition_;
  BackwardFunction gradient_;
};

}  // namespace lockstep::worker
