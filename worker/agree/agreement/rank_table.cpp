#include <algorithm>
#include <map>

#include <lockstep/worker/agree/agreement/rank_table.h>

namespace lockstep::worker {
namespace {

using RankTable = std::map<std::string, RankSet>;

Bytes encode(const RankTable& rank_table) {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(rank_table.size()));
  for (const auto& [value, ranks] : rank_table) {
    out.text(value);
    out.u32(static_cast<std::uint32_t>(ranks.runs().size()));
    for (const RankSet::Run& run : ranks.runs()) {
      out.u32(static_cast<std::uint32_t>(run.first));
      out.u32(static_cast<std::uint32_t>(run.last));
    }
  }
  return std::move(out).take();
}

RankTable decode(std::span<const std::byte> payload) {
  ByteReader in(payload);
  RankTable rank_table;
  for (std::uint32_t n = in.count(8); n > 0 && in.ok(); --n) {
    RankSet& ranks = rank_table[in.text()];
    for (std::uint32_t runs = in.count(8); runs > 0 && in.ok(); --runs) {
      const auto first = static_cast<std::int32_t>(in.u32());
      const auto last = static_cast<std::int32_t>(in.u32());
      if (first < 0 || last < first || last == INT32_MAX) return {};
      ranks.insert({first, last});
    }
    if (ranks.empty()) return {};
  }
  return in.ok() && in.at_end() ? rank_table : RankTable{};
}

}  // namespace

Bytes rank_table_payload(Rank self, const std::optional<std::string>& value) {
  return rank_table_payload(RankSet::of(self), value);
}

Bytes rank_table_payload(const RankSet& ranks, const std::optional<std::string>& value) {
  RankTable rank_table;
  if (value) rank_table[*value].insert(ranks);
  return encode(rank_table);
}

Bytes join_rank_tables(std::span<const std::byte> lower, std::span<const std::byte> higher) {
  RankTable rank_table = decode(lower);
  for (const auto& [value, ranks] : decode(higher)) rank_table[value].insert(ranks);
  return encode(rank_table);
}

std::vector<RankValue> rank_table_values(std::span<const std::byte> payload) {
  std::vector<RankValue> out;
  for (const auto& [value, ranks] : decode(payload)) out.push_back({ranks, value});
  std::sort(out.begin(), out.end(), [](const RankValue& a, const RankValue& b) {
    return a.ranks.lowest() < b.ranks.lowest();
  });
  return out;
}

}  // namespace lockstep::worker
