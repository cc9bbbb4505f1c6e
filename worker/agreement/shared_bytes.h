// Shares bytes that one rank of a group has made with the ranks that would make the same: what a
// framework's own compiler has built. Beside the agreement, within the build of a version. What
// lockstep itself builds is shared by worker/toolchain/shared_build.h.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include <lockstep/coordinator/store/artifact_store.h>
#include <lockstep/worker/agreement/call_driver.h>

namespace lockstep::worker {

/// Maximum number of bytes that are sent.
inline constexpr std::size_t kLargestShared = std::size_t{64} << 20;

/// Where a rank stores shared bytes.
struct SharedStore {
  coordinator::ArtifactStore* artifacts = nullptr;  // null: nowhere
  /// Receives errors of the store, and notices of bytes that are too many to be sent.
  std::function<void(const Status&)> report = [](const Status&) {};
};

/// Result of share_bytes() on one rank.
struct SharedBytes {
  std::optional<Bytes> bytes;  // nullopt: none for this rank
  /// Error of this rank alone, which took part to the end: other bytes than the first rank's
  /// arrived (Environment), or an unreadable message (Internal).
  std::optional<Status> failure;
};

/// Collective; `key`, and the key of its next attempt, belong to these rounds alone. Returns the
/// first rank's `mine` on that rank and on every rank with the same `of`, a fingerprint of all that
/// the bytes depend on. Returns none on other ranks, on all ranks if the first has none, and, if
/// the bytes are too many to be sent, on ranks that lack them. Ranks that have stored the same
/// bytes need no transfer: the first rank broadcasts the SHA-256, which every returned value has.
/// Bytes are stored under `of`. Errors: those of CallDriver::vote_words and of broadcasts; all
/// ranks have then left the call.
[[nodiscard]] Result<SharedBytes> share_bytes(CallDriver& driver, RoundKey key,
                                              const shapes::Fingerprint& of,
                                              std::optional<Bytes> mine, const SharedStore& store);

}  // namespace lockstep::worker
