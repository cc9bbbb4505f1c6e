// Commands from worker 0 to the other workers, as bytes of one broadcast.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/controller/messages/command.h>

namespace lockstep::worker {

/// Joins the encoded commands.
[[nodiscard]] Bytes encode_batch(std::span<const Bytes> commands);
/// Errors: Internal (worker 0 sent something else).
[[nodiscard]] Result<std::vector<Command>> decode_batch(std::span<const std::byte> bytes);

/// Collective over the workers: broadcasts the bytes `mine` of worker `from` to all, by a tree.
[[nodiscard]] Result<Bytes> share(collectives::Communicator& workers, Bytes mine, Rank from);
/// Collective: sends the bytes `mine` of worker `from` to worker 0. Other workers get no bytes.
[[nodiscard]] Result<Bytes> to_worker_0(collectives::Communicator& workers, Bytes mine, Rank from);
/// Collective: returns the error of the lowest worker that has one; null if no worker has an error.
[[nodiscard]] Result<std::shared_ptr<const Status>> first_failure(
    collectives::Communicator& workers, const std::optional<Status>& mine);

}  // namespace lockstep::worker
