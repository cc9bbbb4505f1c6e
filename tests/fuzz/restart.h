// Stored profiles: what earlier runs of a simulated job leave, and what its ranks start from.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "program.h"
#include "scratch.h"

#include <lockstep/coordinator/store/profile_store.h>

namespace lockstep::fuzz {

/// By group and frame.
using LeftProfiles = std::map<std::pair<std::size_t, std::string>, coordinator::Profile>;

/// The earlier run of the same program, without faults; `other`: with inputs that are partly of
/// another kind, partly of other sizes.
[[nodiscard]] Program earlier_run(const Program& program, bool other);

/// The profiles on the disk of one rank, as `start` says.
class ProfileDisk {
 public:
  /// `same`, `other`: what those earlier runs left.
  ProfileDisk(const Program& program, Start start, const LeftProfiles& same,
              const LeftProfiles& other, const std::string& directory);
  /// Of a group; null: there are none.
  [[nodiscard]] coordinator::ProfileStore* store(std::size_t group);

 private:
  std::vector<std::unique_ptr<coordinator::ProfileStore>> stores_;
};

}  // namespace lockstep::fuzz
