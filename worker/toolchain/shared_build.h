// Builds the units of a program once among the ranks of a group, and gives every rank all of them:
// dealt out, handed on where a rank cannot build, taken from the rank's own artifact store or
// broadcast by who has them. Called by the compile step of a frame; it loads nothing itself.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/coordinator/store/artifact_store.h>
#include <lockstep/worker/agreement/round_key.h>
#include <lockstep/worker/codegen/program.h>
#include <lockstep/worker/toolchain/unit_table.h>

namespace lockstep::worker {

class CallDriver;

/// The largest object that is sent to a rank that lacks it.
inline constexpr std::size_t kLargestArtifact = std::size_t{64} << 20;

/// What a rank does with a unit that falls to it: from the artifact store if it has it, else by the
/// toolchain, and then into the store.
struct BuiltUnit {
  Bytes object;  // verified, or just made
  bool reused = false;
  /// The object could not be kept for others (full or read-only disk); it can still be used.
  std::optional<Status> not_stored;
};

/// `store` may be null. Errors: CompileError, Environment, as Toolchain::build.
[[nodiscard]] Result<BuiltUnit> build_unit(const Program& program, int unit, Toolchain& toolchain,
                                           coordinator::ArtifactStore* store);

/// What this rank builds with. Pointers outlive the build.
struct BuildTools {
  Toolchain* toolchain = nullptr;  // null: none here, and `no_toolchain` says why
  std::optional<Status> no_toolchain;
  shapes::Fingerprint toolchain_key;            // agree_toolchain()
  coordinator::ArtifactStore* store = nullptr;  // null: none here
  /// Told before each unit that is built here ("unit 2 of 5").
  std::function<void(const std::string&)> building = [](const std::string&) {};
  /// Told what goes wrong and does not stop the build: a unit that was handed on, an object that
  /// could not be kept.
  std::function<void(const Status&)> report = [](const Status&) {};
  std::size_t largest = kLargestArtifact;
  RankSet members{};  // of the group, as ranks of the job, for messages; empty: all of them
};

/// What the build came to on this rank.
struct SharedUnits {
  /// One object per unit of the program, each with the digest that the ranks agreed on. nullopt:
  /// the build failed on some rank.
  std::optional<std::vector<Bytes>> objects;
  /// This rank's own part in a failure; the others' come by the commit vote.
  std::optional<Status> failure;
  int built = 0, received = 0;
};

/// Collective, one at a time. Where all ranks have the same objects already it costs one vote.
/// Otherwise: one join of tables, one more after each round of building, a vote on who lacks what,
/// and a broadcast per object that some rank lacks. Requires that all ranks of the group come with
/// the same key; programs may differ. An error of `program` is a failure of this rank.
[[nodiscard]] SharedUnits build_together(CallDriver& driver, RoundKey key,
                                         const Result<Program>& program, const BuildTools& tools);

}  // namespace lockstep::worker
