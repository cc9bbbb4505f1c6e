#include <algorithm>

#include <lockstep/worker/simulator/cost/data_network.h>

namespace lockstep::worker::simulator {
namespace {

using Kind = DataCollective::Kind;

struct NamedLink {
  std::string_view name;
  Link link;
};
// Latencies are those of a hop by NCCL's LL128 protocol in its tuning.cc: 1.9 us over NVLink, 4.0
// us over a network, 2.5 us over PCIe. Bandwidths are per device and direction. NVLink, from
// topo.h: 20.0 GB/s on each of 12 links of an A100 (peak 25), 20.6 on 18 of an H100 (peak 25), 40.1
// on 18 of a B200 (peak 50). PCIe gen 3 x16 has 12 GB/s, so gen 4 has 24 and gen 5 48 (peaks 31.5
// and 63). InfiniBand has 12 GB/s for 100 Gb/s (peak 12.5), so HDR has 24 and NDR 48.
constexpr NamedLink kLinks[] = {
    {"nvlink3", {.latency_ns = 1'900, .bytes_per_us = 240'000}},
    {"nvlink4", {.latency_ns = 1'900, .bytes_per_us = 370'800}},
    {"nvlink5", {.latency_ns = 1'900, .bytes_per_us = 721'800}},
    {"pcie4", {.latency_ns = 2'500, .bytes_per_us = 24'000}},
    {"pcie5", {.latency_ns = 2'500, .bytes_per_us = 48'000}},
    {"infiniband_hdr", {.latency_ns = 4'000, .bytes_per_us = 24'000}},
    {"infiniband_ndr", {.latency_ns = 4'000, .bytes_per_us = 48'000}},
};

struct System {
  std::string_view name, within, between;
};
constexpr System kSystems[] = {{"dgx_a100", "nvlink3", "infiniband_hdr"},
                               {"dgx_h100", "nvlink4", "infiniband_ndr"},
                               {"dgx_b200", "nvlink5", "infiniband_ndr"}};

std::int64_t busy_ns(const Link& link, std::int64_t bytes) {
  return transfer_ns(static_cast<std::uint64_t>(bytes), link.bytes_per_us);
}

std::int64_t message_ns(const Link& link, std::int64_t bytes) {
  return capped_sum(link.latency_ns, busy_ns(link, bytes));
}

std::int64_t shared(std::int64_t bytes, std::int64_t parts) {
  return bytes / parts + (bytes % parts != 0 ? 1 : 0);
}

/// The world as `in_host` ranks on each of `hosts` hosts.
struct Shape {
  std::int64_t in_host, hosts;
};

/// Returns the time to move blocks over distances 1, 2, 4, …. At distance d these are d blocks, or
/// fewer if fewer are still missing.
std::int64_t doubling(const Link& link, std::int64_t block, std::int64_t hosts) {
  std::int64_t out = 0;
  for (std::int64_t distance = 1; distance < hosts; distance *= 2) {
    const std::int64_t blocks = std::min(distance, hosts - distance);
    out = capped_sum(out, message_ns(link, blocks * block));
  }
  return out;
}

/// Returns the time of a reduce-scatter or an all-gather: half of an all-reduce.
std::int64_t scatter(std::int64_t bytes, const DataNetwork& network, const Shape& shape) {
  const std::int64_t share = shared(bytes, shape.in_host);
  return capped_sum(times(shape.in_host - 1, message_ns(network.within, share)),
                    doubling(network.between, shared(share, shape.hosts), shape.hosts));
}

/// Returns the time of `count` messages that leave one after another, without waiting for each
/// other.
std::int64_t burst(std::int64_t count, const Link& link, std::int64_t bytes) {
  return count == 0 ? 0 : capped_sum(link.latency_ns, times(count, busy_ns(link, bytes)));
}

std::int64_t moved(const DataCollective& collective, const DataNetwork& network, int size) {
  const std::int64_t in_host = std::min<std::int64_t>(network.ranks_per_host, size);
  const Shape shape{.in_host = in_host, .hosts = shared(size, in_host)};
  switch (collective.kind) {
    case Kind::AllReduce:
      return times(2, scatter(collective.bytes, network, shape));
    case Kind::ReduceScatter:
    case Kind::AllGather:
      return scatter(collective.bytes, network, shape);
    case Kind::AllToAll: {
      const std::int64_t share = shared(collective.bytes, size);
      return std::max(burst(in_host - 1, network.within, share),
                      burst((shape.hosts - 1) * in_host, network.between, share));
    }
  }
  return 0;
}

/// Returns the time of both copies: out of the device before the collective, and back after it.
std::int64_t staged(const DataCollective& collective, const Link& staging, int size) {
  const std::int64_t all = collective.bytes, share = shared(all, size);
  const std::int64_t out = collective.kind == Kind::AllGather ? share : all;
  const std::int64_t in = collective.kind == Kind::ReduceScatter ? share : all;
  return capped_sum(message_ns(staging, out), message_ns(staging, in));
}

}  // namespace

std::int64_t collective_ns(const DataCollective& collective, const DataNetwork& network, int size) {
  if (size == 1) return 0;
  const std::int64_t out = moved(collective, network, size);
  return network.staging ? capped_sum(out, staged(collective, *network.staging, size)) : out;
}

std::vector<std::string_view> link_names() {
  std::vector<std::string_view> out = network_names();
  for (const NamedLink& known : kLinks) out.push_back(known.name);
  return out;
}

std::optional<Link> link_preset(std::string_view name) {
  for (const NamedLink& known : kLinks)
    if (known.name == name) return known.link;
  const auto hosts = network_names();
  if (std::find(hosts.begin(), hosts.end(), name) == hosts.end()) return std::nullopt;
  return parse_network(name, "")->between;
}

std::vector<std::string_view> data_network_names() {
  std::vector<std::string_view> out;
  for (const System& known : kSystems) out.push_back(known.name);
  return out;
}

std::optional<DataNetwork> data_network_preset(std::string_view name) {
  constexpr std::int32_t kDevices = 8;
  for (const System& known : kSystems)
    if (known.name == name)
      return DataNetwork{.name = std::string(name),
                         .within = *link_preset(known.within),
                         .between = *link_preset(known.between),
                         .ranks_per_host = kDevices};
  return std::nullopt;
}

}  // namespace lockstep::worker::simulator
