#include <fmt/format.h>

#include <lockstep/collectives/census.h>
#include <lockstep/collectives/startup.h>
#include <lockstep/collectives/tree.h>
#include <lockstep/collectives/vote.h>
#define XXH_INLINE_ALL
#include <map>
#include <string>

#include <xxhash.h>

namespace lockstep::collectives {
namespace {

constexpr std::string_view kNotSet = "(not set)";

/// The values of each key on a range of ranks. A key that is missing here is set on none of the
/// ranks.
struct Settings {
  RankSet ranks;
  std::map<std::string, Census> keys;
};

Settings parse(Rank self, std::string_view text) {
  Settings settings{RankSet::of(self), {}};
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.empty()) continue;
    const std::size_t equals = line.find('=');
    const std::string_view value = equals == line.npos ? "" : line.substr(equals + 1);
    settings.keys[std::string(line.substr(0, equals))] = Census::of(self, value);
  }
  return settings;
}

Bytes encode(const Settings& settings) {
  ByteWriter out;
  Census ranks;
  ranks.add(settings.ranks, "");
  ranks.encode(out);
  out.u32(static_cast<std::uint32_t>(settings.keys.size()));
  for (const auto& [key, census] : settings.keys) {
    out.text(key);
    census.encode(out);
  }
  return std::move(out).take();
}

Settings decode(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Settings settings;
  const Census ranks = Census::decode(in);
  if (!ranks.values().empty()) settings.ranks = ranks.values()[0].ranks;
  const std::uint32_t keys = in.count(8);
  for (std::uint32_t i = 0; i < keys && in.ok(); ++i) {
    std::string key = in.text();
    settings.keys[std::move(key)] = Census::decode(in);
  }
  return settings;
}

Bytes join_settings(std::span<const std::byte> lower, std::span<const std::byte> higher) {
  Settings low = decode(lower);
  Settings high = decode(higher);
  for (const auto& [key, census] : high.keys) {
    Census& mine = low.keys[key];
    if (mine.values().empty()) mine.add(low.ranks, kNotSet);
    mine.join(census);
  }
  for (auto& [key, census] : low.keys)
    if (!high.keys.contains(key)) census.add(high.ranks, kNotSet);
  low.ranks.insert(high.ranks);
  return encode(low);
}

}  // namespace

Result<void> startup_round(Communicator& group, std::string_view configuration) {
  const XXH128_hash_t digest = XXH3_128bits(configuration.data(), configuration.size());
  VoteRound vote(group.rank(), group.size(), Vote::of(Vote::kOnes, digest.low64, digest.high64, 0),
                 Combine::And, group.hosts());
  if (auto voted = group.run(vote); !voted) return voted;
  if (vote.result().same_key() && vote.result().same_state()) return {};
  TreeRound round(group.rank(), group.size(), encode(parse(group.rank(), configuration)),
                  join_settings, group.hosts());
  if (auto joined = group.run(round); !joined) return joined;
  for (const auto& [key, census] : decode(round.result()).keys)
    if (!census.unanimous())
      return Status{
          Code::ConfigMismatch,
          fmt::format("Ranks were started with different values of {}; start all ranks of a "
                      "job with one build and one configuration.",
                      key),
          key, census.values()};
  return Status{Code::ConfigMismatch,
                "Ranks were started with the same settings written in different ways (order, "
                "repeats); start all ranks with one configuration."};
}

}  // namespace lockstep::collectives
