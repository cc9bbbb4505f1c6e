#include "lines_simulation.h"

#include <algorithm>
#include <random>
#include <set>
#include <tuple>

#include <fmt/format.h>

namespace lockstep::tests {

using namespace lockstep::lines;

Result<LineId> PlainPosts::open(const Group& group) {
  auto found = std::find(opened_.begin(), opened_.end(), group.key);
  if (found == opened_.end()) found = opened_.insert(found, group.key);
  return LineId{static_cast<std::uint32_t>(found - opened_.begin())};
}

std::uint64_t PlainPosts::count(LineId line) const { return count(self_, opened_.at(line.value)); }

Result<void> PlainPosts::post(LineId line, const Entry& entry) {
  world_.entries[{self_, opened_.at(line.value)}].push_back(entry);
  return {};
}

void PlainPosts::handed(LineId line) {
  world_.handed[{self_, opened_.at(line.value)}] = count(line);
}

void PlainPosts::trim(LineId, std::uint64_t) {}

TextId PlainPosts::text(std::string_view text) {
  auto found = std::find(world_.texts.begin(), world_.texts.end(), text);
  if (found == world_.texts.end()) found = world_.texts.insert(found, std::string(text));
  return static_cast<TextId>(found - world_.texts.begin());
}

PeerState PlainPosts::state(Rank peer) const {
  return world_.states[static_cast<std::size_t>(peer.value)];
}

std::uint64_t PlainPosts::count(Rank peer, LineKey key) const {
  const auto found = world_.entries.find({peer, key});
  return found == world_.entries.end() ? 0 : found->second.size();
}

std::optional<Entry> PlainPosts::entry(Rank peer, LineKey key, std::uint64_t number) const {
  return world_.entries.at({peer, key}).at(number);
}

EntryTexts PlainPosts::texts(Rank, const Posted& posted) const {
  return {world_.texts[posted.kind], world_.texts[posted.dtype], world_.texts[posted.reduction],
          world_.texts[posted.place]};
}

std::optional<Status> PlainPosts::refusal(LineKey key) const {
  const auto found = world_.refusals.find(key);
  return found == world_.refusals.end() ? std::nullopt : std::optional(found->second);
}

Status PlainPosts::refuse(LineKey key, const Status& status) {
  return world_.refusals.try_emplace(key, status).first->second;
}

namespace {

using Random = std::mt19937_64;

int below(Random& random, std::size_t bound) { return static_cast<int>(random() % bound); }
bool chance(Random& random, int percent) { return below(random, 100) < percent; }

/// One operation of a rank's program.
struct Step {
  int group = 0;
  std::string kind, dtype = "f32", reduction;
  int root = -1;
  Needs needs = Needs::All;
  bool paired = false;
  std::vector<std::int64_t> elements, to, from;
  bool waits = true;    // for it, at once
  bool drains = false;  // then waits for all that it has not waited for

  [[nodiscard]] Operation operation() const {
    return {.kind = kind,
            .dtype = dtype,
            .reduction = reduction,
            .root = root,
            .needs = needs,
            .paired = paired,
            .elements = elements,
            .shape = elements,
            .to = to,
            .from = from};
  }
};

struct Flight {
  int group = 0;
  std::uint64_t number = 0;
  Needs needs = Needs::All;
  int root = -1;
  std::vector<std::int64_t> from;
};

/// A thread of a rank, and where it stands.
struct Thread {
  std::vector<Step> steps;
  std::size_t next = 0;
  enum class At { Step, Check, Issue, Wait } at = At::Step;
  Issued issued;
  std::vector<Flight> in_flight;  // not waited for
  std::vector<Flight> waited;     // of these the first, now
  bool has_issued = false, has_ended = false;
};

class Simulation {
 public:
  Simulation(std::uint64_t seed, bool faulty)
      : random_(seed), ranks_(2 + below(random_, 4)), world_(ranks_) {
    for (int rank = 0; rank < ranks_; ++rank) {
      posts_.push_back(std::make_unique<PlainPosts>(world_, Rank{rank}));
      issuers_.emplace_back(*posts_.back());
    }
    threads_per_rank_ = 1 + below(random_, 2);
    threads_.assign(static_cast<std::size_t>(ranks_),
                    std::vector<Thread>(static_cast<std::size_t>(threads_per_rank_)));
    moves_.assign(static_cast<std::size_t>(ranks_), 0);
    make_groups();
    make_program();
    faulty_ = faulty;
    if (faulty) make_fault();
  }

