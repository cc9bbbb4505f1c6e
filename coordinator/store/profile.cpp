#include <algorithm>
#include <utility>

#include <lockstep/coordinator/store/archive.h>
#include <lockstep/coordinator/store/profile.h>

namespace lockstep::shapes {

// Values out of an enumeration's range are left for plausible() to refuse.
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
  archive(seen.scalar, seen.size, seen.stride, seen.smallest);
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
namespace {

using shapes::Dynamism;
using shapes::Seen;
using shapes::SeenDims;

constexpr std::string_view kKind = "profile";
constexpr std::size_t kMostDims = 16;

enum class Field : std::uint8_t { Scalar, Size, Stride };

bool plausible(const Seen& seen, Field field, std::size_t dims) {
  switch (seen.state) {
    case Seen::State::Unset:
    case Seen::State::Dynamic:
      return seen.value == 0;
    case Seen::State::Static:
      return field == Field::Scalar || seen.value >= 0;
    case Seen::State::Inferred:
      return field == Field::Stride && seen.value >= 0 &&
             static_cast<std::uint64_t>(seen.value) < dims;
  }
  return false;
}

bool plausible(const SeenDims& dims, Field field) {
  if (dims.state == SeenDims::State::Unset || dims.state == SeenDims::State::Dynamic)
    return dims.dims.empty();
  return dims.state == SeenDims::State::Tuple && dims.dims.size() <= kMostDims &&
         std::all_of(dims.dims.begin(), dims.dims.end(),
                     [&](const Seen& seen) { return plausible(seen, field, dims.dims.size()); });
}

bool plausible(const Profile& profile) {
  return std::all_of(profile.begin(), profile.end(),
                     [](const auto& source) { return coordinator::plausible(source.second.seen); });
}

}  // namespace

bool plausible(const Dynamism& seen) {
  return plausible(seen.scalar, Field::Scalar, 0) && plausible(seen.size, Field::Size) &&
         plausible(seen.stride, Field::Stride) && seen.smallest.size() <= kMostDims &&
         std::all_of(seen.smallest.begin(), seen.smallest.end(),
                     [](std::int64_t size) { return size >= 0; });
}

Bytes encode(const KeptProfile& kept) { return pack(kKind, kept); }

Result<KeptProfile> decode_profile(std::span<const std::byte> bytes) {
  auto kept = unpack<KeptProfile>(kKind, bytes);
  if (kept && !plausible(kept->profile))
    return Status{Code::Environment, "no run can have seen what it says", {}, {}};
  return kept;
}

std::optional<Profile> decode_first_profile(std::span<const std::byte> bytes) {
  auto profile = read_archive<Profile>(bytes, BoundedInput::Sizes::Of32);
  if (profile && !plausible(*profile)) profile.reset();
  return profile;
}

}  // namespace lockstep::coordinator
