// Builds the units of a program once among the ranks of a group, and gives all of them to every
// rank. Units are dealt out, and dealt again if a rank cannot build them. A rank takes objects from
// its own artifact store, or receives them from their holders. Called by the compile step of a
// frame; loads nothing itself.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/coordinator/store/artifact_store.h>
#include <lockstep/worker/agree/agreement/round_key.h>
#include <lockstep/worker/compile/codegen/program.h>
#include <lockstep/worker/compile/toolchain/unit_table.h>

namespace lockstep::worker {

class CallDriver;

/// Largest object that is sent to a rank that lacks it, in bytes.
inline constexpr std::size_t kLargestArtifact = std::size_t{64} << 20;

/// What this rank builds with. The pointed-to objects outlive the build.
struct BuildTools {
  Toolchain* toolchain = nullptr;  // null: this rank has none, for the reason in `no_toolchain`
  std::optional<Status> no_toolchain;
  shapes::Fingerprint toolchain_key;            // from agree_toolchain()
  coordinator::ArtifactStore* store = nullptr;  // null: this rank has none
  /// Calls act(k) for each k below `count`, each once, on one thread or on several.
  std::function<void(int count, const std::function<void(int k)>& act)> side_by_side =
      [](int count, const std::function<void(int)>& act) {
        for (int k = 0; k < count; ++k) act(k);
      };
  /// Called before each unit that is built here ("unit 2 of 5"), by one thread at a time.
  std::function<void(const std::string&)> building = [](const std::string&) {};
  /// Receives problems that do not stop the build: a unit left to other ranks, an object that could
  /// not be kept.
  std::function<void(const Status&)> report = [](const Status&) {};
  std::size_t largest = kLargestArtifact;
  RankSet members{};  // the group's members as ranks of the job, for messages; empty: all
};

/// The result of a build on this rank.
struct SharedUnits {
  /// One object per unit of the program, each with the digest that the ranks agreed on. nullopt if
  /// the build failed on some rank.
  std::optional<std::vector<Bytes>> objects;
  /// This rank's own failure; those of others arrive with the commit vote.
  std::optional<Status> failure;
  int built = 0, received = 0;
};

/// Builds the program's units together with the other ranks of the group. Collective, one call at a
/// time. Costs one vote if all ranks have the same objects already. Otherwise: one join of tables,
/// one more after each round of building, a vote on which ranks lack what, and a broadcast per
/// object that some rank lacks. Requires the same key on all ranks of the group; programs may
/// differ. An error in `program` is a failure of this rank.
[[nodiscard]] SharedUnits build_together(CallDriver& driver, RoundKey key,
                                         const Result<Program>& program, const BuildTools& tools);

}  // namespace lockstep::worker
