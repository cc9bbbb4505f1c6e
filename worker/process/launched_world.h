// The two worlds of processes that a launcher started, or that are alone. Used by world.cpp only.
#pragma once

#include <lockstep/worker/process/world.h>

namespace lockstep::worker {

/// Whether processes that a launcher has started are joined by MPI; else they have to meet.
[[nodiscard]] bool joins_by_mpi();
/// As join_world() and join_group(), without a meeting.
[[nodiscard]] Result<World> join_launched(const WorldOptions& options);
[[nodiscard]] Result<std::unique_ptr<collectives::Communicator>> join_launched_group(
    const World& world, const RankSet& members, std::uint64_t id, std::string_view name);
/// What the watch of `self` is told, of every world; makes the last words of `world`.
[[nodiscard]] collectives::WatchOptions watch_options(const WorldOptions& options, Rank self,
                                                      World& world);

}  // namespace lockstep::worker
