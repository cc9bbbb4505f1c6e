#include <algorithm>

#include <lockstep/worker/compile/run/carried_status.h>

namespace lockstep::worker {

Result<bool> CarriedStatus::all_to_all_with_status(collectives::Communicator& communicator,
                                                   collectives::Collective counts, bool failed) {
  const std::size_t ranks = counts.send_rows.size();
  const auto row = static_cast<std::size_t>(counts.row_elements);
  const std::size_t block = static_cast<std::size_t>(counts.send_rows[0]) * row;
  send_.assign(ranks * (block + row), 0);
  receive_.assign(ranks * (block + row), 0);
  rows_.assign(ranks, counts.send_rows[0] + 1);
  const auto* from = static_cast<const std::int64_t*>(counts.send);
  auto* to = static_cast<std::int64_t*>(counts.receive);
  for (std::size_t p = 0; p < ranks; ++p) {
    std::int64_t* message = &send_[p * (block + row)];
    if (!failed) std::copy_n(from + p * block, block, message);
    message[block] = failed ? 1 : 0;
  }
  counts.send = send_.data();
  counts.receive = receive_.data();
  counts.rows = static_cast<std::int64_t>(ranks) * rows_[0];
  counts.send_rows = counts.receive_rows = rows_;
  if (auto done = communicator.run(counts); !done) return done.error();
  bool any = false;
  for (std::size_t p = 0; p < ranks; ++p) {
    const std::int64_t* message = &receive_[p * (block + row)];
    any = any || message[block] != 0;
    if (!failed) std::copy_n(message, block, to + p * block);
  }
  return any;
}

}  // namespace lockstep::worker
