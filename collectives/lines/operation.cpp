#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/collectives/lines/operation.h>
#include <lockstep/shapes/expr/fingerprint.h>

namespace lockstep::lines {
namespace {

/// The value for `peer` among the `count` values from `begin` on; nullopt: the entry has no value
/// for `peer`.
std::optional<std::int64_t> share(const Entry& entry, std::size_t begin, std::uint32_t count,
                                  int peer) {
  if (count == 0) return std::nullopt;
  if (count == 1 && entry.posted.root >= 0)
    return peer == entry.posted.root ? std::optional(entry.values[begin]) : std::nullopt;
  const auto at = static_cast<std::size_t>(peer);
  if (at >= count) return std::nullopt;
  return entry.values[begin + at];
}

std::optional<std::int64_t> sent(const Entry& entry, int peer) {
  return share(entry, 0, entry.posted.to, peer);
}

std::optional<std::int64_t> taken(const Entry& entry, int peer) {
  return share(entry, entry.posted.to, entry.posted.from, peer);
}

bool differ(std::optional<std::int64_t> sends, std::optional<std::int64_t> takes) {
  return sends && takes && *sends != *takes;
}

}  // namespace

std::uint64_t digest_of(const Operation& operation) {
  shapes::FingerprintBuilder builder;
  if (!operation.paired) builder.add(operation.kind).add(std::int64_t{operation.root});
  builder.add(operation.dtype).add(operation.reduction);
  for (const std::int64_t elements : operation.elements) builder.add(elements);
  return builder.finish().low;
}

std::uint64_t site_of(const Operation& operation) {
  return operation.paired || operation.place.empty() ? 0
                                                     : shapes::fingerprint(operation.place).low | 1;
}

bool fits(const Entry& a, int member_a, const Entry& b, int member_b) {
  return a.posted.equal == b.posted.equal && !differ(sent(a, member_b), taken(b, member_a)) &&
         !differ(sent(b, member_a), taken(a, member_b));
}

std::vector<int> needed_of(const Entry& entry, int self, int size) {
  const auto needs = [&](int member) {
    switch (entry.posted.needs) {
      case Needs::All:
      case Needs::Receiver:  // a pair has no other member
        return true;
      case Needs::Root:
        return member == entry.posted.root;
      case Needs::Senders:
        return taken(entry, member).value_or(0) > 0;
      case Needs::Nobody:
        return false;
    }
    return false;
  };
  std::vector<int> out;
  for (int member = 0; member < size; ++member)
    if (member != self && needs(member)) out.push_back(member);
  return out;
}

std::string text_of(const Entry& entry, const EntryTexts& texts) {
  const Posted& posted = entry.posted;
  std::string out = texts.kind;
  if (!texts.reduction.empty()) out += " " + texts.reduction;
  if (!texts.dtype.empty()) {
    out += " " + texts.dtype;
    const std::size_t shown = posted.sizes > kShownSizes ? kShownSizes : posted.sizes;
    out += fmt::format("[{}{}]", fmt::join(posted.shape, posted.shape + shown, ", "),
                       posted.sizes > kShownSizes ? ", …" : "");
    if (posted.tensors > 1) out += fmt::format(" and {} more", posted.tensors - 1);
  }
  if (posted.root >= 0 && posted.paired == 0) out += fmt::format(" root {}", posted.root);
  if (!texts.place.empty()) out += " at " + texts.place;
  return out;
}

std::string splits_text(const Entry& entry, int peer) {
  const auto to = sent(entry, peer), from = taken(entry, peer);
  if (!to && !from) return {};
  if (!from) return fmt::format("sends {} elements to member {}", *to, peer);
  if (!to) return fmt::format("takes {} elements from member {}", *from, peer);
  return fmt::format("sends {} elements to member {} and takes {} from it", *to, peer, *from);
}

}  // namespace lockstep::lines
