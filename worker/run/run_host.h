// What a program that runs gets from the job around it: its inputs by source, and the status round
// by which all ranks of the frame's group fail together. Implemented by the job facade; the
// interpreter and the executable call it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/communicator.h>
#include <lockstep/collectives/device_data.h>
#include <lockstep/collectives/watch.h>
#include <lockstep/worker/graph/array.h>

namespace lockstep::worker {

/// Tensors by source. A float, an int, a bool and a rank fact are 0-d arrays (f32 or f64, i64,
/// bool, i64) under their own names.
using Inputs = std::map<std::string, Array, std::less<>>;

/// What went wrong on this rank in a run.
struct LocalFailure {
  Status status;
  /// The node at which it did. Of several ranks' failures the one at the earliest node is the
  /// cause: what comes after it may follow from the zeros that a rank sends once it has failed.
  std::uint32_t node = 0;
};

/// One thread.
class RunHost {
 public:
  virtual ~RunHost() = default;
  /// A status round over the group: every rank calls it at the same places of the same program.
  /// `mine` is this rank's failure since the last round. Fails on all ranks with the same error if
  /// any rank brought one.
  [[nodiscard]] virtual Result<void> settle(const std::optional<LocalFailure>& mine) = 0;
  /// settle() reaches all ranks of the run's collectives. If not, a rank that fails takes part in
  /// no further collective: nobody would learn that its part is worth nothing.
  [[nodiscard]] virtual bool reaches_all() const { return true; }
  /// Between two steps of the program: votes that are under way meanwhile may move. Never waits,
  /// and cheap: it is called for every step.
  virtual void poke() {}
  /// A step that goes over more elements than this may take longer than a peer would wait.
  static constexpr std::int64_t kQuickElements = std::int64_t{1} << 24;
  /// The next step goes over so many elements; 0: it is none that computes. Called where a run has
  /// steps of more than kQuickElements.
  virtual void works_on(std::int64_t elements) { (void)elements; }
  /// The inputs have been bound: the run holds what it needs of them for as long as it does.
  virtual void bound() {}
  /// Who carries out the collectives of a group that the graph names. Null: this rank is in none of
  /// that name; no graph with one comes here.
  [[nodiscard]] virtual collectives::Communicator* group(std::string_view name) {
    (void)name;
    return nullptr;
  }
  /// Which rank of the job has this place in that group; no name: among the frame's ranks.
  [[nodiscard]] virtual Rank rank_at(std::string_view group, Rank place) const {
    (void)group;
    return place;
  }
  /// What carries collectives of that group between devices; no name: of the frame's ranks. Null:
  /// they go over the host.
  [[nodiscard]] virtual collectives::DeviceData* device_data(std::string_view name) {
    (void)name;
    return nullptr;
  }
  /// Armed while a device is waited for. Null: nobody watches.
  [[nodiscard]] virtual collectives::Watch* watch() { return nullptr; }
};

}  // namespace lockstep::worker
