// Which artifacts a directory holds, how large they are and when each was used last, so that the
// store keeps to a size. Called by the artifact store. Whatever becomes of the index the files are
// safe: it is made anew from them.
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

/// Any number of processes share one. One thread per object.
class ArtifactIndex {
 public:
  static constexpr std::string_view kFile = "artifacts.db";
  /// Microseconds since 1970, as the files have it: only its order counts.
  using Time = std::int64_t;

  /// The database is opened when something is written. `files`: of the same directory; outlives it.
  ArtifactIndex(std::string directory, VerifiedDirectory& files,
                std::function<void(const Status&)> report)
      : directory_(std::move(directory)), files_(files), report_(std::move(report)) {}

  /// The artifact was read. Only remembered; written down with what comes next.
  void used(const shapes::Fingerprint& key, Time now);
  /// Writes down what was read, unless another process is writing just now: then it stays
  /// remembered. Errors: as Database::open().
  [[nodiscard]] Result<void> note_uses();
  /// The artifact was stored. Then removes those used longest ago (of equal age the lowest key
  /// first) until the rest take at most `limit` bytes; never the one just stored. The first time,
  /// and where the index is another one since, it is compared with the files that are there.
  /// Errors: as Database::open().
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
  std::map<shapes::Fingerprint, Time> uses_;  // not written down yet
  unsigned compared_ = 0;                     // Database::files() at that time
};

}  // namespace lockstep::coordinator
