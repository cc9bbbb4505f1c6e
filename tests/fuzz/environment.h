// What stands in for the user's function and its compiler: a trace whose program follows from the
// decision alone, but for what faults add to it.
#pragma once

#include <optional>
#include <string>

#include "fiber_communicator.h"
#include "program.h"
#include "workshop.h"

#include <lockstep/worker/agreement.h>

namespace lockstep::fuzz {

/// The steps of one call on one rank.
class Environment final : public worker::CallSteps {
 public:
  struct Struck {
    std::optional<std::uint64_t> trace, graph, compile;  // amounts of the faults
    bool ignores_commit = false;
    std::size_t step = 0;
    bool corrupt = false;
  };

  /// `workshop`: null: it builds nothing.
  Environment(const GroupPlan& group, worker::Agreement& agreement, FiberCommunicator& communicator,
              const worker::Observation& seen, int rank, Struck struck, Workshop* workshop)
      : group_(group),
        agreement_(agreement),
        communicator_(communicator),
        seen_(seen),
        rank_(rank),
        struck_(struck),
        workshop_(workshop) {}

  [[nodiscard]] Result<worker::TraceReport> trace(const worker::Decision& decision) override;
  [[nodiscard]] std::string explain(std::size_t node) override;
  [[nodiscard]] std::optional<Status> compile() override;

  /// The program that the last trace came to.
  [[nodiscard]] const shapes::Fingerprint& graph() const { return graph_; }
  /// What was built for it.
  [[nodiscard]] const shapes::Fingerprint& objects() const { return objects_; }
  [[nodiscard]] const shapes::Fingerprint& toolchain_key() const { return toolchain_key_; }
  /// The error that a fault which has really struck must lead to.
  [[nodiscard]] const std::optional<Code>& happened() const { return happened_; }

 private:
  [[nodiscard]] std::optional<Status> build(const std::optional<Status>& rejected);
  [[nodiscard]] Result<void> ask(const worker::Decision& decision, worker::TraceReport& report);

  const GroupPlan& group_;
  worker::Agreement& agreement_;
  FiberCommunicator& communicator_;
  const worker::Observation& seen_;
  int rank_;
  Struck struck_;
  Workshop* workshop_;
  shapes::Fingerprint graph_, objects_, toolchain_key_;
  std::optional<Code> happened_;
};

}  // namespace lockstep::fuzz
