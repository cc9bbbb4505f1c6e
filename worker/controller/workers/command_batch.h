// Commands on their way from worker 0 to the others, as bytes of one broadcast.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/controller/speech/command.h>

namespace lockstep::worker {

/// The bytes of each command.
[[nodiscard]] Bytes encode_batch(std::span<const Bytes> commands);
/// Errors: Internal (worker 0 sent something else).
[[nodiscard]] Result<std::vector<Command>> decode_batch(std::span<const std::byte> bytes);

/// Collective over the workers: what `from` has, on all of them, by a tree.
[[nodiscard]] Result<Bytes> share(collectives::Communicator& workers, Bytes mine, Rank from);
/// Collective: what `from` has, on worker 0 alone; empty on the others.
[[nodiscard]] Result<Bytes> to_worker_0(collectives::Communicator& workers, Bytes mine, Rank from);
/// Collective: the error of the lowest worker that has one, on all of them; null: nobody has.
[[nodiscard]] Result<std::shared_ptr<const Status>> first_failure(
    collectives::Communicator& workers, const std::optional<Status>& mine);

}  // namespace lockstep::worker