  RunOutcome run() {
    std::vector<std::pair<int, int>> order;
    for (int rank = 0; rank < ranks_; ++rank)
      for (int thread = 0; thread < threads_per_rank_; ++thread) order.emplace_back(rank, thread);
    while (outcome_.wrong.empty()) {
      // Whoever is drawn takes a turn; the run is over when nobody can.
      std::shuffle(order.begin(), order.end(), random_);
      bool moved = false;
      for (const auto& [rank, thread] : order) {
        if (chance(random_, 30)) look();
        if (chance(random_, 50)) continue;
        moved = turn(rank, at(rank, thread)) || moved;
      }
      if (!moved && !any_can_move(order)) break;
    }
    finish();
    return outcome_;
  }

 private:
  Thread& at(int rank, int thread) {
    return threads_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(thread)];
  }
  PeerState& state(int rank) { return world_.states[static_cast<std::size_t>(rank)]; }

  void make_groups() {
    const int count = 1 + below(random_, 4);
    for (int g = 0; g < count; ++g) {
      std::vector<Rank> members;
      for (int rank = 0; rank < ranks_; ++rank)
        if (g == 0 || chance(random_, 60)) members.push_back(Rank{rank});
      if (members.size() >= 2)
        groups_.push_back(Group{LineKey{7, groups_.size()}, members, 0, "a group"});
    }
    for (int pair = below(random_, 4); pair > 0; --pair) {
      const int from = below(random_, static_cast<std::size_t>(ranks_));
      const int to = (from + 1 + below(random_, static_cast<std::size_t>(ranks_ - 1))) % ranks_;
      groups_.push_back(Group{LineKey{8, groups_.size()}, {Rank{from}, Rank{to}}, 0, "a pair"});
    }
  }

  [[nodiscard]] bool is_pair(int group) const {
    return groups_[static_cast<std::size_t>(group)].key.high == 8;
  }

  void make_program() {
    for (int op = 4 + below(random_, 10); op > 0; --op) {
      const int g = below(random_, groups_.size());
      const auto& members = groups_[static_cast<std::size_t>(g)].members;
      const auto size = members.size();
      Step step;
      step.group = g;
      step.elements = {1 + below(random_, 3)};
      const int kind = is_pair(g) ? 9 : below(random_, 5);
      std::vector<std::vector<std::int64_t>> splits(size, std::vector<std::int64_t>(size));
      for (auto& row : splits)
        for (auto& rows : row) rows = below(random_, 3);
      const int root = below(random_, size);
      for (std::size_t m = 0; m < size; ++m) {
        Step mine = step;
        const bool is_root = static_cast<int>(m) == root;
        if (kind <= 1) {
          mine.kind = "all_reduce", mine.reduction = "sum";
        } else if (kind == 2) {
          mine.kind = "broadcast", mine.root = root;
          mine.needs = is_root ? Needs::Nobody : Needs::Root;
        } else if (kind == 3) {
          mine.kind = "barrier", mine.elements.clear();
        } else if (kind == 4) {
          mine.kind = "all_to_all_single", mine.needs = Needs::Senders, mine.elements.clear();
          for (std::size_t peer = 0; peer < size; ++peer) {
            mine.to.push_back(splits[m][peer]);
            mine.from.push_back(splits[peer][m]);
          }
        } else {
          mine.kind = m == 0 ? "send" : "receive", mine.paired = true, mine.root = 0;
          mine.needs = m == 0 ? Needs::Nobody : Needs::Root;
        }
        mine.waits = chance(random_, 60);
        mine.drains = chance(random_, 20);
        at(members[m].value, g % threads_per_rank_).steps.push_back(mine);
      }
    }
  }

