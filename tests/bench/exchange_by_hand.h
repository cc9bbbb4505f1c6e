// The floor of every all_to_all with counts that nobody knows before: MPI_Alltoall of the counts,
// then MPI_Alltoallv of the rows, buffers made once.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::bench {

/// `rows` of `width` floats from every rank to every rank of MPI_COMM_WORLD.
class ExchangeByHand {
 public:
  ExchangeByHand(int ranks, std::int64_t rows, std::int64_t width);
  /// Collective.
  void operator()();

 private:
  std::int64_t width_;
  std::vector<std::int64_t> sent_, received_;
  std::vector<int> elements_, places_;  // of both sides, one after the other
  std::vector<float> send_, receive_;
};

}  // namespace lockstep::bench
