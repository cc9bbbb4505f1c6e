// Measures the values of a network model with the real rounds of an agreement on a real
// communicator, and fits the model to them. Called on all ranks of a group at once. Keeps nothing
// on disk (network_file.h).
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/simulator/cost/network_model.h>
#include <lockstep/worker/simulator/cost/rank_clocks.h>

namespace lockstep::worker::simulator {

/// Each figure is the median of `batches` batches of calls, on this rank.
struct Effort {
  int batches = 41;
  int calls = 100;  // in a batch
};

/// Measures a vote. Collective. Errors: as Communicator::run.
[[nodiscard]] Result<std::int64_t> vote_ns(collectives::Communicator& group, const Effort& effort);
/// Measures a payload of `bytes` up the tree and down again, joined by taking one of two.
/// Collective.
[[nodiscard]] Result<std::int64_t> round_trip_ns(collectives::Communicator& group,
                                                 std::size_t bytes, const Effort& effort);
/// Measures an exchange of `sources` sources of 4 dims, two of which differ between ranks: from a
/// rank's observation to the dynamic dims. Collective.
[[nodiscard]] Result<std::int64_t> exchange_ns(collectives::Communicator& group, int sources,
                                               const Effort& effort);
/// Returns the bytes that the ranks of such an exchange send.
[[nodiscard]] TreeBytes exchange_bytes(int ranks, int sources);

/// Measures the bytes of payload that this processor joins in a microsecond. On this rank alone.
[[nodiscard]] std::int64_t joined_per_us(int sources, const Effort& effort);

/// Everything measured on one host.
struct Measured {
  struct Group {
    int ranks = 2;
    std::int64_t vote_ns = 0, exchange_ns = 0;
  };
  std::vector<Group> groups;       // ascending; the first has 2 ranks
  std::size_t bytes = 0;           // of the payload between 2 ranks
  std::int64_t round_trip_ns = 0;  // of that payload
  int sources = 0;                 // sources of the exchanges
  std::int64_t join_bytes_per_us = 1;
  int cores = 1;
};

/// Fits latency and bandwidth to the vote and payload of 2 ranks, and the reading speed to the rest
/// of their exchange. Adds a crowd for each group with more ranks than cores: latency from its
/// vote, reading from its exchange. Requires that the first group has 2 ranks.
[[nodiscard]] NetworkModel fitted(const Measured& measured);

/// Return the model's values for the same measurements: one round after another.
[[nodiscard]] std::int64_t predicted_vote_ns(const NetworkModel& network, int ranks);
[[nodiscard]] std::int64_t predicted_exchange_ns(const NetworkModel& network, int ranks,
                                                 int sources);

}  // namespace lockstep::worker::simulator
