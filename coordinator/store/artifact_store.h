// Built artifacts (shared objects of kernels) in one directory, by the fingerprint of everything
// that went into them. Called by the compile step of every rank, many ranks to one directory. It
// never returns bytes that it has not verified, and never builds anything itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <lockstep/coordinator/store/artifact_index.h>
#include <lockstep/coordinator/store/verified_directory.h>

namespace lockstep::coordinator {

/// One directory of artifacts, shared by any number of processes (verified_directory.h). One thread
/// per object.
///
/// It keeps to a size: what was used longest ago is removed (artifact_index.h). So an artifact may
/// be gone at any time, which is a miss as if it had never been there; bytes that were handed out
/// are the caller's own.
class ArtifactStore {
 public:
  static constexpr std::uint64_t kDefaultLimit = std::uint64_t{10} << 30;

  struct Options {
    /// A private directory, made if it is missing: what is in it gets executed.
    std::string directory;
    /// Told of every artifact that failed verification, once by one of the processes that see it;
    /// and, once, that the directory cannot be kept to its size.
    std::function<void(const Status&)> report;
    /// Bytes on disk, of all artifacts; the one stored last stays whatever its size.
    std::uint64_t limit = kDefaultLimit;
  };

  /// Errors: Environment, with what is wrong with the directory.
  [[nodiscard]] static Result<std::unique_ptr<ArtifactStore>> open(Options options);
  /// Notes the uses that are not noted yet; tells nobody.
  ~ArtifactStore();
  ArtifactStore(const ArtifactStore&) = delete;
  ArtifactStore& operator=(const ArtifactStore&) = delete;

  /// The bytes stored under `key`; nullopt where there are none. Truncated or altered content is
  /// moved aside (name.bad), reported and a miss. Errors: Environment (the file cannot be read).
  [[nodiscard]] Result<std::optional<Bytes>> load(const shapes::Fingerprint& key);
  /// Puts `bytes` under `key`, replacing what is there. After success the bytes are on disk whole;
  /// after an error nothing has changed. Errors: Environment (full or read-only disk).
  [[nodiscard]] Result<void> store(const shapes::Fingerprint& key,
                                   std::span<const std::byte> bytes);
  /// Writes down which artifacts were loaded, in one go; for the end of a build.
  void note_uses();

 private:
  ArtifactStore(Options options, std::unique_ptr<VerifiedDirectory> directory);
  void tell(const Status& trouble);
  Options options_;
  std::unique_ptr<VerifiedDirectory> directory_;
  ArtifactIndex index_;
  bool told_ = false;
};

}  // namespace lockstep::coordinator
