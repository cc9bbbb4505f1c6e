#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/worker/agreement/round_key.h>

namespace lockstep::worker {
namespace {

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection that mixes every bit.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

std::uint64_t mixed(std::uint64_t seed, std::string_view text) {
  seed = mixed(seed ^ text.size());
  for (std::size_t at = 0; at < text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min<std::size_t>(8, text.size() - at));
    seed = mixed(seed ^ word);
  }
  return seed;
}

struct KindName {
  std::string_view text;
  bool of_call;  // where the round has a frame
};
constexpr std::array<KindName, 16> kKindNames{{{"call", true},
                                               {"verification", true},
                                               {"commit", true},
                                               {"close", false},
                                               {"the end", true},
                                               {"more", false},
                                               {"finish", false},
                                               {"start", false},
                                               {"witness", true},
                                               {"audited call", true},
                                               {"group", false},
                                               {"resync", false},
                                               {"comparison of uniform sizes", true},
                                               {"check of what was captured", true},
                                               {"sharing of what was built", true},
                                               {"loading", false}}};

}  // namespace

std::uint64_t RoundKey::hash() const {
  std::uint64_t h = mixed(mixed(mixed(epoch), group), frame);
  h = mixed(h ^ round);
  const std::uint64_t mode = consistency ? static_cast<std::uint64_t>(*consistency) + 1 : 0;
  h = mixed(h ^ (mode << 48) ^ (std::uint64_t{attempt} << 8) ^ static_cast<std::uint64_t>(kind));
  if (!options.empty()) h = mixed(~h, options);
  if (!after.empty()) h = mixed(~h ^ after.size(), after);
  return pending_call.empty() ? h : mixed(~h ^ pending_round);
}

std::string RoundKey::round_text() const {
  RoundKey counted = *this;
  counted.call = round;
  return counted.text();
}

std::string RoundKey::text() const {
  const KindName& name = kKindNames[static_cast<std::size_t>(kind) % kKindNames.size()];
  std::string out(name.text);
  if (kind == Kind::Settle && frame.empty()) out = "settle";
  const bool is_call = kind == Kind::Call || kind == Kind::Audit;
  if (is_call || kind == Kind::Group) out += fmt::format(" {}", call);
  if (!frame.empty() && name.of_call && !is_call) out += fmt::format(" of call {}", call);
  if (!frame.empty()) out += fmt::format(" of {}", frame);
  if (!group.empty()) out += fmt::format(" in group {}", group);
  if (attempt != 0) out += fmt::format(", attempt {}", attempt);
  if (consistency) out += fmt::format(", {}", consistency_name(*consistency));
  if (epoch != 0) out += fmt::format(", epoch {}", epoch);
  if (!pending_call.empty()) out += fmt::format(", before the prefetched {}", pending_call);
  return out;
}

}  // namespace lockstep::worker
