#include "simulation.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

#include "plain_posts.h"
#include "simulated_rank.h"
#include <fmt/format.h>

#include <lockstep/collectives/lines/issuer.h>
#include <lockstep/collectives/lines/wait_ring.h>

namespace lockstep::tests {

using namespace lockstep::lines;

namespace {

using Random = std::mt19937_64;

int below(Random& random, std::size_t bound) { return static_cast<int>(random() % bound); }
bool chance(Random& random, int percent) { return below(random, 100) < percent; }

class Simulation {
 public:
  Simulation(std::uint64_t seed, bool faulty, int hosts)
      : random_(seed), ranks_(2 + below(random_, 4)) {
    hosts_ = hosts == 1 ? 1 : 2 + below(random_, static_cast<std::size_t>(hosts - 1));
    near_ = chance(random_, 50) ? 1 : kNear;
    carries_ = 1 + below(random_, 60);
    for (int host = 0; host < hosts_; ++host) worlds_.emplace_back(ranks_, texts_);
    looks_.resize(static_cast<std::size_t>(hosts_));
    for (int rank = 0; rank < ranks_; ++rank) {
      host_of_.push_back(rank < hosts_ ? rank : below(random_, static_cast<std::size_t>(hosts_)));
      posts_.push_back(std::make_unique<PlainPosts>(world_of(rank), Rank{rank}));
      issuers_.emplace_back(*posts_.back(), near_);
    }
    for (int host = 0; host < hosts_; ++host)
      for (int rank = 0; rank < ranks_; ++rank)
        if (!is_on(host, Rank{rank}))
          worlds_[static_cast<std::size_t>(host)].elsewhere.insert(Rank{rank});
    threads_per_rank_ = 1 + below(random_, 2);
    buffered_ = chance(random_, 50);
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
        if (chance(random_, 30)) look(below(random_, static_cast<std::size_t>(hosts_)));
        if (hosts_ > 1 && chance(random_, carries_)) carry();
        if (chance(random_, 50)) continue;
        moved = turn(rank, at(rank, thread)) || moved;
      }
      if (moved || any_can_move(order)) continue;
      carry_all();
      if (!any_can_move(order)) break;
    }
    finish();
    return outcome_;
  }

