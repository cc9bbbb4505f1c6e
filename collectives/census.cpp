#include <fmt/format.h>

#include <lockstep/collectives/census.h>
#define XXH_INLINE_ALL
#include <algorithm>

#include <xxhash.h>

namespace lockstep::collectives {
namespace {

std::string capped(std::string_view text) {
  if (text.size() <= Census::kMaxText) return std::string(text);
  const std::string end =
      fmt::format("... ({} bytes, {:016x})", text.size(), XXH3_64bits(text.data(), text.size()));
  std::size_t keep = Census::kMaxText - end.size();
  while (keep > 0 && (static_cast<unsigned char>(text[keep]) & 0xC0) == 0x80) --keep;
  return std::string(text.substr(0, keep)) + end;
}

}  // namespace

Census Census::of(Rank rank, std::string_view value) {
  Census census;
  census.add(RankSet::of(rank), value);
  return census;
}

void Census::add(const RankSet& ranks, std::string_view value) {
  std::string text = capped(value);
  const auto same = std::find_if(values_.begin(), values_.end(),
                                 [&](const RankValue& v) { return v.value == text; });
  if (same != values_.end()) {
    same->ranks.insert(ranks);
  } else if (values_.size() < kMaxValues) {
    values_.push_back({ranks, std::move(text)});
  } else if (values_.size() == kMaxValues) {
    values_.push_back({ranks, std::string(kOthers)});
  } else {
    values_.back().ranks.insert(ranks);
  }
}

void Census::join(const Census& higher) {
  for (const RankValue& v : higher.values_) add(v.ranks, v.value);
}

void Census::encode(ByteWriter& out) const {
  out.u32(static_cast<std::uint32_t>(values_.size()));
  for (const RankValue& v : values_) {
    out.u32(static_cast<std::uint32_t>(v.ranks.runs().size()));
    for (const RankSet::Run& run : v.ranks.runs()) {
      out.u32(static_cast<std::uint32_t>(run.first));
      out.u32(static_cast<std::uint32_t>(run.last));
    }
    out.text(v.value);
  }
}

Census Census::decode(ByteReader& in) {
  Census census;
  const std::uint32_t values = in.count(8);
  for (std::uint32_t i = 0; i < values && in.ok(); ++i) {
    RankValue v;
    const std::uint32_t runs = in.count(8);
    for (std::uint32_t r = 0; r < runs; ++r) {
      const auto first = static_cast<std::int32_t>(in.u32());
      const auto last = static_cast<std::int32_t>(in.u32());
      if (first < 0 || last < first) return Census{};
      v.ranks.insert({first, last});
    }
    v.value = in.text();
    census.values_.push_back(std::move(v));
  }
  return in.ok() ? census : Census{};
}

}  // namespace lockstep::collectives