  void make_fault() {
    const int rank = below(random_, static_cast<std::size_t>(ranks_));
    auto& steps = at(rank, below(random_, static_cast<std::size_t>(threads_per_rank_))).steps;
    if (steps.empty()) return;
    const auto i = static_cast<std::size_t>(below(random_, steps.size()));
    Step& step = steps[i];
    switch (below(random_, 9)) {
      case 0:
        step.elements.empty() ? step.elements.push_back(1) : void(++step.elements[0]);
        break;
      case 1:
        step.dtype = "i32";
        break;
      case 2:
        step.reduction = step.reduction.empty() ? "sum" : "max";
        break;
      case 3:
        if (step.root >= 0 && !step.paired) step.root = (step.root + 1) % 2;
        break;
      case 4:
        if (!step.to.empty()) ++step.to[0], ++step.from.back();
        break;
      case 5:
        if (i + 1 < steps.size()) std::swap(steps[i], steps[i + 1]);
        break;
      case 6:
        steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(i));
        break;
      case 7:
        steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(i), Step(step));
        break;
      default:
        ends_early_ = rank;
        ends_before_ = i;
    }
  }

  [[nodiscard]] Group group(int number, int rank) const {
    Group out = groups_[static_cast<std::size_t>(number)];
    out.self = static_cast<int>(std::find(out.members.begin(), out.members.end(), Rank{rank}) -
                                out.members.begin());
    return out;
  }

  /// Ranks that have handed entry `number` of a group to the transport.
  std::set<Rank>& handed(int group, std::uint64_t number) { return handed_[{group, number}]; }

  bool is_complete(int rank, const Flight& flight) {
    const Group of = group(flight.group, rank);
    const auto& there = handed(flight.group, flight.number);
    const auto came = [&](std::size_t member) { return there.contains(of.members[member]); };
    for (std::size_t m = 0; m < of.members.size(); ++m) {
      const bool needed =
          flight.needs == Needs::All ||
          (flight.needs == Needs::Root && static_cast<int>(m) == flight.root) ||
          (flight.needs == Needs::Senders && m < flight.from.size() && flight.from[m] > 0);
      if (needed && !came(m)) return false;
    }
    return true;
  }

  /// What the rank gets comes of entries that fit.
  void deliver(int rank, const Flight& flight) {
    const Group of = group(flight.group, rank);
    const auto mine =
        posts_[static_cast<std::size_t>(rank)]->entry(Rank{rank}, of.key, flight.number);
    for (std::size_t m = 0; m < of.members.size(); ++m) {
      if (static_cast<int>(m) == of.self ||
          !handed(flight.group, flight.number).contains(of.members[m]))
        continue;
      const bool needed = flight.needs == Needs::All ||
                          (flight.needs == Needs::Root && static_cast<int>(m) == flight.root) ||
                          (flight.needs == Needs::Senders && flight.from[m] > 0);
      const auto theirs = posts_[0]->entry(of.members[m], of.key, flight.number);
      if (needed && !fits(*mine, of.self, *theirs, static_cast<int>(m)))
        outcome_.wrong = fmt::format("rank {} got something of an unequal pairing with {}", rank,
                                     of.members[m].value);
    }
    if (claimed_.contains({rank, of.key, flight.number}))
      outcome_.wrong = fmt::format("a wait of rank {} was said to be without end, and ended", rank);
  }

  void raise(int rank) {
    state(rank) = PeerState::Gone;
    if (!faulty_) outcome_.wrong = fmt::format("rank {} was refused in a healthy program", rank);
    outcome_.refused = true;
  }

  /// False: it could not do anything.
  bool turn(int rank, Thread& thread) {
    if (state(rank) != PeerState::Running || thread.has_ended) return false;
    Issuer& issuer = issuers_[static_cast<std::size_t>(rank)];
    switch (thread.at) {
      case Thread::At::Step:
        return begin(rank, thread, issuer);
      case Thread::At::Check: {
        const Step& step = thread.steps[thread.next];
        if (!issuer.check(group(step.group, rank), thread.issued)) raise(rank);
        thread.at = Thread::At::Issue;
        return true;
      }
      case Thread::At::Issue:
        return hand_over(rank, thread);
      case Thread::At::Wait:
        return wait(rank, thread, issuer);
    }
    return false;
  }

  bool begin(int rank, Thread& thread, Issuer& issuer) {
    if (rank == ends_early_ && thread.next >= ends_before_) {
      state(rank) = PeerState::Gone;
      return true;
    }
    if (thread.next == thread.steps.size()) {
      if (!thread.in_flight.empty()) return begin_wait(rank, thread);
      thread.has_ended = true;
      const auto& all = threads_[static_cast<std::size_t>(rank)];
      if (std::all_of(all.begin(), all.end(), [](const Thread& other) { return other.has_ended; }))
        state(rank) = PeerState::Finished;
      return true;
    }
    const Step& step = thread.steps[thread.next];
    auto issued = issuer.post(group(step.group, rank), step.operation());
    if (!issued) {
      raise(rank);
      return true;
    }
    ++moves_[static_cast<std::size_t>(rank)];
    thread.has_issued = true;
    thread.issued = *issued;
    thread.at = Thread::At::Check;
    return true;
  }

  bool hand_over(int rank, Thread& thread) {
    const Step& step = thread.steps[thread.next++];
    handed(step.group, thread.issued.number).insert(Rank{rank});
    posts_[static_cast<std::size_t>(rank)]->handed(thread.issued.line);
    const Flight flight{step.group, thread.issued.number, step.needs, step.root, step.from};
    thread.at = Thread::At::Step;
    if (step.waits) {
      thread.waited = {flight};
      thread.at = Thread::At::Wait;
      ++moves_[static_cast<std::size_t>(rank)];
    } else {
      thread.in_flight.push_back(flight);
    }
    if (step.drains && !step.waits) begin_wait(rank, thread);
    return true;
  }

  bool begin_wait(int rank, Thread& thread) {
    thread.waited = std::move(thread.in_flight);
    thread.in_flight.clear();
    thread.at = Thread::At::Wait;
    ++moves_[static_cast<std::size_t>(rank)];
    return true;
  }

  bool wait(int rank, Thread& thread, Issuer& issuer) {
    const Flight flight = thread.waited.front();
    if (is_complete(rank, flight)) {
      deliver(rank, flight);
      thread.waited.erase(thread.waited.begin());
      ++moves_[static_cast<std::size_t>(rank)];
      if (thread.waited.empty()) thread.at = Thread::At::Step;
      return true;
    }
    if (issuer.still_alive(group(flight.group, rank))) return false;
    raise(rank);
    return true;
  }

  RankWaits waits_of(int rank) {
    RankWaits out;
    out.state = state(rank);
    out.moves = moves_[static_cast<std::size_t>(rank)];
    if (out.state != PeerState::Running) return out;
    for (int t = 0; t < threads_per_rank_; ++t) {
      const Thread& thread = at(rank, t);
      if (thread.has_ended) continue;
      if (!thread.has_issued) {
        out.has_threads_beside = true;
      } else if (thread.at != Thread::At::Wait) {
        out.has_free_thread = true;
      } else {
        const Flight& flight = thread.waited.front();
        const Group of = group(flight.group, rank);
        const auto mine = posts_[0]->entry(Rank{rank}, of.key, flight.number);
        RankWaits::Wait wait{{of.key, flight.number}, {}};
        for (const int member : needed_of(*mine, of.self, static_cast<int>(of.members.size())))
          wait.needed.push_back(of.members[static_cast<std::size_t>(member)]);
        out.waits.push_back(wait);
      }
    }
    return out;
  }

  /// A peer looks at one rank at a time, between turns of others.
  void look() {
    if (looked_at_ < ranks_) {
      moment_.ranks[Rank{looked_at_}] = waits_of(looked_at_);
      ++looked_at_;
      return;
    }
    for (const Group& of : groups_)
      for (const Rank member : of.members)
        moment_.counts[{of.key, member}] = {posts_[0]->count(member, of.key),
                                            world_.handed[{member, of.key}]};
    const auto blocked = find_blocked(moment_);
    if (!blocked.empty() && blocked == blocked_before_) {
      if (!faulty_) outcome_.wrong = "ranks of a healthy program were said to be blocked";
      outcome_.blocked = true;
      for (const Blocked& one : blocked)
        claimed_.insert({one.rank.value, one.waits.key, one.waits.number});
    }
    blocked_before_ = blocked;
    moment_ = {};
    looked_at_ = 0;
  }

  bool any_can_move(const std::vector<std::pair<int, int>>& order) {
    bool moved = false;
    for (const auto& [rank, thread] : order) moved = turn(rank, at(rank, thread)) || moved;
    return moved;
  }

  void finish() {
    outcome_.all_ended = std::all_of(world_.states.begin(), world_.states.end(),
                                     [](PeerState each) { return each == PeerState::Finished; });
    for (int looks = 0; looks < 3 * (ranks_ + 1); ++looks) look();
    for (int rank = 0; rank < ranks_; ++rank) {
      const bool is_named = std::any_of(blocked_before_.begin(), blocked_before_.end(),
                                        [&](const Blocked& one) { return one.rank.value == rank; });
      if (state(rank) == PeerState::Running && !is_named && outcome_.wrong.empty())
        outcome_.wrong = fmt::format("rank {} waits for ever, and nobody says so", rank);
    }
  }

  Random random_;
  int ranks_ = 0, threads_per_rank_ = 1;
  PlainWorld world_;
  std::vector<std::unique_ptr<PlainPosts>> posts_;
  std::vector<Issuer> issuers_;
  std::vector<Group> groups_;
  std::vector<std::vector<Thread>> threads_;  // by rank
  std::map<std::pair<int, std::uint64_t>, std::set<Rank>> handed_;
  std::vector<std::uint64_t> moves_;
  bool faulty_ = false;
  int ends_early_ = -1;
  std::size_t ends_before_ = 0;
  WaitMoment moment_;
  int looked_at_ = 0;
  std::vector<Blocked> blocked_before_;
  std::set<std::tuple<int, LineKey, std::uint64_t>> claimed_;  // waits
  RunOutcome outcome_;
};

}  // namespace

RunOutcome simulate(std::uint64_t seed, bool faulty) { return Simulation(seed, faulty).run(); }

}  // namespace lockstep::tests
