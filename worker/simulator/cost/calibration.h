// Measures what a network model needs, with the very rounds of an agreement on a real communicator,
// and fits the model to it. Called on all ranks of a group at once. Keeps nothing on disk
// (network_file.h).
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/simulator/cost/network_model.h>
#include <lockstep/worker/simulator/cost/rank_clocks.h>

namespace lockstep::worker::simulator {

/// Medians of `batches` batches of calls, on this rank.
struct Effort {
  int batches = 41;
  int calls = 100;  // in a batch
};

/// One vote after the other. Collective. Errors: as Communicator::run.
[[nodiscard]] Result<std::int64_t> vote_ns(collectives::Communicator& group, const Effort& effort);
/// A payload of so many bytes up the tree and down again, joined by taking one of two. Collective.
[[nodiscard]] Result<std::int64_t> round_trip_ns(collectives::Communicator& group,
                                                 std::size_t bytes, const Effort& effort);
/// The exchange of so many sources of 4 dims, two of which differ between ranks: from a rank's
/// observation to what is dynamic. Collective.
[[nodiscard]] Result<std::int64_t> exchange_ns(collectives::Communicator& group, int sources,
                                               const Effort& effort);
/// What its ranks send.
[[nodiscard]] TreeBytes exchange_bytes(int ranks, int sources);

/// Bytes of payload that this processor joins in a microsecond. On this rank alone.
[[nodiscard]] std::int64_t joined_per_us(int sources, const Effort& effort);

/// Everything measured on one host.
struct Measured {
  struct Group {
    int ranks = 2;
    std::int64_t vote_ns = 0, exchange_ns = 0;
  };
  std::vector<Group> groups;       // ascending; the first one of 2 ranks
  std::size_t bytes = 0;           // of a payload between 2 ranks
  std::int64_t round_trip_ns = 0;  // what it took
  int sources = 0;                 // of the exchanges
  std::int64_t join_bytes_per_us = 1;
  int cores = 1;
};

/// Latency and bandwidth by 2 ranks' vote and payload; reading by what is left of their exchange. A
/// crowd for each group of more ranks than cores: latency by its vote, reading by its exchange.
/// Requires a group of 2 ranks in front.
[[nodiscard]] NetworkModel fitted(const Measured& measured);

/// What the model says of the same: one round after the other.
[[nodiscard]] std::int64_t predicted_vote_ns(const NetworkModel& network, int ranks);
[[nodiscard]] std::int64_t predicted_exchange_ns(const NetworkModel& network, int ranks,
                                                 int sources);

}  // namespace lockstep::worker::simulator
