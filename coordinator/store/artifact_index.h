// Sizes and last uses of the artifacts of a directory, by which the artifact store keeps within its
// limit. If the index is lost or wrong, it is rebuilt from the files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/coordinator/store/database.h>
#include <lockstep/coordinator/store/verified_directory.h>

namespace lockstep::coordinator {

/// Any number of processes may share an index. One thread per object.
class ArtifactIndex {
 public:
  static constexpr std::string_view kFile = "artifacts.db";
  /// Microseconds since 1970, as in VerifiedDirectory::File; only the order matters.
  using Time = std::int64_t;

  /// `directory` holds the index, `files` the artifacts. The database is opened at the first write.
  /// Requires that `files` outlives the index.
  ArtifactIndex(std::string directory, VerifiedDirectory& files,
                std::function<void(const Status&)> report)
      : directory_(std::move(directory)), files_(files), report_(std::move(report)) {}

  /// Notes that the artifact was read. The use is kept in memory until the next write.
  void used(const shapes::Fingerprint& key, Time now);
  /// Writes the uses that are kept in memory. If another process is writing, they stay in memory.
  /// Errors: those of Database::open().
  [[nodiscard]] Result<void> note_uses();
  /// Notes that the artifact was stored. Then removes the artifacts used longest ago (of equal age
  /// the lowest key first) until the rest take at most `limit` bytes, but never the one just
  /// stored. The first call, and the first after the index was replaced, compares the index with
  /// the files. Errors: those of Database::open().
  [[nodiscard]] Result<void> stored(const shapes::Fingerprint& key, std::uint64_t bytes,
                                    std::uint64_t limit, Time now);

 private:
  [[nodiscard]] Result<void> open();
  void write_uses(Transaction& in) const;
  void compare_with_files(Transaction& in);
  void evict(Transaction& in, const shapes::Fingerprint& except, std::uint64_t limit);

  std::string directory_;
  VerifiedDirectory& files_;
  std::function<void(const Status&)> report_;
  std::unique_ptr<Database> database_;
  std::map<shapes::Fingerprint, Time> uses_;  // not written yet
  unsigned compared_ = 0;                     // Database::files() at the last comparison
};

}  // namespace lockstep::coordinator
