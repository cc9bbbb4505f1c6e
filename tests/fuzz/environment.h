// What stands in for the user's function and its compiler: a trace whose program follows from the
// decision alone, but for what faults add to it.
#pragma once

#include <optional>
#include <string>

#include "fiber_communicator.h"
#include "program.h"

#include <lockstep/worker/agreement.h>

namespace lockstep::fuzz {

/// The steps of one call on one rank.
class Environment final : public worker::CallSteps {
 public:
  struct Struck {
    std::optional<std::uint64_t> trace, graph, compile;  // amounts of the faults
    FiberCommunicator* ignores_commit = nullptr;
  };

  Environment(const GroupPlan& group, worker::Agreement& agreement, const worker::Observation& seen,
              int rank, Struck struck)
      : group_(group), agreement_(agreement), seen_(seen), rank_(rank), struck_(struck) {}

  [[nodiscard]] Result<worker::TraceReport> trace(const worker::Decision& decision) override;
  [[nodiscard]] std::string explain(std::size_t node) override;
  [[nodiscard]] std::optional<Status> compile() override;

  /// The program that the last trace came to.
  [[nodiscard]] const shapes::Fingerprint& graph() const { return graph_; }
  /// The error that a fault which has really struck must lead to.
  [[nodiscard]] const std::optional<Code>& happened() const { return happened_; }

 private:
  [[nodiscard]] Result<void> ask(const worker::Decision& decision, worker::TraceReport& report);

  const GroupPlan& group_;
  worker::Agreement& agreement_;
  const worker::Observation& seen_;
  int rank_;
  Struck struck_;
  shapes::Fingerprint graph_;
  std::optional<Code> happened_;
};

}  // namespace lockstep::fuzz
