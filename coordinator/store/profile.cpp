#include <algorithm>
#include <map>
#include <utility>

#include <lockstep/coordinator/store/archive.h>
#include <lockstep/coordinator/store/profile.h>

namespace lockstep::shapes {

// Enumerators that are out of range are read, too; plausible() rejects them.
template <class Archive>
static void serialize(Archive& archive, Seen& seen) {
  archive(seen.state, seen.value);
}

template <class Archive>
static void serialize(Archive& archive, SeenDims& dims) {
  archive(dims.state, dims.dims);
}

template <class Archive>
static void serialize(Archive& archive, Dynamism& seen) {
  archive(seen.scalar, seen.size, seen.smallest);
}

}  // namespace lockstep::shapes

namespace lockstep::coordinator {

template <class Archive>
static void serialize(Archive& archive, ProfiledSource& source) {
  archive(source.key, source.seen);
}

template <class Archive>
static void serialize(Archive& archive, FrameKey& frame) {
  archive(frame.name, frame.content);
}

template <class Archive>
static void serialize(Archive& archive, KeptProfile& kept, std::uint32_t) {
  archive(kept.job, kept.frame, kept.profile);
}

}  // namespace lockstep::coordinator

CEREAL_CLASS_VERSION(lockstep::coordinator::KeptProfile, 2)

namespace lockstep::coordinator {

// A source of version 1, which also had strides; these are skipped.
struct FirstSource {
  ProfiledSource source;
};
template <class Archive>
static void serialize(Archive& archive, FirstSource& first) {
  shapes::SeenDims strides;
  archive(first.source.key, first.source.seen.scalar, first.source.seen.size, strides,
          first.source.seen.smallest);
}

namespace {

using shapes::Dynamism;
using shapes::Seen;
using shapes::SeenDims;

constexpr std::string_view kKind = "profile";
constexpr std::size_t kMostDims = 16;

bool plausible(const Seen& seen, std::int64_t least) {
  switch (seen.state) {
    case Seen::State::Unset:
    case Seen::State::Dynamic:
      return seen.value == 0;
    case Seen::State::Static:
      return seen.value >= least;
  }
  return false;
}

bool plausible(const SeenDims& dims) {
  if (dims.state == SeenDims::State::Unset || dims.state == SeenDims::State::Dynamic)
    return dims.dims.empty();
  return dims.state == SeenDims::State::Tuple && dims.dims.size() <= kMostDims &&
         std::all_of(dims.dims.begin(), dims.dims.end(),
                     [](const Seen& seen) { return plausible(seen, 0); });
}

bool plausible(const Profile& profile) {
  return std::all_of(profile.begin(), profile.end(),
                     [](const auto& source) { return coordinator::plausible(source.second.seen); });
}

}  // namespace

bool plausible(const Dynamism& seen) {
  return plausible(seen.scalar, INT64_MIN) && plausible(seen.size) &&
         seen.smallest.size() <= kMostDims &&
         std::all_of(seen.smallest.begin(), seen.smallest.end(),
                     [](std::int64_t size) { return size >= 0; });
}

Bytes encode(const KeptProfile& kept) { return pack(kKind, kept); }

Result<KeptProfile> decode_profile(std::span<const std::byte> bytes) {
  auto kept = unpack<KeptProfile>(kKind, bytes);
  if (kept && !plausible(kept->profile))
    return environment_error("no run can have seen what it says");
  return kept;
}

std::optional<Profile> decode_first_profile(std::span<const std::byte> bytes) {
  auto first = read_archive<std::map<std::string, FirstSource>>(bytes, BoundedInput::Sizes::Of32);
  if (!first) return std::nullopt;
  Profile profile;
  for (auto& [name, source] : *first) profile.emplace(name, std::move(source.source));
  if (!plausible(profile)) return std::nullopt;
  return profile;
}

}  // namespace lockstep::coordinator
