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

constexpr std::array<std::string_view, 16> kKindNames{"call",
                                                      "verification",
                                                      "commit",
                                                      "close",
                                                      "settle",
                                                      "more",
                                                      "finish",
                                                      "start",
                                                      "witness",
                                                      "audited call",
                                                      "group",
                                                      "resync",
                                                      "comparison of uniform sizes",
                                                      "check of what was captured, call",
                                                      "sharing of what was built, call",
                                                      "loading, call"};

}  // namespace

std::uint64_t RoundKey::hash() const {
  std::uint64_t h = mixed(mixed(mixed(epoch), group), frame);
  h = mixed(h ^ call);
  const std::uint64_t mode = consistency ? static_cast<std::uint64_t>(*consistency) + 1 : 0;
  h = mixed(h ^ (mode << 48) ^ (std::uint64_t{attempt} << 8) ^ static_cast<std::uint64_t>(kind));
  if (!options.empty()) h = mixed(~h, options);
  if (!after.empty()) h = mixed(~h ^ after.size(), after);
  return pending_call.empty() ? h : mixed(h, pending_call);
}

std::string RoundKey::text() const {
  std::string out(kKindNames[static_cast<std::size_t>(kind) % kKindNames.size()]);
  // A round inside a run of the frame, or at its end.
  if (kind == Kind::Settle && !frame.empty()) out = "the end of call";
  if (kind != Kind::Resync) out += fmt::format(" {}", call);
  if (!frame.empty()) out += fmt::format(" of {}", frame);
  if (!group.empty()) out += fmt::format(" in group {}", group);
  if (attempt != 0) out += fmt::format(", attempt {}", attempt);
  if (consistency) out += fmt::format(", {}", consistency_name(*consistency));
  if (epoch != 0) out += fmt::format(", epoch {}", epoch);
  if (!pending_call.empty()) out += fmt::format(", before the prefetched {}", pending_call);
  return out;
}

}  // namespace lockstep::worker