 private:
  Thread& at(int rank, int thread) {
    return threads_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(thread)];
  }
  PlainWorld& world_of(int rank) {
    return worlds_[static_cast<std::size_t>(host_of_[static_cast<std::size_t>(rank)])];
  }
  PlainPosts& posts_of(Rank rank) { return *posts_[static_cast<std::size_t>(rank.value)]; }
  PeerState& state(int rank) { return world_of(rank).states[static_cast<std::size_t>(rank)]; }
  bool is_on(int host, Rank rank) { return host_of_[static_cast<std::size_t>(rank.value)] == host; }

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
          mine.needs = m == 1 ? Needs::Root : buffered_ ? Needs::Nobody : Needs::Receiver;
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
    issuers_[static_cast<std::size_t>(rank)].prepare(out);
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
          flight.needs == Needs::All || flight.needs == Needs::Receiver ||
          (flight.needs == Needs::Root && static_cast<int>(m) == flight.root) ||
          (flight.needs == Needs::Senders && m < flight.from.size() && flight.from[m] > 0);
      if (needed && !came(m)) return false;
    }
    return true;
  }

  /// What the rank gets comes of entries that fit.
  void deliver(int rank, const Flight& flight) {
    const Group of = group(flight.group, rank);
    const auto mine = posts_of(Rank{rank}).entry(Rank{rank}, of.key, flight.number);
    for (std::size_t m = 0; m < of.members.size(); ++m) {
      if (static_cast<int>(m) == of.self ||
          !handed(flight.group, flight.number).contains(of.members[m]))
        continue;
      const bool needed = flight.needs == Needs::All || flight.needs == Needs::Receiver ||
                          (flight.needs == Needs::Root && static_cast<int>(m) == flight.root) ||
                          (flight.needs == Needs::Senders && flight.from[m] > 0);
      const auto theirs = posts_of(of.members[m]).entry(of.members[m], of.key, flight.number);
      if (needed && !fits(*mine, of.self, *theirs, static_cast<int>(m)) &&
          (hosts_ == 1 || were_compared(flight.group, flight.number, Rank{rank}, of.members[m])))
        outcome_.wrong = fmt::format("rank {} got something of an unequal pairing with {}", rank,
                                     of.members[m].value);
    }
    if (claimed_.contains({rank, of.key, flight.number}))
      outcome_.wrong = fmt::format("a wait of rank {} was said to be without end, and ended", rank);
  }

  /// Whoever came second had the other's entry before it.
  bool were_compared(int group, std::uint64_t number, Rank a, Rank b) {
    return seen_by_.contains({group, number, a, b}) || seen_by_.contains({group, number, b, a});
  }

  static std::vector<int> compared(const Group& of, const Entry& entry) {
    if (entry.values.empty()) return *of.compared;
    std::vector<int> all(of.members.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  void note_what_is_seen(const Group& of, int group, const Issued& issued) {
    const Rank self = of.members[static_cast<std::size_t>(of.self)];
    for (const int member : compared(of, issued.entry)) {
      const Rank other = of.members[static_cast<std::size_t>(member)];
      if (posts_of(self).count(other, of.key) > issued.number)
        seen_by_.insert({group, issued.number, self, other});
    }
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
        note_what_is_seen(group(step.group, rank), step.group, thread.issued);
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
    posts_of(Rank{rank}).handed(thread.issued.line);
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

  /// Reads one rank of this host after the other, each thread by itself: others take turns in
  /// between.
  struct Reading {
    std::map<Rank, RankWaits> ranks;
    int rank = 0, thread = -1;
  };

  /// One step of it; false: all have been read.
  bool read_more(int host, Reading& reading) {
    while (reading.rank < ranks_ && !is_on(host, Rank{reading.rank})) ++reading.rank;
    if (reading.rank == ranks_) return false;
    RankWaits& out = reading.ranks[Rank{reading.rank}];
    if (reading.thread < 0) {
      out.state = state(reading.rank);
      out.moves = moves_[static_cast<std::size_t>(reading.rank)];
    } else if (out.state == PeerState::Running) {
      read_thread(reading.rank, reading.thread, out);
    }
    if (++reading.thread == threads_per_rank_) ++reading.rank, reading.thread = -1;
    return true;
  }

  void read_thread(int rank, int number, RankWaits& out) {
    const Thread& thread = at(rank, number);
    if (thread.has_ended) return;
    if (!thread.has_issued) {
      out.has_threads_beside = true;
    } else if (thread.at != Thread::At::Wait) {
      out.has_free_thread = true;
    } else {
      const Flight& flight = thread.waited.front();
      const Group of = group(flight.group, rank);
      const auto mine = posts_of(Rank{rank}).entry(Rank{rank}, of.key, flight.number);
      RankWaits::Wait wait{{of.key, flight.number}, {}};
      for (const int member : needed_of(*mine, of.self, static_cast<int>(of.members.size())))
        wait.needed.push_back(of.members[static_cast<std::size_t>(member)]);
      out.waits.push_back(wait);
    }
  }

  /// Of a rank of this host; what is known of those elsewhere is added.
  void look(int host) {
    Look& look = looks_[static_cast<std::size_t>(host)];
    if (read_more(host, look.reading)) return;
    PlainWorld& world = worlds_[static_cast<std::size_t>(host)];
    WaitMoment moment{std::move(look.reading.ranks), {}};
    moment.ranks.insert(look.elsewhere.begin(), look.elsewhere.end());
    for (const Group& of : groups_)
      for (const Rank member : of.members)
        moment.counts[{of.key, member}] = {PlainPosts(world, member).count(member, of.key),
                                           world.handed[{member, of.key}]};
    if (seen_again(look.seen, moment, Instant{}, look.mark)) {
      if (!faulty_) outcome_.wrong = "ranks of a healthy program were said to be blocked";
      outcome_.blocked = true;
      for (const Blocked& one : look.seen.blocked)
        claimed_.insert({one.rank.value, one.waits.key, one.waits.number});
    }
    look.reading = {};
  }

  /// What a host tells of its ranks, on its way.
  struct Letter {
    std::uint64_t mark = 0, heard = 0;
    std::map<Rank, RankWaits> waits;
    std::map<std::pair<Rank, LineKey>, std::pair<std::size_t, std::uint64_t>> counts;
    std::map<LineKey, Status> refusals;
  };

  /// A step of the next letter to all others; false: it is on its way.
  bool write_more(int from) {
    Look& look = looks_[static_cast<std::size_t>(from)];
    if (look.draft.ranks.empty()) {  // it begins
      ++look.mark;
      look.heard_before = look.heard;
    }
    if (read_more(from, look.draft)) return true;
    PlainWorld& world = worlds_[static_cast<std::size_t>(from)];
    for (int to = 0; to < hosts_; ++to) {
      if (to == from) continue;
      Letter letter{look.mark, look.heard_before[to], look.draft.ranks, {}, world.refusals};
      for (const auto& [of, entries] : world.entries)
        if (is_on(from, of.first)) letter.counts[of] = {entries.size(), world.handed[of]};
      letters_[{from, to}].push_back(std::move(letter));
    }
    look.draft = {};
    return false;
  }

  void read_letter(int from, int to) {
    auto& letters = letters_[{from, to}];
    if (letters.empty()) return;
    const Letter letter = std::move(letters.front());
    letters.pop_front();
    Look& look = looks_[static_cast<std::size_t>(to)];
    PlainWorld& world = worlds_[static_cast<std::size_t>(to)];
    look.heard[from] = letter.mark;
    for (const auto& [of, counts] : letter.counts) {
      auto& mirror = world.entries[of];
      while (mirror.size() < counts.first) take_entry(world, of.first, of.second);
      world.handed[of] = counts.second;
    }
    for (const auto& [rank, waits] : letter.waits) {
      world.states[static_cast<std::size_t>(rank.value)] = waits.state;
      look.elsewhere[rank] = waits;
      look.elsewhere[rank].heard = letter.heard;
    }
    world.refusals.insert(letter.refusals.begin(), letter.refusals.end());
  }

  /// The next entry of a rank elsewhere is here: compared with those of the ranks that are.
  void take_entry(PlainWorld& world, Rank rank, LineKey key) {
    auto& mirror = world.entries[{rank, key}];
    const std::uint64_t number = mirror.size();
    mirror.push_back(*posts_of(rank).entry(rank, key, number));
    const auto at = std::find_if(groups_.begin(), groups_.end(),
                                 [&](const Group& each) { return each.key == key; });
    Group of = group(static_cast<int>(at - groups_.begin()), rank.value);
    std::vector<int> here;
    for (std::size_t m = 0; m < of.members.size(); ++m)
      if (!world.elsewhere.contains(of.members[m])) here.push_back(static_cast<int>(m));
    of.compared = here;
    PlainPosts as_it(world, rank);
    Issuer(as_it).arrived(of, {LineId{}, number, mirror.back()});
  }

  void carry() {
    const int from = below(random_, static_cast<std::size_t>(hosts_));
    const int to = (from + 1 + below(random_, static_cast<std::size_t>(hosts_ - 1))) % hosts_;
    if (chance(random_, 80))
      static_cast<void>(write_more(from));
    else
      read_letter(from, to);
  }

  void carry_all() {
    for (int from = 0; from < hosts_ && hosts_ > 1; ++from)
      for (int letters = 0; letters < 2; ++letters)  // the first may have begun long ago
        while (write_more(from)) {
        }
    for (auto& [way, letters] : letters_)
      while (!letters.empty()) read_letter(way.first, way.second);
  }

  bool any_can_move(const std::vector<std::pair<int, int>>& order) {
    bool moved = false;
    for (const auto& [rank, thread] : order) moved = turn(rank, at(rank, thread)) || moved;
    return moved;
  }

  void finish() {
    outcome_.all_ended = true;
    for (int rank = 0; rank < ranks_; ++rank)
      outcome_.all_ended = outcome_.all_ended && state(rank) == PeerState::Finished;
    for (int looks = 0; looks < 4 * (2 * ranks_ + 1); ++looks) {
      carry_all();
      for (int host = 0; host < hosts_; ++host) look(host);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto& seen =
          looks_[static_cast<std::size_t>(host_of_[static_cast<std::size_t>(rank)])].seen.blocked;
      const bool is_named = std::any_of(seen.begin(), seen.end(),
                                        [&](const Blocked& one) { return one.rank.value == rank; });
      if (state(rank) == PeerState::Running && !is_named && outcome_.wrong.empty())
        outcome_.wrong = fmt::format("rank {} waits for ever, and nobody says so", rank);
    }
    if (outcome_.wrong.empty()) look_for_missed();
  }

  /// Whatever a lag has let through is refused on both hosts in the end.
  void look_for_missed() {
    for (const auto& [of, came] : handed_)
      for (const Rank a : came)
        for (const Rank b : came) {
          const Group mine = group(of.first, a.value), theirs = group(of.first, b.value);
          if (a == b ||
              worlds_[static_cast<std::size_t>(host_of_[static_cast<std::size_t>(a.value)])]
                  .refusals.contains(mine.key))
            continue;
          const auto entry = posts_of(a).entry(a, mine.key, of.second);
          const auto other = posts_of(b).entry(b, mine.key, of.second);
          const auto with = compared(mine, *entry);
          if (std::find(with.begin(), with.end(), theirs.self) != with.end() &&
              !fits(*entry, mine.self, *other, theirs.self))
            outcome_.wrong = fmt::format(
                "ranks {} and {} have issued what does not fit, and the "
                "host of {} does not know",
                a.value, b.value, a.value);
        }
  }

  Random random_;
  int ranks_ = 0, threads_per_rank_ = 1;
  int hosts_ = 1, near_ = kNear, carries_ = 0;
  std::shared_ptr<PlainTexts> texts_ = std::make_shared<PlainTexts>(PlainTexts{""});
  std::deque<PlainWorld> worlds_;  // by host
  std::vector<int> host_of_;       // by rank
  std::vector<std::unique_ptr<PlainPosts>> posts_;
  std::vector<Issuer> issuers_;
  std::vector<Group> groups_;
  std::vector<std::vector<Thread>> threads_;  // by rank
  std::map<std::pair<int, std::uint64_t>, std::set<Rank>> handed_;
  std::vector<std::uint64_t> moves_;
  bool faulty_ = false, buffered_ = false;  // sends wait for nobody
  int ends_early_ = -1;
  std::size_t ends_before_ = 0;
  /// What a host sees of all ranks, and knows of those elsewhere.
  struct Look {
    Reading reading, draft;  // for itself, and for the next letter
    BlockedSeen seen;
    std::map<Rank, RankWaits> elsewhere;
    std::uint64_t mark = 0;
    /// The last mark of each other host, now and before the draft was begun.
    std::map<int, std::uint64_t> heard, heard_before;
  };
  std::vector<Look> looks_;  // by host
  std::map<std::pair<int, int>, std::deque<Letter>> letters_;
  std::set<std::tuple<int, std::uint64_t, Rank, Rank>> seen_by_;  // entries, by whom, of whom
  std::set<std::tuple<int, LineKey, std::uint64_t>> claimed_;     // waits
  RunOutcome outcome_;
};

}  // namespace

RunOutcome simulate(std::uint64_t seed, bool faulty, int hosts) {
  return Simulation(seed, faulty, hosts).run();
}

}  // namespace lockstep::tests
