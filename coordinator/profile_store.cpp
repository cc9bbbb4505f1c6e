// A payload is job id, frame name and the frame's content (16 bytes), and then the profile.
#include <algorithm>
#include <utility>

#include <lockstep/coordinator/profile_store.h>

namespace lockstep::coordinator {

Result<std::unique_ptr<ProfileStore>> ProfileStore::open(Options options) {
  constexpr VerifiedDirectory::Content kProfiles{
      .format = "lockspf1",
      .noun = "profile",
      .danger = "what is in it steers what gets compiled",
      .recovery = "the job learns it again",
      .largest = kLargest};
  auto directory = VerifiedDirectory::open({.path = std::move(options.directory),
                                            .content = kProfiles,
                                            .report = std::move(options.report)});
  if (!directory) return directory.error();
  return std::unique_ptr<ProfileStore>(
      new ProfileStore(std::move(options.job_id), std::move(*directory)));
}

Bytes ProfileStore::head_of(const FrameKey& frame) const {
  ByteWriter out;
  out.text(job_id_);
  out.text(frame.name);
  out.u64(frame.content.high);
  out.u64(frame.content.low);
  return std::move(out).take();
}

shapes::Fingerprint ProfileStore::file_of(const FrameKey& frame) const {
  return shapes::fingerprint(head_of(frame));
}

Result<Profile> ProfileStore::load(const FrameKey& frame) {
  const shapes::Fingerprint file = file_of(frame);
  const auto bytes = directory_->load(file);
  if (!bytes) return bytes.error();
  if (!*bytes) return Profile{};
  const Bytes head = head_of(frame);
  const std::span<const std::byte> payload(**bytes);
  if (payload.size() < head.size() || !std::equal(head.begin(), head.end(), payload.begin())) {
    directory_->set_aside(file, "it is of another job or frame");
    return Profile{};
  }
  auto profile = decode_profile(payload.subspan(head.size()));
  if (profile) return *std::move(profile);
  directory_->set_aside(file, "it is not a profile of this version, or no run can have seen that");
  return Profile{};
}

Result<void> ProfileStore::store(const FrameKey& frame, const Profile& profile) {
  Profile kept = profile;
  std::erase_if(kept, [](const auto& source) { return !plausible(source.second.seen); });
  if (const auto there = load(frame); there && *there == kept) return {};
  Bytes payload = head_of(frame);
  const Bytes body = encode(kept);
  payload.insert(payload.end(), body.begin(), body.end());
  return directory_->store(file_of(frame), payload);
}

}  // namespace lockstep::coordinator
