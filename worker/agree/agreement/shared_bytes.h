// Shares what a framework's own compiler has built on one rank with the ranks of the group that
// would build the same. Runs within the build of a version, in rounds of its own. What lockstep
// itself builds is shared by worker/compile/toolchain/shared_build.h.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include <lockstep/coordinator/store/artifact_store.h>
#include <lockstep/worker/agree/agreement/call_driver.h>

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
  /// Error of this rank alone, which still took part in all rounds: the bytes that arrived are not
  /// the first rank's (Environment), or a message is unreadable (Internal).
  std::optional<Status> failure;
};

/// Collective. No other round may use `key` or the key of its next attempt. Returns the first
/// rank's `mine` on that rank and on every rank with the same `of`, a fingerprint of all that the
/// bytes depend on. Returns no bytes on other ranks, nor on any rank if the first rank has none. If
/// there are too many bytes to send, ranks that lack them get none. Ranks that have stored the same
/// bytes need no transfer: the first rank broadcasts their SHA-256, and all returned bytes match
/// it. Bytes are stored under `of`. Errors: those of CallDriver::vote_words and of broadcasts; all
/// ranks have then left the call.
[[nodiscard]] Result<SharedBytes> share_bytes(CallDriver& driver, RoundKey key,
                                              const shapes::Fingerprint& of,
                                              std::optional<Bytes> mine, const SharedStore& store);

}  // namespace lockstep::worker
