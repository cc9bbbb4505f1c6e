// Profiles on disk, one file per job id and frame. Called by every rank at the first call of a
// frame, and by one rank of each host after an entry was committed. What it hands out was verified
// to be a profile of that job and frame; whether it is true of today's inputs is for the agreement.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <lockstep/coordinator/profile.h>
#include <lockstep/coordinator/verified_directory.h>

namespace lockstep::coordinator {

/// A frame across runs: its name and, where the caller has one, a fingerprint of its content (the
/// text of the function), so that another function of the same name starts with nothing.
struct FrameKey {
  std::string name;
  shapes::Fingerprint content;
};

/// The profiles of one job id. One thread per object; processes may share the directory.
class ProfileStore {
 public:
  /// The largest profile: some 4,000 sources.
  static constexpr std::size_t kLargest = std::size_t{1} << 20;

  struct Options {
    /// A private directory, made if it is missing (its parent must exist).
    std::string directory;
    /// Requires one that is not empty: jobs without an id have no profiles.
    std::string job_id;
    /// Told once of every profile that was set aside.
    std::function<void(const Status&)> report;
  };
  /// Errors: Environment, with what is wrong with the directory.
  [[nodiscard]] static Result<std::unique_ptr<ProfileStore>> open(Options options);

  /// What is kept of a frame; empty where there is nothing. A file that is damaged, of another
  /// version or of another frame is set aside and counts as nothing. Errors: Environment (the file
  /// cannot be read).
  [[nodiscard]] Result<Profile> load(const FrameKey& frame);
  /// Keeps `profile`, without its implausible sources; what is on disk already is not written
  /// again. Errors: Environment (full or read-only disk, too large); what was there stays.
  [[nodiscard]] Result<void> store(const FrameKey& frame, const Profile& profile);

  /// VerifiedDirectory::identity()
  [[nodiscard]] const std::string& identity() const { return directory_->identity(); }

 private:
  ProfileStore(std::string job_id, std::unique_ptr<VerifiedDirectory> directory)
      : job_id_(std::move(job_id)), directory_(std::move(directory)) {}
  [[nodiscard]] shapes::Fingerprint file_of(const FrameKey& frame) const;
  [[nodiscard]] Bytes head_of(const FrameKey& frame) const;
  std::string job_id_;
  std::unique_ptr<VerifiedDirectory> directory_;
};

}  // namespace lockstep::coordinator
