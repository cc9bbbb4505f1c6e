// The network of a step's data collectives, if it is not the network of the agreement: the section
// "data_network" of a cost model. One kind of link joins the devices of a host, another the hosts.
// With staging, every byte also passes through the host's memory. All times are whole nanoseconds.
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
  /// Size of each rank's input; for AllGather, of the result on every rank.
  std::int64_t bytes = 0;
  std::int64_t count = 1;  // executions, one after another; collective_ns() is for one
  bool operator==(const DataCollective&) const = default;
};

/// Links of each device, in each direction. Value type.
struct DataNetwork {
  std::string name;
  Link within{};                    // between devices of one host
  Link between{};                   // from a device to other hosts: each device has its own
  std::int32_t ranks_per_host = 1;  // consecutive ranks share a host
  std::optional<Link> staging{};    // from a device to its host's memory; nullopt: not used
  bool operator==(const DataNetwork&) const = default;
};

/// Returns the time of one collective. Data moves within hosts first, then between them. A
/// reduce-scatter runs around the ranks of each host; each rank then has one share of its host's
/// sum. Then ranks at the same place in their hosts exchange blocks, in steps of doubling distance:
/// with any number of hosts, ceil(log2(hosts)) steps, in which each rank sends all blocks but its
/// own. An all-gather is the reverse; an all-reduce is a reduce-scatter, then an all-gather. An
/// all-to-all sends within the host and to other hosts at the same time, over the two links.
/// Staging adds a copy out of the device and one into it. A last host that is not full counts as
/// full. At most kLongest; 0 for one rank. More bytes or slower links never take less time.
[[nodiscard]] std::int64_t collective_ns(const DataCollective& collective,
                                         const DataNetwork& network, int size);

/// "nvlink3", "infiniband_ndr", …: with the speeds that NCCL's own cost model assumes for such
/// links (../input/cost.md, "Devices and their network"). "shm", "tcp" and "rdma" are the links of
/// network_model.h.
[[nodiscard]] std::vector<std::string_view> link_names();
[[nodiscard]] std::optional<Link> link_preset(std::string_view name);

/// "dgx_a100", "dgx_h100", "dgx_b200": eight devices and eight network ports per host.
[[nodiscard]] std::vector<std::string_view> data_network_names();
[[nodiscard]] std::optional<DataNetwork> data_network_preset(std::string_view name);

}  // namespace lockstep::worker::simulator
