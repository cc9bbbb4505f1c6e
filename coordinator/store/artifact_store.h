// Built artifacts (shared objects of kernels) in one directory, by the fingerprint of their inputs
// (text, compiler, flags). The compile step of every rank uses it; many ranks share a directory. It
// never returns unverified bytes, and builds nothing itself.
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
/// The store keeps within a size limit by removing the artifacts used longest ago
/// (artifact_index.h). So an artifact may disappear at any time; a later load is then a miss.
/// Returned bytes belong to the caller.
class ArtifactStore {
 public:
  static constexpr std::uint64_t kDefaultLimit = std::uint64_t{10} << 30;

  struct Options {
    /// Must be private, because its files are executed. Made if it is missing.
    std::string directory;
    /// Receives an error for each artifact that failed verification; if several processes notice
    /// it, one of them reports it. Also receives one error if the directory cannot be kept within
    /// its limit.
    std::function<void(const Status&)> report;
    /// Limit of the bytes on disk of all artifacts. The artifact stored last stays, whatever its
    /// size.
    std::uint64_t limit = kDefaultLimit;
  };

  /// Errors: Environment, with the reason why the directory cannot be used.
  [[nodiscard]] static Result<std::unique_ptr<ArtifactStore>> open(Options options);
  /// Writes the times of use that are not written yet. Ignores errors.
  ~ArtifactStore();
  ArtifactStore(const ArtifactStore&) = delete;
  ArtifactStore& operator=(const ArtifactStore&) = delete;

  /// The bytes stored under `key`; nullopt: a miss. A truncated or altered file is renamed to
  /// NAME.bad and reported, and counts as a miss. Errors: Environment (the file cannot be read).
  [[nodiscard]] Result<std::optional<Bytes>> load(const shapes::Fingerprint& key);
  /// Stores `bytes` under `key`, in place of earlier ones. After success they are complete on disk;
  /// after an error nothing has changed. Errors: Environment (full or read-only disk).
  [[nodiscard]] Result<void> store(const shapes::Fingerprint& key,
                                   std::span<const std::byte> bytes);
  /// Writes the times of use of all loaded artifacts. Called at the end of a build.
  void note_uses();

 private:
  ArtifactStore(Options options, std::unique_ptr<VerifiedDirectory> directory);
  void tell(const Status& error);
  Options options_;
  std::unique_ptr<VerifiedDirectory> directory_;
  ArtifactIndex index_;
  bool told_ = false;
};

}  // namespace lockstep::coordinator
