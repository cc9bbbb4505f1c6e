#include <algorithm>

#include <fmt/format.h>

#include <lockstep/collectives/base/board_snapshot.h>

namespace lockstep {

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::Starting:
      return "starting";
    case Phase::Running:
      return "running";
    case Phase::Tracing:
      return "tracing";
    case Phase::Compiling:
      return "compiling";
    case Phase::Loading:
      return "loading";
    case Phase::Finishing:
      return "finishing";
  }
  return "running";
}

std::string_view operation_name(OperationKind kind) {
  switch (kind) {
    case OperationKind::None:
      return "no operation";
    case OperationKind::Vote:
      return "vote";
    case OperationKind::Exchange:
      return "exchange";
    case OperationKind::AllToAll:
      return "all_to_all_single";
    case OperationKind::AllReduce:
      return "all_reduce";
    case OperationKind::AllGather:
      return "all_gather_into_tensor";
    case OperationKind::ReduceScatter:
      return "reduce_scatter_tensor";
    case OperationKind::Collective:
      return "collective";
    case OperationKind::Broadcast:
      return "broadcast";
  }
  return "operation";
}

const GroupState* BoardSnapshot::group(std::uint64_t id) const {
  const auto it =
      std::find_if(groups.begin(), groups.end(), [&](const GroupState& g) { return g.id == id; });
  return it == groups.end() ? nullptr : &*it;
}

std::string operation_text(const RankState& rank) {
  std::string out = fmt::format("operation {} ({}", rank.ordinal, operation_name(rank.operation));
  if (rank.group != kWorldGroup)
    out += rank.group_name.empty() ? fmt::format(" of group {:x}", rank.group)
                                   : fmt::format(" of group {}", rank.group_name);
  return out + ")";
}

std::string describe(const RankState& rank, Instant now) {
  if (!rank.known) return "not on this host's board";
  std::string out;
  if (rank.lost)
    out = "its process ended; last ";
  else if (rank.finished)
    out = "has finished; last ";
  else if (rank.stopped)
    out = "its process is stopped; last ";
  if (rank.operation == OperationKind::None) {
    out += "in no operation yet";
  } else {
    out += rank.waiting && !rank.lost ? "waits in " : "began ";
    out += operation_text(rank);
  }
  // The first operation ends the phase Starting, even if the program has not set another phase.
  const bool started = rank.phase == Phase::Starting && rank.operation != OperationKind::None;
  if (!rank.waiting) out += fmt::format(", {}", phase_name(started ? Phase::Running : rank.phase));
  if (!rank.waiting && rank.lease > now) out += " (lease valid)";
  if (!rank.event.empty()) out += fmt::format(", last event: {}", rank.event);
  return out;
}

}  // namespace lockstep
