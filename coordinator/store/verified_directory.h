// A private directory of files by fingerprint that are never half-written and never trusted
// unverified: what the artifact store stands on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/coordinator/store/private_directory.h>
#include <lockstep/shapes/expr/fingerprint.h>

namespace lockstep::coordinator {

/// Any number of processes may use the same directory at once without a lock: a file appears under
/// its key by an atomic rename and is complete from then on. One thread per object.
class VerifiedDirectory {
 public:
  /// What the files are, for their seals and for messages.
  struct Content {
    std::string_view noun;      // "artifact"; at most 8 letters
    std::string_view danger;    // "what is in it gets executed"
    std::string_view recovery;  // "it is built again"
    std::size_t largest;        // bytes of a payload
  };
  struct Options {
    /// PrivateDirectory::open()
    std::string path;
    Content content;
    /// Told of every file that failed verification, once by one of the processes that see it.
    std::function<void(const Status&)> report;
  };

  /// Also removes the unfinished files of writers of this host that no longer live.
  /// Errors: Environment, with what is wrong with the directory.
  [[nodiscard]] static Result<std::unique_ptr<VerifiedDirectory>> open(Options options);

  /// The payload under `key`; nullopt where there is none. What is cut, altered, too large or of
  /// another version is set aside and a miss. Errors: Environment (the file cannot be read).
  [[nodiscard]] Result<std::optional<Bytes>> load(const shapes::Fingerprint& key);
  /// Puts a payload under `key`, replacing what is there. After success it is on disk whole; after
  /// an error nothing has changed. Errors: Environment (full or read-only disk, too large).
  [[nodiscard]] Result<void> store(const shapes::Fingerprint& key,
                                   std::span<const std::byte> payload);
  /// Renames the file of `key` to NAME.bad and reports why.
  void set_aside(const shapes::Fingerprint& key, const std::string& why);

  struct File {
    shapes::Fingerprint key;
    std::uint64_t bytes = 0;   // on disk
    std::int64_t written = 0;  // microseconds since 1970
  };
  /// Every file that has the name of a key. What cannot be read is left out.
  [[nodiscard]] std::vector<File> files() const;
  /// What the file of a payload takes on disk.
  [[nodiscard]] static std::uint64_t bytes_on_disk(std::size_t payload);
  /// False: it is still there.
  bool remove(const shapes::Fingerprint& key);

 private:
  VerifiedDirectory(Options options, PrivateDirectory directory)
      : options_(std::move(options)), directory_(std::move(directory)) {}
  void remove_leftovers();
  [[nodiscard]] Result<void> write_and_rename(const std::string& name,
                                              std::span<const std::byte> bytes);
  Options options_;
  PrivateDirectory directory_;
  std::set<std::string> reported_;
};

}  // namespace lockstep::coordinator
