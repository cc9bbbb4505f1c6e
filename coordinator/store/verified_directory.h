// A private directory of files by fingerprint, for the artifact store. No file is ever
// half-written, and none is trusted before it is verified.
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

/// Any number of processes may use one directory at once without a lock: a file gets its name by an
/// atomic rename and is complete from then on. One thread per object.
class VerifiedDirectory {
 public:
  /// Words for the files, in their seals and in messages.
  struct Content {
    std::string_view noun;      // "artifact"; at most 8 letters
    std::string_view danger;    // "what is in it gets executed"
    std::string_view recovery;  // "it is built again"
    std::size_t largest;        // bytes of the largest payload
  };
  struct Options {
    /// PrivateDirectory::open()
    std::string path;
    Content content;
    /// Receives an error for each file that failed verification; if several processes notice it,
    /// one of them reports it.
    std::function<void(const Status&)> report;
  };

  /// Opens the directory, and removes unfinished files of dead processes of this host, and of other
  /// hosts after a day. Errors: Environment, with the reason why the directory cannot be used.
  [[nodiscard]] static Result<std::unique_ptr<VerifiedDirectory>> open(Options options);

  /// The payload under `key`; nullopt: a miss. A file that is cut short, altered, too large or of
  /// another version is set aside, and counts as a miss. Errors: Environment (the file cannot be
  /// read).
  [[nodiscard]] Result<std::optional<Bytes>> load(const shapes::Fingerprint& key);
  /// Stores a payload under `key`, in place of an earlier one. After success the file is complete
  /// on disk; after an error nothing has changed. Errors: Environment (full or read-only disk, or
  /// the payload is too large).
  [[nodiscard]] Result<void> store(const shapes::Fingerprint& key,
                                   std::span<const std::byte> payload);
  /// Renames the file of `key` to NAME.bad and reports why.
  void set_aside(const shapes::Fingerprint& key, const std::string& why);

  struct File {
    shapes::Fingerprint key;
    std::uint64_t bytes = 0;   // on disk
    std::int64_t written = 0;  // microseconds since 1970
  };
  /// All files whose name is a key. Files that cannot be examined are left out.
  [[nodiscard]] std::vector<File> files() const;
  /// Size on disk of the file of a payload with this number of bytes.
  [[nodiscard]] static std::uint64_t bytes_on_disk(std::size_t payload);
  /// Removes the file. False: the file is still there.
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
