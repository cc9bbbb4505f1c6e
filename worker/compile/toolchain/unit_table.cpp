// Encoding, version 1: version, number of rows, and per row key, able, failed, rejected, and
// whether there is an artifact, followed by its holder, length and digest.
#include <utility>
#include <vector>

#include <lockstep/worker/compile/toolchain/unit_table.h>

namespace lockstep::worker {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kLeastRow = 26;
constexpr std::size_t kDigestText = 64;

void put(ByteWriter& out, const RankSet& ranks) {
  out.u32(static_cast<std::uint32_t>(ranks.runs().size()));
  for (const RankSet::Run& run : ranks.runs()) {
    out.u32(static_cast<std::uint32_t>(run.first));
    out.u32(static_cast<std::uint32_t>(run.last));
  }
}

bool take(ByteReader& in, RankSet& ranks) {
  for (std::uint32_t runs = in.count(8); runs > 0 && in.ok(); --runs) {
    const auto first = static_cast<std::int32_t>(in.u32());
    const auto last = static_cast<std::int32_t>(in.u32());
    if (first < 0 || last < first || last == INT32_MAX) return false;
    ranks.insert({first, last});
  }
  return in.ok();
}

bool take(ByteReader& in, UnitRow& row) {
  if (!take(in, row.able) || !take(in, row.failed)) return false;
  row.rejected = in.u8() != 0;
  if (in.u8() == 0) return in.ok();
  UnitArtifact artifact;
  artifact.holder = Rank{static_cast<std::int32_t>(in.u32())};
  artifact.bytes = in.u64();
  artifact.digest = in.text();
  if (!in.ok() || artifact.holder.value < 0 || artifact.digest.size() != kDigestText) return false;
  row.artifact = std::move(artifact);
  return true;
}

}  // namespace

Bytes encode(const UnitTable& table) {
  ByteWriter out;
  out.u8(kVersion);
  out.u32(static_cast<std::uint32_t>(table.size()));
  for (const auto& [key, row] : table) {
    out.u64(key.high);
    out.u64(key.low);
    put(out, row.able);
    put(out, row.failed);
    out.u8(row.rejected ? 1 : 0);
    out.u8(row.artifact ? 1 : 0);
    if (!row.artifact) continue;
    out.u32(static_cast<std::uint32_t>(row.artifact->holder.value));
    out.u64(row.artifact->bytes);
    out.text(row.artifact->digest);
  }
  return std::move(out).take();
}

std::optional<UnitTable> decode_units(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  if (in.u8() != kVersion) return std::nullopt;
  UnitTable table;
  for (std::uint32_t rows = in.count(kLeastRow); rows > 0 && in.ok(); --rows) {
    shapes::Fingerprint key;
    key.high = in.u64();
    key.low = in.u64();
    if (!take(in, table[key])) return std::nullopt;
  }
  if (!in.ok() || !in.at_end()) return std::nullopt;
  return table;
}

Bytes join_units(std::span<const std::byte> lower, std::span<const std::byte> higher) {
  auto table = decode_units(lower);
  const auto more = decode_units(higher);
  if (!table || !more) return {};
  for (const auto& [key, row] : *more) {
    UnitRow& joint = (*table)[key];
    joint.able.insert(row.able);
    joint.failed.insert(row.failed);
    joint.rejected |= row.rejected;
    if (!joint.artifact) joint.artifact = row.artifact;
  }
  return encode(*table);
}

Rank nth(const RankSet& ranks, std::int64_t n) {
  for (const RankSet::Run& run : ranks.runs()) {
    const std::int64_t length = std::int64_t{run.last} - run.first + 1;
    if (n < length) return Rank{run.first + static_cast<std::int32_t>(n)};
    n -= length;
  }
  return ranks.lowest();
}

std::map<shapes::Fingerprint, std::optional<Rank>> deal_units(const UnitTable& table) {
  RankSet unlucky;
  for (const auto& [key, row] : table) unlucky.insert(row.failed);
  std::map<shapes::Fingerprint, std::optional<Rank>> deal;
  std::map<std::vector<RankSet::Run>, std::int64_t> next;  // next builder, for each set of
                                                           // candidates
  for (const auto& [key, row] : table) {
    if (row.artifact) continue;
    const RankSet left = row.able.minus(row.failed);
    const RankSet fresh = left.minus(unlucky);
    const RankSet& candidates = fresh.empty() ? left : fresh;
    std::optional<Rank>& builder = deal[key];
    if (candidates.empty()) continue;
    builder = nth(candidates, next[candidates.runs()]++ % candidates.size());
  }
  return deal;
}

}  // namespace lockstep::worker
