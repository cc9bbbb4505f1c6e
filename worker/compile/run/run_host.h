// What a running program gets from its job: inputs by source, and the status round in which all
// ranks of the frame's group fail together. Implemented by the job; called by the interpreter and
// the executable.
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
#include <lockstep/worker/compile/run/threads.h>
#include <lockstep/worker/tensor/graph/array.h>

namespace lockstep::worker {

/// Tensors by source. Floats, ints, bools and rank facts are 0-d arrays (f32 or f64, i64, bool,
/// i64) under their own names.
using Inputs = std::map<std::string, Array, std::less<>>;

/// This rank's failure in a run.
struct LocalFailure {
  Status status;
  /// The node that failed. Among several ranks, the failure at the earliest node is the cause:
  /// later failures may follow from the zeros that a rank sends once it has failed.
  std::uint32_t node = 0;
};

/// Single-threaded.
class RunHost {
 public:
  virtual ~RunHost() = default;
  /// Runs a status round over the group: every rank calls it at the same places of the same
  /// program. `mine` is this rank's failure since the last round. Fails on all ranks with the same
  /// error if any rank has a failure.
  [[nodiscard]] virtual Result<void> settle(const std::optional<LocalFailure>& mine) = 0;
  /// True if settle() reaches all ranks of the run's collectives. If not, a rank that fails takes
  /// part in no further collective: its peers would never learn that its part is invalid.
  [[nodiscard]] virtual bool reaches_all() const { return true; }
  /// Called between two steps of the program: advances votes in flight. Never blocks, and is cheap:
  /// it is called for every step.
  virtual void poke() {}
  /// A step over more elements than this may take longer than a peer would wait.
  static constexpr std::int64_t kQuickElements = std::int64_t{1} << 24;
  /// Announces the number of elements that the next step goes over; 0 if it does not compute.
  /// Called in runs that have steps of more than kQuickElements.
  virtual void announce_step_size(std::int64_t elements) { (void)elements; }
  /// Called once the inputs are bound: from then on the run holds the inputs that it needs, and the
  /// caller may release its own references.
  virtual void bound() {}
  /// Returns the communicator of a group that the graph names. Null: this rank is in no such group;
  /// graphs with such a group are refused before the run.
  [[nodiscard]] virtual collectives::Communicator* group(std::string_view name) {
    (void)name;
    return nullptr;
  }
  /// Returns the rank of the job at this place of the group; an empty name means the frame's group.
  [[nodiscard]] virtual Rank rank_at(std::string_view group, Rank place) const {
    (void)group;
    return place;
  }
  /// Returns the transport of the group's collectives between devices; an empty name means the
  /// frame's group. Null: they go over the host.
  [[nodiscard]] virtual collectives::DeviceData* device_data(std::string_view name) {
    (void)name;
    return nullptr;
  }
  /// The threads that the steps of a program on the host share.
  [[nodiscard]] virtual Threads& threads() {
    static Threads caller_alone;
    return caller_alone;
  }
  /// The watch to arm while waiting for a device. Null: there is no watch.
  [[nodiscard]] virtual collectives::Watch* watch() { return nullptr; }
};

}  // namespace lockstep::worker
