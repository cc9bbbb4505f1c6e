// What a program that runs gets from the job around it: its inputs by source, and the status round
// by which all ranks of the frame's group fail together. Implemented by the job facade; the
// interpreter and the executable call it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/array.h>

namespace lockstep::worker {

/// Tensors by source. A float, an int, a bool and a rank fact are 0-d arrays (f32 or f64, i64,
/// bool, i64) under their own names.
using Inputs = std::map<std::string, Array, std::less<>>;

/// One thread.
class RunHost {
 public:
  virtual ~RunHost() = default;
  /// A status round over the group: every rank calls it at the same places of the same program.
  /// `mine` is this rank's failure since the last round. Fails on all ranks with the same error if
  /// any rank brought one.
  [[nodiscard]] virtual Result<void> settle(const std::optional<Status>& mine) = 0;
  /// Who carries out the collectives of a group that the graph names. Null: this rank is in none of
  /// that name; no graph with one comes here.
  [[nodiscard]] virtual collectives::Communicator* group(std::string_view name) {
    (void)name;
    return nullptr;
  }
};

}  // namespace lockstep::worker
