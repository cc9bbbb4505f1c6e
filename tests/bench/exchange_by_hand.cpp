#include "exchange_by_hand.h"

#include <mpi.h>

namespace lockstep::bench {

ExchangeByHand::ExchangeByHand(int ranks, std::int64_t rows, std::int64_t width)
    : width_(width),
      sent_(static_cast<std::size_t>(ranks), rows),
      received_(sent_.size()),
      elements_(2 * sent_.size()),
      places_(2 * sent_.size()),
      send_(sent_.size() * static_cast<std::size_t>(rows * width), 1.0F),
      receive_(send_) {}

void ExchangeByHand::operator()() {
  MPI_Alltoall(sent_.data(), 1, MPI_INT64_T, received_.data(), 1, MPI_INT64_T, MPI_COMM_WORLD);
  const std::size_t n = sent_.size();
  for (std::size_t p = 0; p < n; ++p) {
    elements_[p] = static_cast<int>(sent_[p] * width_);
    elements_[n + p] = static_cast<int>(received_[p] * width_);
    if (p == 0) continue;
    places_[p] = places_[p - 1] + elements_[p - 1];
    places_[n + p] = places_[n + p - 1] + elements_[n + p - 1];
  }
  MPI_Alltoallv(send_.data(), elements_.data(), places_.data(), MPI_FLOAT, receive_.data(),
                elements_.data() + n, places_.data() + n, MPI_FLOAT, MPI_COMM_WORLD);
}

}  // namespace lockstep::bench
