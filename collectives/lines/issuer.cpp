#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/lines/issuer.h>

namespace lockstep::lines {
namespace {

Entry entry_of(const Operation& operation, Posts& posts) {
  Entry entry;
  Posted& posted = entry.posted;
  posted.equal = digest_of(operation);
  posted.site = site_of(operation);
  posted.kind = posts.text(operation.kind);
  posted.dtype = posts.text(operation.dtype);
  posted.reduction = posts.text(operation.reduction);
  posted.place = posts.text(operation.place);
  posted.root = operation.root;
  posted.needs = operation.needs;
  posted.paired = operation.paired ? 1 : 0;
  posted.tensors = static_cast<std::uint32_t>(operation.elements.size());
  posted.to = static_cast<std::uint32_t>(operation.to.size());
  posted.from = static_cast<std::uint32_t>(operation.from.size());
  const std::size_t shown = std::min(operation.shape.size(), kShownSizes);
  std::copy_n(operation.shape.begin(), shown, posted.shape);
  posted.sizes = static_cast<std::uint8_t>(operation.shape.size() > kShownSizes ? 255 : shown);
  entry.values.reserve(operation.to.size() + operation.from.size());
  entry.values.assign(operation.to.begin(), operation.to.end());
  entry.values.insert(entry.values.end(), operation.from.begin(), operation.from.end());
  return entry;
}

}  // namespace

Result<Issued> Issuer::issue(const Group& group, const Operation& operation) {
  auto issued = post(group, operation);
  if (!issued) return issued.error();
  if (auto checked = check(group, *issued, &issued->elsewhere); !checked) return checked.error();
  return issued;
}

Result<Issued> Issuer::post(const Group& group, const Operation& operation) {
  if (auto alive = still_alive(group); !alive) return alive.error();
  auto line = posts_.open(group);
  if (!line) return line.error();
  Issued issued{*line, posts_.count(*line), entry_of(operation, posts_)};
  if (auto posted = posts_.post(*line, issued.entry); !posted) return posted.error();
  if (issued.number % kTrimEvery == kTrimEvery - 1) trim(group, issued);
  return issued;
}

// A member that has posted entry k - 1 may still compare with it.
void Issuer::trim(const Group& group, const Issued& issued) {
  std::uint64_t passed = issued.number;
  for (const Rank member : group.members)
    if (posts_.state(member) == PeerState::Running)
      passed = std::min(passed, posts_.count(member, group.key));
  if (passed > 0) posts_.trim(issued.line, passed - 1);
}

void Issuer::prepare(Group& group) const {
  const auto size = static_cast<int>(group.members.size());
  auto& compared = group.compared.emplace();
  for (int member = 0; member < size; ++member) {
    const int apart = std::abs(member - group.self);
    if (apart > 0 && (std::min(apart, size - apart) <= near_ ||
                      posts_.is_here(group.members[static_cast<std::size_t>(member)])))
      compared.push_back(member);
  }
}

Result<void> Issuer::check(const Group& group, const Issued& issued,
                           std::optional<Elsewhere>* elsewhere) {
  if (group.compared && issued.entry.values.empty())
    return check_with(group, issued, *group.compared, elsewhere);
  std::vector<int> all(group.members.size());
  std::iota(all.begin(), all.end(), 0);
  all.erase(all.begin() + group.self);
  return check_with(group, issued, all, elsewhere);
}

Result<void> Issuer::check_with(const Group& group, const Issued& issued,
                                const std::vector<int>& members,
                                std::optional<Elsewhere>* elsewhere) {
  for (const int member : members)
    if (!fits_with(group, issued, member, elsewhere))
      return posts_.refuse(
          group.key, {Code::GraphDivergence,
                      fmt::format("operation {} of {} is not the same on its "
                                  "ranks, and cannot complete: end the job [{}]",
                                  issued.number + 1, group.name,
                                  rows(group, issued, member) + missing_text(group, issued))});
  return still_alive(group);
}

void Issuer::arrived(const Group& group, const Issued& issued) {
  if (group.compared->empty() || !still_alive(group)) return;
  static_cast<void>(check_with(group, issued, *group.compared, nullptr));
}

Result<void> Issuer::still_alive(const Group& group) const {
  if (auto said = posts_.refusal(group.key)) return *std::move(said);
  return {};
}

bool Issuer::fits_with(const Group& group, const Issued& issued, int member,
                       std::optional<Elsewhere>* elsewhere) const {
  const Rank peer = group.members[static_cast<std::size_t>(member)];
  if (posts_.count(peer, group.key) <= issued.number) return true;  // it compares when it posts
  const auto theirs = posts_.entry(peer, group.key, issued.number);
  if (!theirs) return true;
  const std::uint64_t here = issued.entry.posted.site, there = theirs->posted.site;
  if (elsewhere != nullptr && !*elsewhere && here != there && here != 0 && there != 0)
    *elsewhere = Elsewhere{member, there};
  return fits(issued.entry, group.self, *theirs, member);
}

std::string Issuer::missing_text(const Group& group, const Issued& issued) const {
  RankSet absent;
  for (std::size_t member = 0; member < group.members.size(); ++member)
    if (static_cast<int>(member) != group.self &&
        posts_.count(group.members[member], group.key) <= issued.number)
      absent.insert(group.members[member]);
  return absent.empty() ? "" : fmt::format("; {}: nothing yet", absent.phrase());
}

std::string Issuer::rows(const Group& group, const Issued& issued, int other) const {
  std::vector<RankValue> table;
  for (int member = 0; member < static_cast<int>(group.members.size()); ++member) {
    const Rank rank = group.members[static_cast<std::size_t>(member)];
    std::optional<Entry> entry;
    if (member == group.self)
      entry = issued.entry;
    else if (posts_.count(rank, group.key) > issued.number)
      entry = posts_.entry(rank, group.key, issued.number);
    if (!entry) continue;
    std::string value = text_of(*entry, posts_.texts(rank, entry->posted));
    const int about = member == group.self ? other : group.self;
    if (member == group.self || member == other)
      if (const std::string splits = splits_text(*entry, about); !splits.empty())
        value += ", " + splits;
    const auto same = std::find_if(table.begin(), table.end(),
                                   [&](const RankValue& row) { return row.value == value; });
    if (same != table.end())
      same->ranks.insert(rank);
    else
      table.push_back({RankSet::of(rank), std::move(value)});
  }
  std::string out;
  for (const RankValue& row : table)
    out += fmt::format("{}{}: {}", out.empty() ? "" : "; ", row.ranks.phrase(), row.value);
  return out;
}

}  // namespace lockstep::lines
