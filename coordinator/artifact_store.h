// Built artifacts (shared objects of kernels) in one directory, by the fingerprint of everything
// that went into them. Called by the compile step of every rank, many ranks to one directory. It
// never returns bytes that it has not verified, and never builds anything itself.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <lockstep/coordinator/verified_directory.h>

namespace lockstep::coordinator {

/// One directory of artifacts, shared by any number of processes (verified_directory.h). One thread
/// per object.
class ArtifactStore {
 public:
  struct Options {
    /// A private directory, made if it is missing: what is in it gets executed.
    std::string directory;
    /// Told of every artifact that failed verification, once by one of the processes that see it.
    std::function<void(const Status&)> report;
  };

  /// Errors: Environment, with what is wrong with the directory.
  [[nodiscard]] static Result<std::unique_ptr<ArtifactStore>> open(Options options);

  /// The bytes stored under `key`; nullopt where there are none. Truncated or altered content is
  /// moved aside (name.bad), reported and a miss. Errors: Environment (the file cannot be read).
  [[nodiscard]] Result<std::optional<Bytes>> load(const shapes::Fingerprint& key) {
    return directory_->load(key);
  }
  /// Puts `bytes` under `key`, replacing what is there. After success the bytes are on disk whole;
  /// after an error nothing has changed. Errors: Environment (full or read-only disk).
  [[nodiscard]] Result<void> store(const shapes::Fingerprint& key,
                                   std::span<const std::byte> bytes) {
    return directory_->store(key, bytes);
  }

 private:
  explicit ArtifactStore(std::unique_ptr<VerifiedDirectory> directory)
      : directory_(std::move(directory)) {}
  std::unique_ptr<VerifiedDirectory> directory_;
};

}  // namespace lockstep::coordinator
