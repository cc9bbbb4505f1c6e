#include <algorithm>
#include <map>

#include <lockstep/worker/agreement/roll.h>

namespace lockstep::worker {
namespace {

using Roll = std::map<std::string, RankSet>;

Bytes encode(const Roll& roll) {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(roll.size()));
  for (const auto& [value, ranks] : roll) {
    out.text(value);
    out.u32(static_cast<std::uint32_t>(ranks.runs().size()));
    for (const RankSet::Run& run : ranks.runs()) {
      out.u32(static_cast<std::uint32_t>(run.first));
      out.u32(static_cast<std::uint32_t>(run.last));
    }
  }
  return std::move(out).take();
}

Roll decode(std::span<const std::byte> payload) {
  ByteReader in(payload);
  Roll roll;
  for (std::uint32_t n = in.count(8); n > 0 && in.ok(); --n) {
    RankSet& ranks = roll[in.text()];
    for (std::uint32_t runs = in.count(8); runs > 0 && in.ok(); --runs) {
      const auto first = static_cast<std::int32_t>(in.u32());
      const auto last = static_cast<std::int32_t>(in.u32());
      if (first < 0 || last < first || last == INT32_MAX) return {};
      ranks.insert({first, last});
    }
    if (ranks.empty()) return {};
  }
  return in.ok() && in.at_end() ? roll : Roll{};
}

}  // namespace

Bytes roll_payload(Rank self, const std::optional<std::string>& value) {
  return roll_payload(RankSet::of(self), value);
}

Bytes roll_payload(const RankSet& ranks, const std::optional<std::string>& value) {
  Roll roll;
  if (value) roll[*value].insert(ranks);
  return encode(roll);
}

Bytes join_rolls(std::span<const std::byte> lower, std::span<const std::byte> higher) {
  Roll roll = decode(lower);
  for (const auto& [value, ranks] : decode(higher)) roll[value].insert(ranks);
  return encode(roll);
}

std::vector<RankValue> roll_values(std::span<const std::byte> payload) {
  std::vector<RankValue> out;
  for (const auto& [value, ranks] : decode(payload)) out.push_back({ranks, value});
  std::sort(out.begin(), out.end(), [](const RankValue& a, const RankValue& b) {
    return a.ranks.lowest() < b.ranks.lowest();
  });
  return out;
}

}  // namespace lockstep::worker
