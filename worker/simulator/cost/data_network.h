// The network that a step's data collectives use where it is not that of the agreement: devices of
// one host on a link of their own, hosts on another, or every byte through the host's memory. The
// section "data_network" of a cost model. All times are whole nanoseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/worker/simulator/cost/network_model.h>

namespace lockstep::worker::simulator {

/// A collective of the step, over all ranks.
struct DataCollective {
  enum class Kind : std::uint8_t { AllReduce, ReduceScatter, AllGather, AllToAll };
  Kind kind = Kind::AllReduce;
  /// That a rank brings; AllGather: of the result, on every rank.
  std::int64_t bytes = 0;
  std::int64_t count = 1;  // so many, one after the other; times below are of one
  bool operator==(const DataCollective&) const = default;
};

/// Links of each device, in each direction. Value type.
struct DataNetwork {
  std::string name;
  Link within{};                    // between devices of one host
  Link between{};                   // of a device to those of other hosts: each has its own
  std::int32_t ranks_per_host = 1;  // neighbours share a host
  std::optional<Link> staging{};    // from a device to its host's memory; nullopt: no such detour
  bool operator==(const DataNetwork&) const = default;
};

/// In hosts and then between them. A reduce-scatter goes round the ranks of each host, so that each
/// has a share that its host has summed, and then over the hosts among ranks of the same place in
/// them, in steps whose distance doubles (for any number of hosts, ceil(log2) steps and all blocks
/// but one's own). An all-gather is the same backwards, an all-reduce one after the other. An
/// all-to-all sends to the own host over one link and to the others over the other, at once.
/// Staging adds a copy out and a copy in. A last host that is not full is taken to be full.
/// At most kLongest; 0 for one rank. More bytes or slower links never take less.
[[nodiscard]] std::int64_t collective_ns(const DataCollective& collective,
                                         const DataNetwork& network, int size);

/// "nvlink3", "infiniband_ndr", …: what NCCL's own cost model takes such a link to reach
/// (README.md, "Devices and their network"); "shm", "tcp" and "rdma" are those of network_model.h.
[[nodiscard]] std::vector<std::string_view> link_names();
[[nodiscard]] std::optional<Link> link_preset(std::string_view name);

/// "dgx_a100", "dgx_h100", "dgx_b200": eight devices and eight network ports a host.
[[nodiscard]] std::vector<std::string_view> data_network_names();
[[nodiscard]] std::optional<DataNetwork> data_network_preset(std::string_view name);

}  // namespace lockstep::worker::simulator
