// Profiles on disk: rows of one database, by job id and frame. Every rank loads the profile at the
// first call of a frame. After an entry is committed, one of the ranks that share the directory
// stores the profile. Loading verifies that the profile is of this job and frame; the agreement
// checks whether it fits today's inputs.
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
  /// Size of the largest profile with its seal, in bytes: about 4,000 sources.
  static constexpr std::size_t kLargest = std::size_t{1} << 20;
  /// Maximum number of profiles of all jobs. Beyond it, the profile written longest ago is removed.
  static constexpr int kMost = 4096;
  static constexpr std::string_view kFile = "profiles.db";

  struct Options {
    /// A private directory, made if it is missing (its parent must exist).
    std::string directory;
    /// Must not be empty: jobs without an id have no profiles.
    std::string job_id;
    /// Receives one error for each damaged profile, and for a damaged database.
    std::function<void(const Status&)> report;
    Database::Access access = Database::Access::Write;
  };
  /// Errors: those of Database::open().
  [[nodiscard]] static Result<std::unique_ptr<ProfileStore>> open(Options options);

  /// The profile of a frame; empty if the frame has no profile. A profile that is damaged, of
  /// another version or of another frame is set aside, and the result is empty. Errors: those of
  /// Database::read().
  [[nodiscard]] Result<Profile> load(const FrameKey& frame);
  /// Stores `profile` without its implausible sources. An equal profile is not written again.
  /// Errors: Environment (full or read-only disk, or the profile is too large). After an error the
  /// earlier profile stays.
  [[nodiscard]] Result<void> store(const FrameKey& frame, const Profile& profile);
  /// Every profile of the job, by frame. Errors: those of Database::read().
  [[nodiscard]] Result<std::vector<std::pair<FrameKey, Profile>>> all();

  /// Database::identity()
  [[nodiscard]] const std::string& identity() const { return database_->identity(); }

 private:
  struct Kept {
    std::optional<Profile> profile;
    std::string damage;  // why the row is not a valid profile; empty: valid or missing
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
