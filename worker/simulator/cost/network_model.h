// The cost of messages in virtual time: a latency and a bandwidth between any two ranks, and a
// processor's time for payloads. All times are whole nanoseconds, so equal inputs give equal bytes
// everywhere. Used by the cost model of dry runs; measures nothing itself (calibration.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/rank.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::worker::simulator {

/// The latency-bandwidth model: `bytes` sent at t arrive at t + bytes / bandwidth + latency, and
/// the sender is busy for bytes / bandwidth.
struct Link {
  std::int64_t latency_ns = 0;
  std::int64_t bytes_per_us = 0;  // 1,000 is 1 GB/s; 0: no limit
  bool operator==(const Link&) const = default;
};

/// A host with more ranks than cores. A message waits there until its receiver gets a core.
struct Crowd {
  std::int32_t ranks = 0;
  std::int64_t latency_ns = 0, read_bytes_per_us = 0;  // replace the model's values
  bool operator==(const Crowd&) const = default;
};

/// A network and the hosts on it. Value type.
struct NetworkModel {
  std::string name;
  Link between{};                      // ranks of different hosts
  Link within{};                       // ranks of one host
  std::int32_t ranks_per_host = 1;     // consecutive ranks share a host
  std::int32_t cores_per_host = 0;     // 0: one core per rank
  std::int64_t join_bytes_per_us = 0;  // speed of joining payloads; 0: no limit
  std::int64_t read_bytes_per_us = 0;  // speed of reading a payload and deciding; 0: no limit
  std::vector<Crowd> crowds{};         // ascending, each with more ranks than cores; may be empty

  [[nodiscard]] bool one_host(Rank a, Rank b) const {
    return a.value / ranks_per_host == b.value / ranks_per_host;
  }
  [[nodiscard]] const Link& link(Rank from, Rank to) const {
    return one_host(from, to) ? within : between;
  }
  /// Returns how long a sender is busy with a message. At most kLongest.
  [[nodiscard]] std::int64_t busy_ns(Rank from, Rank to, std::uint64_t bytes) const;
  /// Returns the time from the start of sending to the arrival.
  [[nodiscard]] std::int64_t message_ns(Rank from, Rank to, std::uint64_t bytes) const {
    return busy_ns(from, to, bytes) + link(from, to).latency_ns;
  }
  /// Returns the model for a world of `size` ranks. If a host has more ranks than cores, the result
  /// interpolates between the two nearest crowds; beyond the last one it scales in proportion.
  [[nodiscard]] NetworkModel in_world(int size) const;

  bool operator==(const NetworkModel&) const = default;
};

/// About 11 days: no single time is longer.
inline constexpr std::int64_t kLongest = std::int64_t{1'000'000} * 1'000'000'000;
/// Returns the sum, at most kLongest. Requires both in [0, kLongest].
[[nodiscard]] std::int64_t capped_sum(std::int64_t a, std::int64_t b);
/// Returns `count` times `each`, at most kLongest. Requires both >= 0.
[[nodiscard]] std::int64_t times(std::int64_t count, std::int64_t each);

/// Returns the time of `bytes` at bytes_per_us, rounded up; 0 if bytes_per_us is 0.
[[nodiscard]] std::int64_t transfer_ns(std::uint64_t bytes, std::int64_t bytes_per_us);

/// "shm", "tcp", "rdma".
[[nodiscard]] std::vector<std::string_view> network_names();

/// Reads `text`: "rdma", "alpha=1.5,beta=12.5" (microseconds; 10^9 bytes per second) or the name of
/// a calibrated network, which is read from a file in `folder`. Errors: BadInput, in one sentence.
[[nodiscard]] Result<NetworkModel> parse_network(std::string_view text, const std::string& folder);

}  // namespace lockstep::worker::simulator
