#include <fmt/format.h>

#include <lockstep/collectives/nccl/nccl.h>

namespace lockstep::collectives {
namespace {

Status missing(const std::string& who) {
  return environment_error(
      fmt::format("{} cannot use NCCL: this program was built without it "
                  "(LOCKSTEP_WITH_NCCL); install NCCL and configure again",
                  who));
}

}  // namespace

Result<std::string> nccl_name(Rank rank) { return missing(fmt::format("rank {}", rank.value)); }

Result<NcclId> nccl_unique_id(Rank rank) { return missing(fmt::format("rank {}", rank.value)); }

Result<std::unique_ptr<DeviceData>> connect_nccl(NcclOptions options) {
  return missing(options.device_name);
}

}  // namespace lockstep::collectives
