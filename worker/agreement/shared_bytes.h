// Bytes that one rank of a group has made, for those that would make the same: what a framework's
// own compiler has built. Beside the agreement, within the build of a version. What lockstep itself
// builds is shared by worker/toolchain/shared_build.h.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include <lockstep/coordinator/store/artifact_store.h>
#include <lockstep/worker/agreement/call_driver.h>

namespace lockstep::worker {

/// The most bytes that are sent.
inline constexpr std::size_t kLargestShared = std::size_t{64} << 20;

/// Where a rank keeps what is shared.
struct SharedStore {
  coordinator::ArtifactStore* artifacts = nullptr;  // null: nowhere
  /// Told of bytes that could not be kept, and of those that are too many to be sent.
  std::function<void(const Status&)> report = [](const Status&) {};
};

/// What a rank has of it.
struct SharedBytes {
  std::optional<Bytes> bytes;  // nullopt: none for this rank
  /// Other bytes have come to this rank, alone: Environment. It took part to the end.
  std::optional<Status> failure;
};

/// Collective; `key`, and the one of the next attempt, are of rounds of its own. The first rank's
/// `mine`, on that rank and on every one that comes with the same `of`, which covers all that the
/// bytes depend on; none on other ranks, on all where the first rank has none, and on those that
/// lack them where they are too many. Ranks that have kept the same bytes need no transfer; the
/// SHA-256 that the first rank broadcasts says which those are, and is that of whatever is
/// returned. Bytes are kept under `of`. Errors: those of CallDriver::vote_words and of broadcasts;
/// all ranks are then out of the call.
[[nodiscard]] Result<SharedBytes> share_bytes(CallDriver& driver, RoundKey key,
                                              const shapes::Fingerprint& of,
                                              std::optional<Bytes> mine, const SharedStore& store);

}  // namespace lockstep::worker
