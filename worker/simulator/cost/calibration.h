// Measures the values of a network model by running the rounds of an agreement on a real
// communicator, and fits the model to them. The collective functions are called on all ranks of a
// group at once. Writes nothing to disk (see network_file.h).
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/simulator/cost/network_model.h>
#include <lockstep/worker/simulator/cost/rank_clocks.h>

namespace lockstep::worker::simulator {

/// Number of measurements. A result is the median over `batches` batches, on this rank.
struct Effort {
  int batches = 41;
  int calls = 100;  // per batch
};

/// Measures a vote. Collective. Errors: as Communicator::run.
[[nodiscard]] Result<std::int64_t> vote_ns(collectives::Communicator& group, const Effort& effort);
/// Measures a payload of `bytes` that travels up the tree and down again; the join keeps one of two
/// payloads. Collective.
[[nodiscard]] Result<std::int64_t> round_trip_ns(collectives::Communicator& group,
                                                 std::size_t bytes, const Effort& effort);
/// Measures an exchange, from the rank's own observation to the list of dynamic dims. There are
/// `sources` sources, each with 4 dims of which two differ between ranks. Collective.
[[nodiscard]] Result<std::int64_t> exchange_ns(collectives::Communicator& group, int sources,
                                               const Effort& effort);
/// Returns the bytes that the ranks send in the exchange that exchange_ns() measures.
[[nodiscard]] TreeBytes exchange_bytes(int ranks, int sources);

/// Measures how many bytes of payload this processor joins in a microsecond. Not collective.
[[nodiscard]] std::int64_t joined_per_us(int sources, const Effort& effort);

/// Everything measured on one host.
struct Measured {
  struct Group {
    int ranks = 2;
    std::int64_t vote_ns = 0, exchange_ns = 0;
  };
  std::vector<Group> groups;       // ascending; the first has 2 ranks
  std::size_t bytes = 0;           // size of the payload between 2 ranks
  std::int64_t round_trip_ns = 0;  // time of that payload
  int sources = 0;                 // number of sources in the exchanges
  std::int64_t join_bytes_per_us = 1;
  int cores = 1;
};

/// Fits latency and bandwidth to the vote and the payload of 2 ranks. The rest of their exchange
/// gives the reading speed. Each group with more ranks than cores becomes a crowd: its vote gives
/// the latency, its exchange the reading speed. Requires that the first group has 2 ranks.
[[nodiscard]] NetworkModel fitted(const Measured& measured);

/// Return the model's predictions of vote_ns() and exchange_ns(): means of many rounds in a row.
[[nodiscard]] std::int64_t predicted_vote_ns(const NetworkModel& network, int ranks);
[[nodiscard]] std::int64_t predicted_exchange_ns(const NetworkModel& network, int ranks,
                                                 int sources);

}  // namespace lockstep::worker::simulator
