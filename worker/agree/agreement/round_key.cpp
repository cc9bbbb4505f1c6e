#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/round_key.h>

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
  bool of_call;   // "… of call 7", if the round has a frame
  bool numbered;  // text() has a number
};
constexpr std::array<KindName, 17> kKindNames{{{"call", true, true},
                                               {"verification", true, true},
                                               {"commit", true, true},
                                               {"close", false, false},
                                               {"the end", true, true},
                                               {"more", false, false},
                                               {"finish", false, false},
                                               {"start", false, false},
                                               {"witness", true, true},
                                               {"audited call", true, true},
                                               {"group", false, true},
                                               {"resync", false, false},
                                               {"comparison of uniform sizes", true, true},
                                               {"check of what was captured", true, true},
                                               {"sharing of what was built", true, true},
                                               {"loading", false, false},
                                               {"agree()", false, false}}};

constexpr std::string_view kSettle = "settle";  // a status round that ends no call

/// Number of digits at `from`.
std::size_t digits(std::string_view text, std::size_t from) {
  return std::min(text.find_first_not_of("0123456789", from), text.size()) - from;
}

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

std::string RoundKey::round_text() const { return text(round, kind != Kind::Resync); }

std::string RoundKey::text() const {
  return text(call, false) + (where.empty() ? "" : " at ") + where;
}

std::string RoundKey::text(std::uint64_t number, bool always) const {
  const KindName& name = kKindNames[static_cast<std::size_t>(kind) % kKindNames.size()];
  const bool is_call = kind == Kind::Call || kind == Kind::Audit;
  std::string out(kind == Kind::Settle && frame.empty() ? kSettle : name.text);
  if (!frame.empty() && name.of_call && !is_call)
    out += fmt::format(" of call {}", number);
  else if (is_call || kind == Kind::Group || always)
    out += fmt::format(" {}", number);
  if (!frame.empty()) out += fmt::format(" {} {}", kind == Kind::Words ? "on" : "of", frame);
  if (!group.empty()) out += fmt::format(" in group {}", group);
  if (attempt != 0) out += fmt::format(", attempt {}", attempt);
  if (consistency) out += fmt::format(", {}", consistency_name(*consistency));
  if (epoch != 0) out += fmt::format(", epoch {}", epoch);
  if (!pending_call.empty()) out += fmt::format(", before the prefetched {}", pending_call);
  return out;
}

std::string RoundKey::text_of(std::string round_text, std::optional<std::string> call) {
  constexpr std::string_view kCall = "call ";
  if (const std::size_t at = round_text.find(kCall); call && at != std::string::npos)
    return round_text.replace(at + kCall.size(), digits(round_text, at + kCall.size()), *call);
  const std::size_t space = round_text.find(' ');
  if (space == std::string::npos) return round_text;
  const std::string_view kind = std::string_view(round_text).substr(0, space);
  const auto unnumbered = [&](const KindName& name) { return !name.numbered && name.text == kind; };
  const std::size_t number = digits(round_text, space + 1);
  if (number != 0 && (kind == kSettle || std::ranges::any_of(kKindNames, unnumbered)))
    round_text.erase(space, 1 + number);
  return round_text;
}

}  // namespace lockstep::worker
