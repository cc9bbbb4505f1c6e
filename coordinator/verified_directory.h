// A private directory of files by fingerprint that are never half-written and never trusted
// unverified: what the artifact store and the profile store stand on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/shapes/fingerprint.h>

namespace lockstep::coordinator {

/// Any number of processes may use the same directory at once without a lock: a file appears under
/// its key by an atomic rename and is complete from then on. One thread per object.
class VerifiedDirectory {
 public:
  /// What the files are, for the footer of each and for messages.
  struct Content {
    std::string_view format;    // 8 bytes: what the payload is, and its version
    std::string_view noun;      // "artifact"
    std::string_view danger;    // "what is in it gets executed"
    std::string_view recovery;  // "it is built again"
    std::size_t largest;        // bytes of a payload
  };
  struct Options {
    /// Made with mode 0700 if it is missing (its parent must exist). Refused if it is a symbolic
    /// link, belongs to another user or is open to others.
    std::string path;
    Content content;
    /// Told of every file that failed verification, once by one of the processes that see it.
    std::function<void(const Status&)> report;
  };

  /// Also removes the unfinished files of writers of this host that no longer live.
  /// Errors: Environment, with what is wrong with the directory.
  [[nodiscard]] static Result<std::unique_ptr<VerifiedDirectory>> open(Options options);
  ~VerifiedDirectory();
  VerifiedDirectory(const VerifiedDirectory&) = delete;
  VerifiedDirectory& operator=(const VerifiedDirectory&) = delete;

  /// The payload under `key`; nullopt where there is none. What is cut, altered, too large or of
  /// another format is set aside and a miss. Errors: Environment (the file cannot be read).
  [[nodiscard]] Result<std::optional<Bytes>> load(const shapes::Fingerprint& key);
  /// Puts a payload under `key`, replacing what is there. After success it is on disk whole; after
  /// an error nothing has changed. Errors: Environment (full or read-only disk, too large).
  [[nodiscard]] Result<void> store(const shapes::Fingerprint& key,
                                   std::span<const std::byte> payload);
  /// Renames the file of `key` to NAME.bad and reports why.
  void set_aside(const shapes::Fingerprint& key, const std::string& why);

  /// "DEVICE:INODE on HOST": equal for two processes of one host only if they use one directory.
  [[nodiscard]] const std::string& identity() const { return identity_; }

 private:
  VerifiedDirectory(Options options, int directory, std::string identity)
      : options_(std::move(options)), directory_(directory), identity_(std::move(identity)) {}
  void remove_leftovers();
  [[nodiscard]] Result<void> write_and_rename(const std::string& name,
                                              std::span<const std::byte> payload,
                                              std::span<const std::byte> footer);
  Options options_;
  int directory_;
  std::string identity_;
  std::set<std::string> reported_;
};

/// SHA-256 of the bytes as 64 hexadecimal digits: what ranks compare before they load an artifact.
[[nodiscard]] std::string content_digest(std::span<const std::byte> bytes);

}  // namespace lockstep::coordinator
