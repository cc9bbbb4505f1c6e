// Built artifacts (shared objects of kernels) in one directory, by the fingerprint of everything
// that went into them. Called by the compile step of every rank, many ranks to one directory. It
// never returns bytes that it has not verified, and never builds anything itself.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/shapes/fingerprint.h>

namespace lockstep::coordinator {

/// One directory of artifacts. Any number of processes may use the same directory at once without
/// a lock: a file appears under its key by an atomic rename and is complete from then on. One
/// thread per object.
class ArtifactStore {
 public:
  struct Options {
    /// Made with mode 0700 if it is missing (its parent must exist). Refused if it is a symbolic
    /// link, belongs to another user or is open to others: what is in it gets executed.
    std::string directory;
    /// Told of every artifact that failed verification, once by one of the processes that see it.
    std::function<void(const Status&)> report;
  };

  /// Also removes the unfinished files of writers of this host that no longer live.
  /// Errors: Environment, with what is wrong with the directory.
  [[nodiscard]] static Result<std::unique_ptr<ArtifactStore>> open(Options options);
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

 private:
  ArtifactStore(Options options, int directory)
      : options_(std::move(options)), directory_(directory) {}
  void remove_leftovers();
  void set_aside(const std::string& name, const std::string& why);
  [[nodiscard]] Result<void> write_and_rename(const std::string& name,
                                              std::span<const std::byte> bytes,
                                              std::span<const std::byte> footer);
  Options options_;
  int directory_;
  std::set<std::string> reported_;
};

/// SHA-256 of the bytes as 64 hexadecimal digits: what ranks compare before they load an artifact.
[[nodiscard]] std::string content_digest(std::span<const std::byte> bytes);

}  // namespace lockstep::coordinator
