#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/coordinator/service/diagnosis.h>

namespace lockstep::coordinator {
namespace {

/// One look at one job.
struct Look {
  const Membership& membership;
  const Progress& progress;
  const Rules& rules;
  Instant now;

  [[nodiscard]] bool open(const Member& member) const {
    return member.connection.has_value() && !member.finished;
  }
  [[nodiscard]] bool silent(const Member& member) const {
    return open(member) && now - member.heard > rules.silent_warn;
  }
  /// True if the member's last message is from the second half of a wait that began at `since`. If
  /// the message is older, the rank may be suspended.
  [[nodiscard]] bool heard_since_half(const Member& member, Instant since) const {
    return member.heard >= since + (now - since) / 2;
  }
  [[nodiscard]] double seconds_since(Instant since) const {
    return std::chrono::duration<double>(now - since).count();
  }
  /// "it was last seen: in no operation yet, starting"
  [[nodiscard]] std::string last_seen(const RankSet& ranks) const {
    const Rank rank = ranks.lowest();
    const Seen* seen = progress.seen(rank);
    const std::string who =
        ranks.size() == 1 ? "it" : fmt::format("rank {}, the first of them,", rank.value);
    if (seen == nullptr) return fmt::format("{} has not reported yet", who);
    return fmt::format("{} was last seen: {}", who, describe(seen->state, seen->told));
  }
};

const char* has(const RankSet& ranks) { return ranks.size() == 1 ? "has" : "have"; }

/// The ranks of findings of one kind, separated into warnings and findings to act on.
struct Sorted {
  struct Part {
    RankSet ranks;
    std::optional<Instant> since;
  };
  std::array<Part, 2> parts;  // warnings, to act on
  void add(Rank rank, Instant since, bool act) {
    Part& part = parts[act ? 1 : 0];
    part.ranks.insert(rank);
    part.since = std::min(part.since.value_or(since), since);
  }
};

template <class Text>
void tell(std::vector<Finding>& out, Finding::Kind kind, const Sorted& sorted, const Text& text) {
  for (const bool act : {true, false}) {
    const auto& [ranks, since] = sorted.parts[act ? 1 : 0];
    if (since) out.push_back({kind, act, ranks, *since, text(ranks, *since)});
  }
}

void find_lost_and_silent(const Look& look, std::vector<Finding>& out) {
  Sorted lost, silent;
  for (std::int32_t r = 0; r < look.membership.size(); ++r) {
    const Member* member = look.membership.member(Rank{r});
    if (member == nullptr || member->finished) continue;
    const Duration quiet = look.now - member->heard;
    if (!member->connection)
      lost.add(Rank{r}, member->heard, quiet >= look.rules.closed_act);
    else if (look.silent(*member))
      silent.add(Rank{r}, member->heard, quiet >= look.rules.silent_act);
  }
  tell(out, Finding::Kind::Lost, lost, [&](const RankSet& ranks, Instant since) {
    return fmt::format("{} {} closed the connection without finishing the job, {:.1f} s ago{}; {}.",
                       capital(look.membership.text(ranks)), has(ranks), look.seconds_since(since),
                       ranks.size() == 1 ? "" : " the first of them", look.last_seen(ranks));
  });
  tell(out, Finding::Kind::Silent, silent, [&](const RankSet& ranks, Instant since) {
    return fmt::format(
        "{} {} said nothing for {:.1f} s: suspended, out of reach, or without a turn on a busy "
        "machine; {}.",
        capital(look.membership.text(ranks)), has(ranks), look.seconds_since(since),
        look.last_seen(ranks));
  });
}

/// The ranks of `missing` to blame, and the time since which they make no progress. Adds the ranks
/// to `named`.
Sorted to_blame(const Look& look, const Operation& operation, const RankSet& missing,
                RankSet& named) {
  Sorted out;
  for (const Rank each : missing) {
    const Member* member = look.membership.member(each);
    const Seen* seen = look.progress.seen(each);
    if (member == nullptr || seen == nullptr) continue;  // absent
    if (!member->finished && (!member->connection || look.silent(*member))) continue;
    if (seen->state.waiting && !member->finished) continue;           // waits for another rank
    if (seen->state.lease > look.now && !member->finished) continue;  // is busy
    const Instant since = std::max({operation.since, seen->state.progress, seen->state.lease});
    const Duration still = look.now - since;
    if (still < look.rules.stuck_warn) continue;
    out.add(each, since, still >= look.rules.stuck_act);
    named.insert(each);
  }
  return out;
}

/// True if a rank in the operation may have left it without a report, because the rank is lost or
/// suspended.
bool unseen(const Look& look, const Operation& operation) {
  for (const Rank rank : operation.in) {
    const Member* member = look.membership.member(rank);
    if (member == nullptr || !member->connection || look.silent(*member) ||
        !look.heard_since_half(*member, operation.since))
      return true;
  }
  return false;
}

void find_stuck(const Look& look, const std::vector<Operation>& operations,
                std::vector<Finding>& out) {
  RankSet named;
  const auto say = [&](const Operation& operation, const RankSet& missing, const char* what) {
    tell(out, Finding::Kind::Stuck, to_blame(look, operation, missing.minus(named), named),
         [&](const RankSet& ranks, Instant since) {
           return fmt::format(
               "{} {} {} {}, in which {} {}, and {} shown no progress for {:.1f} s; {}.",
               capital(look.membership.text(ranks)), has(ranks), what, operation.text(),
               operation.in.phrase(), operation.in.size() == 1 ? "waits" : "wait", has(ranks),
               look.seconds_since(since), look.last_seen(ranks));
         });
  };
  for (const Operation& operation : operations) {
    say(operation, operation.not_in, "not come to");
    // Ranks that began the operation and left it are blamed, too: the operation may be a prefetched
    // vote, or may have ended for some ranks only.
    if (operation.not_in.empty() && !unseen(look, operation))
      say(operation, operation.beside, "begun and left");
  }
}

/// True if no rank in the operation has made progress for `stuck_warn`.
bool still(const Look& look, const Operation& operation) {
  for (const Rank rank : operation.in)
    if (look.now - look.progress.seen(rank)->state.progress < look.rules.stuck_warn) return false;
  return true;
}

/// "rank 0: all_reduce, last event: trace f; rank 1: broadcast", if ranks are in operations of
/// different kinds at one place; else empty.
std::string paths(const Look& look, const Operation& operation) {
  std::map<OperationKind, std::pair<RankSet, std::string>> kinds;
  for (const Rank rank : operation.in) {
    const RankState& state = look.progress.seen(rank)->state;
    auto& [ranks, text] = kinds[state.operation];
    if (text.empty()) text = state.event;
    ranks.insert(rank);
  }
  std::vector<std::string> out;
  for (const auto& [kind, in] : kinds)
    out.push_back(fmt::format("{}: {}{}{}", in.first.phrase(), operation_name(kind),
                              in.second.empty() ? "" : ", last event: ", in.second));
  return out.size() < 2 ? "" : fmt::format("{}", fmt::join(out, "; "));
}

void find_hung(const Look& look, const std::vector<Operation>& operations,
               std::vector<Finding>& out) {
  for (const Operation& operation : operations) {
    if (!operation.not_in.empty() || !operation.beside.empty() || !operation.recent ||
        !still(look, operation) || unseen(look, operation))
      continue;
    const double seconds = look.seconds_since(operation.since);
    const std::string ranks = capital(look.membership.text(operation.in));
    const std::string apart = paths(look, operation);
    std::string text =
        apart.empty()
            ? fmt::format(
                  "{} {} in {} and nobody is still to come, but it has not ended for "
                  "{:.1f} s: much data, or the network has failed.",
                  ranks, operation.in.size() == 1 ? "is" : "are", operation.text(), seconds)
            : fmt::format(
                  "{} took different paths and are in different operations at the same "
                  "place, so none of these can end; nothing has moved for {:.1f} s ({}).",
                  ranks, seconds, apart);
    out.push_back({Finding::Kind::Hung, look.now - operation.since >= look.rules.stuck_act,
                   operation.in, operation.since, std::move(text)});
  }
}

/// For each operation, the operations in which its missing ranks wait.
std::vector<std::vector<std::size_t>> waits_between(const Look& look,
                                                    const std::vector<Operation>& operations) {
  std::vector<std::vector<std::size_t>> out(operations.size());
  for (std::size_t from = 0; from < operations.size(); ++from)
    for (std::size_t to = 0; to < operations.size(); ++to) {
      const RankSet& missing = operations[from].not_in;
      if (missing.minus(operations[to].in) != missing && still(look, operations[to]))
        out[from].push_back(to);
    }
  return out;
}

bool reaches(const std::vector<std::vector<std::size_t>>& next, std::size_t from, std::size_t to) {
  std::vector<bool> seen(next.size());
  std::vector<std::size_t> frontier = next[from];
  while (!frontier.empty()) {
    const std::size_t at = frontier.back();
    frontier.pop_back();
    if (at == to) return true;
    if (seen[at]) continue;
    seen[at] = true;
    frontier.insert(frontier.end(), next[at].begin(), next[at].end());
  }
  return false;
}

/// An operation is in a ring if its missing ranks wait, directly or through others, for that
/// operation itself.
void find_rings(const Look& look, const std::vector<Operation>& operations,
                std::vector<Finding>& out) {
  const auto next = waits_between(look, operations);
  Finding ring{Finding::Kind::Ring, false, {}, Instant{0}, ""};
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (!still(look, operations[i]) || !reaches(next, i, i)) continue;
    const Operation& operation = operations[i];
    ring.ranks.insert(operation.in);
    ring.since = std::max(ring.since, operation.since);
    parts.push_back(fmt::format("{} {} in {} for {}", operation.in.phrase(),
                                operation.in.size() == 1 ? "waits" : "wait", operation.text(),
                                operation.not_in.phrase()));
  }
  if (ring.ranks.empty()) return;
  ring.act = look.now - ring.since >= look.rules.stuck_act;
  ring.message = fmt::format("Ranks wait for each other and none of them can go on: {}.",
                             fmt::join(parts, "; "));
  out.push_back(std::move(ring));
}

void find_absent(const Look& look, Instant began, std::vector<Finding>& out) {
  const RankSet absent = look.membership.absent();
  if (absent.empty() || look.now - began < look.rules.absent_warn) return;
  out.push_back({Finding::Kind::Absent, false, absent, began,
                 fmt::format("{} {} not come in the {:.0f} s since the first rank did.",
                             capital(absent.phrase()), has(absent), look.seconds_since(began))});
}

/// The share of recent looks that found the rank waiting, in thousandths.
std::optional<std::uint32_t> waiting_share(const Look& look, Rank rank) {
  const Member* member = look.membership.member(rank);
  const Seen* seen = look.progress.seen(rank);
  if (member == nullptr || seen == nullptr || !look.open(*member)) return std::nullopt;
  if (seen->recent_looks < look.rules.skew_looks) return std::nullopt;
  return seen->recent_waiting * 1000 / seen->recent_looks;
}

void find_laggards(const Look& look, std::vector<Finding>& out) {
  std::vector<std::uint32_t> shares;
  for (std::int32_t r = 0; r < look.progress.size(); ++r)
    if (const auto share = waiting_share(look, Rank{r})) shares.push_back(*share);
  if (shares.size() < 2) return;
  const auto middle = shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / 2);
  std::nth_element(shares.begin(), middle, shares.end());
  const std::uint32_t median = *middle;
  if (median * look.rules.skew_median < 1000) return;
  RankSet laggards;
  for (std::int32_t r = 0; r < look.progress.size(); ++r)
    if (const auto share = waiting_share(look, Rank{r});
        share && *share * look.rules.skew_ratio <= median)
      laggards.insert(Rank{r});
  if (laggards.empty()) return;
  const Seen& first = *look.progress.seen(laggards.lowest());
  out.push_back({Finding::Kind::Lags, false, laggards, look.now,
                 fmt::format("Others wait for {}: rank {} waits for {:.0f} % of its time, the "
                             "median rank for {:.0f} %; {} of its {} reports showed it behind.",
                             look.membership.text(laggards), laggards.lowest().value,
                             *waiting_share(look, laggards.lowest()) / 10.0, median / 10.0,
                             first.awaited, first.reports)});
}

}  // namespace

Rules Rules::within(Duration deadline, bool several_hosts) const {
  Rules out = *this;
  out.stuck_act = out.silent_act = several_hosts ? deadline * 3 / 4 : deadline * 5 / 4;
  out.closed_act = std::min(closed_act, out.stuck_act);
  out.stuck_warn = std::min(stuck_warn, out.stuck_act);
  return out;
}

std::string_view kind_name(Finding::Kind kind) {
  constexpr std::array<std::string_view, 7> kNames{"lost", "silent", "stuck", "ring",
                                                   "hung", "absent", "lags"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<Finding> diagnose(const Membership& membership, const Progress& progress,
                              const std::vector<Operation>& operations, const Rules& rules,
                              Instant began, Instant now) {
  const Look look{membership, progress, rules, now};
  std::vector<Finding> out;
  find_lost_and_silent(look, out);
  find_stuck(look, operations, out);
  find_rings(look, operations, out);
  find_hung(look, operations, out);
  find_absent(look, began, out);
  find_laggards(look, out);
  std::stable_sort(out.begin(), out.end(),
                   [](const Finding& a, const Finding& b) { return a.act && !b.act; });
  return out;
}

}  // namespace lockstep::coordinator
