// Where a simulated rank's kernels come from: a compiler that takes a unit's text for its object
// and fails as told, behind the production code that shares builds among ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "program.h"
#include "run.h"
#include "scratch.h"

#include <lockstep/coordinator/store/artifact_store.h>
#include <lockstep/worker/agreement.h>
#include <lockstep/worker/compile/toolchain/shared_build.h>

namespace lockstep::fuzz {

/// "cc 1"
[[nodiscard]] std::string compiler_identity(int compiler);

/// What one build came to.
struct Workpiece {
  std::optional<Status> failure;
  /// The error that faults must lead to here.
  std::optional<Code> happened;
  shapes::Fingerprint objects;        // of what was loaded
  shapes::Fingerprint toolchain_key;  // the toolchain that it is for
};

/// The build tools of one rank.
class Workshop {
 public:
  /// All outlive it.
  Workshop(const Program& program, Rank rank, Scratch& scratch, Run& run);
  ~Workshop();

  /// Collective over all ranks, at start: for what class of toolchain a rank's objects are made.
  [[nodiscard]] Result<void> agree(worker::Agreement& all);
  /// No rank of the job can build for this one.
  [[nodiscard]] bool left_alone() const;

  /// Collective, within a call at step `step`: builds the units of a program whose graph is
  /// `graph`. `rejected`: this rank has no program.
  [[nodiscard]] Workpiece build(const GroupPlan& group, std::size_t step,
                                worker::Agreement& agreement, const std::string& frame,
                                const shapes::Fingerprint& graph,
                                const std::optional<Status>& rejected);

 private:
  class Compiler;
  /// Some rank of the group can build all units of this one's program in that step. Under another
  /// consistency than same_graph a peer's program may have other units.
  [[nodiscard]] bool served(const GroupPlan& group, std::size_t step) const;
  /// Another host's objects are in this rank's store.
  void plant(const worker::Program& program);
  void judge(Workpiece& piece, const worker::Program& program, const worker::SharedUnits& made);
  [[nodiscard]] const Host& host() const { return host(rank_); }
  [[nodiscard]] const Host& host(Rank rank) const {
    return program_.hosts[static_cast<std::size_t>(rank.value)];
  }

  const Program& program_;
  Rank rank_;
  Run& run_;
  std::unique_ptr<Compiler> compiler_;
  std::unique_ptr<coordinator::ArtifactStore> store_;
  worker::BuildTools tools_;
};

}  // namespace lockstep::fuzz
