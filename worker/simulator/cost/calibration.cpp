#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/tree.h>
#include <lockstep/collectives/vote.h>
#include <lockstep/worker/agree/exchange/decision.h>
#include <lockstep/worker/agree/exchange/exchange.h>
#include <lockstep/worker/simulator/cost/calibration.h>
#include <lockstep/worker/simulator/cost/timing.h>

namespace lockstep::worker::simulator {
namespace {

using collectives::Communicator;
using collectives::TreeRound;

/// Returns the median over batches of a call's mean time. Discards the first batch (warm-up).
Result<std::int64_t> median_of(const Effort& effort, const std::function<Result<void>()>& call) {
  std::vector<std::int64_t> means;
  for (int batch = 0; batch <= effort.batches; ++batch) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < effort.calls; ++i)
      if (auto done = call(); !done) return done.error();
    const Duration took = std::chrono::steady_clock::now() - begin;
    if (batch > 0) means.push_back(took.count() / effort.calls);
  }
  return percentiles(means).p50;
}

Observation sources_of(int rank, int sources) {
  ObservationBuilder out;
  for (int s = 0; s < sources; ++s)
    out.tensor(fmt::format("source_{:05}", s), {5 + rank % 4, 16, 9 - rank % 4, 64});
  return out.build();
}

/// Reads the joint observation as a real exchange does. Returns the number of symbols.
std::size_t dynamic_dims(const Bytes& joined, const Observation& mine) {
  const auto joint = read_list_payload(joined, mine.list, nullptr);
  return joint ? joint_symbols(*joint).size() : 0;
}

/// Returns the joined payload of ranks low to high. If `sent` is not null, stores the length that
/// each rank sends up.
Bytes joined(std::int32_t low, std::int32_t high, int sources, TreeBytes* sent) {
  const std::int32_t head = low + (high - low) / 2;
  Bytes out = list_payload(sources_of(head, sources));
  if (low < head) out = join_columns(joined(low, head - 1, sources, sent), out);
  if (head < high) out = join_columns(out, joined(head + 1, high, sources, sent));
  if (sent != nullptr)
    sent->up[static_cast<std::size_t>(head)] = static_cast<std::uint32_t>(out.size());
  return out;
}

/// Returns a rate in whole bytes per microsecond.
std::int64_t rate(std::size_t bytes, std::int64_t ns) {
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(bytes) * 1000 / std::max<std::int64_t>(1, ns));
}

constexpr int kRounds = 32;  // rounds in a row

std::int64_t per_round(const NetworkModel& network, int ranks,
                       const std::function<void(RankClocks&)>& round) {
  RankClocks clocks(network, ranks);
  for (int i = 0; i < kRounds; ++i) round(clocks);
  const std::int64_t before = clocks.latest();
  for (int i = 0; i < kRounds; ++i) round(clocks);
  return (clocks.latest() - before) / kRounds;
}

/// Returns the number of latencies that follow each other in a vote.
std::int64_t vote_hops(int ranks) {
  constexpr Link kOne{.latency_ns = 1'000'000, .bytes_per_us = 0};
  return predicted_vote_ns({.name = {}, .between = kOne, .within = kOne}, ranks) / kOne.latency_ns;
}

/// Returns the reading speed. What the group's exchange takes beyond the prediction without reading
/// counts as reading.
std::int64_t reading(NetworkModel network, const Measured::Group& group, int sources) {
  network.read_bytes_per_us = 0;
  return rate(exchange_bytes(group.ranks, sources).down,
              group.exchange_ns - predicted_exchange_ns(network, group.ranks, sources));
}

}  // namespace

Result<std::int64_t> vote_ns(Communicator& group, const Effort& effort) {
  return median_of(effort, [&]() -> Result<void> {
    collectives::VoteRound round(group.rank(), group.size(), collectives::Vote::of(1, 2, 3, 4));
    return group.run(round);
  });
}

Result<std::int64_t> round_trip_ns(Communicator& group, std::size_t bytes, const Effort& effort) {
  const auto one_of_two = [](std::span<const std::byte> lower, std::span<const std::byte>) {
    return Bytes(lower.begin(), lower.end());
  };
  return median_of(effort, [&]() -> Result<void> {
    TreeRound round(group.rank(), group.size(), Bytes(bytes), one_of_two);
    return group.run(round);
  });
}

Result<std::int64_t> exchange_ns(Communicator& group, int sources, const Effort& effort) {
  const Observation mine = sources_of(group.rank().value, sources);
  return median_of(effort, [&]() -> Result<void> {
    TreeRound round(group.rank(), group.size(), list_payload(mine), join_columns);
    if (auto done = group.run(round); !done) return done;
    if (dynamic_dims(round.result(), mine) == 0)
      return internal_error("an exchange found nothing that differs.");
    return {};
  });
}

TreeBytes exchange_bytes(int ranks, int sources) {
  TreeBytes out{.up = std::vector<std::uint32_t>(static_cast<std::size_t>(ranks)), .down = 0};
  out.down = joined(0, ranks - 1, sources, &out).size();
  return out;
}

std::int64_t joined_per_us(int sources, const Effort& effort) {
  const Bytes low = joined(0, 1, sources, nullptr), high = joined(2, 3, sources, nullptr);
  std::size_t seen = 0;
  const auto join = median_of(effort, [&]() -> Result<void> {
    seen += join_columns(low, high).size();
    return {};
  });
  return seen == 0 ? 1 : rate(high.size(), *join);
}

NetworkModel fitted(const Measured& measured) {
  NetworkModel out;
  const std::int64_t hop = measured.groups.front().vote_ns;
  const std::int64_t way = measured.round_trip_ns / 2;  // from the leaves to the root, or back
  // hop = latency + 64 / bandwidth and way = latency + bytes / bandwidth
  constexpr std::size_t kVote = sizeof(collectives::Vote);
  Link link;
  link.bytes_per_us = rate(measured.bytes - kVote, way - hop);
  link.latency_ns = std::max<std::int64_t>(0, hop - transfer_ns(kVote, link.bytes_per_us));
  out.between = out.within = link;
  out.ranks_per_host = INT32_MAX;
  out.join_bytes_per_us = measured.join_bytes_per_us;
  out.read_bytes_per_us = reading(out, measured.groups.front(), measured.sources);
  out.cores_per_host = measured.cores;
  std::vector<Crowd> crowds;
  for (const Measured::Group& group : measured.groups) {
    if (group.ranks <= std::max(2, measured.cores)) continue;
    NetworkModel crowded = out;
    crowded.within.latency_ns =
        std::max<std::int64_t>(0, group.vote_ns / vote_hops(group.ranks) - (hop - link.latency_ns));
    crowds.push_back(
        {group.ranks, crowded.within.latency_ns, reading(crowded, group, measured.sources)});
  }
  out.crowds = std::move(crowds);
  return out;
}

std::int64_t predicted_vote_ns(const NetworkModel& network, int ranks) {
  return per_round(network, ranks, [](RankClocks& clocks) { clocks.vote(); });
}

std::int64_t predicted_exchange_ns(const NetworkModel& network, int ranks, int sources) {
  const TreeBytes bytes = exchange_bytes(ranks, sources);
  return per_round(network, ranks, [&](RankClocks& clocks) { clocks.tree_join(bytes); });
}

}  // namespace lockstep::worker::simulator
