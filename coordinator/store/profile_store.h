// Profiles on disk: rows of one database, by job id and frame. Called by every rank at the first
// call of a frame, and by one rank of each host after an entry was committed. What it hands out was
// verified to be a profile of that job and frame; whether it is true of today's inputs is for the
// agreement.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/coordinator/store/database.h>
#include <lockstep/coordinator/store/profile.h>

namespace lockstep::coordinator {

/// The profiles of one job id. One thread per object; processes may share the directory.
class ProfileStore {
 public:
  /// The largest profile, with its seal: some 4,000 sources.
  static constexpr std::size_t kLargest = std::size_t{1} << 20;
  /// Profiles kept, of all jobs; the one written longest ago goes.
  static constexpr int kMost = 4096;
  static constexpr std::string_view kFile = "profiles.db";

  struct Options {
    /// A private directory, made if it is missing (its parent must exist).
    std::string directory;
    /// Requires one that is not empty: jobs without an id have no profiles.
    std::string job_id;
    /// Told once of every profile that was set aside, and of a database that was.
    std::function<void(const Status&)> report;
    Database::Access access = Database::Access::Write;
  };
  /// Errors: as Database::open().
  [[nodiscard]] static Result<std::unique_ptr<ProfileStore>> open(Options options);

  /// What is kept of a frame; empty where there is nothing. One that is damaged, of another
  /// version or of another frame is set aside and counts as nothing. Errors: as Database::read().
  [[nodiscard]] Result<Profile> load(const FrameKey& frame);
  /// Keeps `profile`, without its implausible sources; what is there already is not written again.
  /// Errors: Environment (full or read-only disk, too large); what was there stays.
  [[nodiscard]] Result<void> store(const FrameKey& frame, const Profile& profile);
  /// Every profile of the job, by frame. Errors: as Database::read().
  [[nodiscard]] Result<std::vector<std::pair<FrameKey, Profile>>> all();

  /// Database::identity()
  [[nodiscard]] const std::string& identity() const { return database_->identity(); }

 private:
  struct Kept {
    std::optional<Profile> profile;
    std::string flaw;  // of one that is there and is none
  };
  ProfileStore(Options options, std::unique_ptr<Database> database)
      : options_(std::move(options)), database_(std::move(database)) {}
  [[nodiscard]] Bytes key_of(const FrameKey& frame) const;
  void find(Transaction& in, const FrameKey& frame, Kept& kept) const;
  void set_aside(const FrameKey& frame, const std::string& why);

  Options options_;
  std::unique_ptr<Database> database_;
  std::set<std::string> reported_;
};

}  // namespace lockstep::coordinator
