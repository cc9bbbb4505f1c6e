// Folding. A vote is an AND (or minimum) and an exchange an idempotent join, so equal ranks count
// once: the result needs one machine per run of equal ranks. What a rank receives is a function of
// its place: of the vote's schedule and, in the ordered tree, of the payloads of its two subtrees.
// A subtree that lies within one unit sends what the unit's machine sends; so only ranks whose
// subtree spans several units are looked at one by one, and of all others the one per unit with
// most.
#include <algorithm>
#include <set>

#include <lockstep/worker/simulator/group.h>

namespace lockstep::worker::simulator {
namespace {

using collectives::TreePlace;
using collectives::Vote;
using collectives::VoteRound;

/// Messages that `self` receives in a vote.
std::uint64_t vote_messages(Rank self, int size) {
  VoteRound round(self, size, Vote{});
  const Vote other;
  std::uint64_t count = 0;
  for (;;) {
    switch (round.want().need) {
      case collectives::Round::Need::Done:
        return count;
      case collectives::Round::Need::Send:
        round.sent();
        break;
      default:
        ++count;
        round.received(std::as_bytes(std::span(other.words)));
    }
  }
}

/// A rank whose received bytes are counted.
struct Counted {
  std::int32_t rank = 0;
  std::uint64_t vote_messages = 0;
  bool has_parent = false;
  std::uint64_t received = 0;
};

/// A rank whose subtree spans several units.
struct Joint {
  struct Child {
    enum class Kind { None, Whole, Spanning } kind = Kind::None;
    std::size_t index = 0;  // Whole: the unit; Spanning: index into the list of Joints
  };
  std::size_t unit = 0, counted = 0;
  Child left, right;
};

/// Any other rank: its children, if any, send what its unit sends.
struct Plain {
  std::size_t unit = 0, counted = 0;
  std::uint64_t children = 0;
};

class FoldedGroup final : public Group {
 public:
  FoldedGroup(std::vector<Unit> units, int size) : units_(std::move(units)), size_(size) {
    std::int32_t root = 0;
    while (const auto parent = TreePlace::of(Rank{root}, size_).parent) root = parent->value;
    if (spans(0, size_ - 1)) (void)add_joint(root, 0, size_ - 1);
    for (std::size_t i = 0; i < units_.size(); ++i) add_plain(i);
  }

  void run(Machines machines, Local& local, const Status& absent) override {
    if (std::any_of(machines.begin(), machines.end(), [](const auto& m) { return !m; })) {
      for (std::size_t i = 0; i < machines.size(); ++i) {
        if (!machines[i]) continue;
        (void)answer_locally(*machines[i], i, local);
        machines[i]->failed(absent);
        local.asked(i, machines[i]->next());
      }
      return;
    }
    for (;;) {
      std::size_t waiting = 0;
      for (std::size_t i = 0; i < machines.size(); ++i)
        waiting += answer_locally(*machines[i], i, local) ? 1 : 0;
      if (waiting == 0) return;
      if (waiting < machines.size() || !round(machines)) return break_off(machines, local);
    }
  }

  [[nodiscard]] std::uint64_t bytes_per_rank_max() const override {
    std::uint64_t most = 0;
    for (const Counted& rank : counted_) most = std::max(most, rank.received);
    return most;
  }
  [[nodiscard]] std::uint64_t rounds() const override { return rounds_; }

 private:
  [[nodiscard]] std::size_t unit_of(std::int32_t rank) const {
    const auto it = std::lower_bound(units_.begin(), units_.end(), rank,
                                     [](const Unit& u, std::int32_t r) { return u.last < r; });
    return static_cast<std::size_t>(it - units_.begin());
  }
  [[nodiscard]] bool spans(std::int32_t low, std::int32_t high) const {
    return units_[unit_of(low)].last < high;
  }

  std::size_t count(std::int32_t rank) {
    counted_.push_back({rank, vote_messages(Rank{rank}, size_),
                        TreePlace::of(Rank{rank}, size_).parent.has_value(), 0});
    return counted_.size() - 1;
  }

  /// The tree below `rank`, which spans low to high and so several units. Returns its index.
  std::size_t add_joint(std::int32_t rank, std::int32_t low, std::int32_t high) {
    const TreePlace place = TreePlace::of(Rank{rank}, size_);
    Joint joint{.unit = unit_of(rank), .counted = count(rank), .left = {}, .right = {}};
    if (place.left) joint.left = child(place.left->value, low, rank - 1);
    if (place.right) joint.right = child(place.right->value, rank + 1, high);
    spanning_.insert(rank);
    joints_.push_back(joint);
    return joints_.size() - 1;
  }
  Joint::Child child(std::int32_t rank, std::int32_t low, std::int32_t high) {
    if (!spans(low, high)) return {Joint::Child::Kind::Whole, unit_of(low)};
    return {Joint::Child::Kind::Spanning, add_joint(rank, low, high)};
  }

  /// Of the unit's ranks that span nothing, those with most to receive: the first rank (it may be
  /// the root of a broadcast) and, for each number of vote messages, one with most children.
  void add_plain(std::size_t unit) {
    const auto [first, last] = units_[unit];
    std::int32_t core = 1;
    while (core <= size_ / 2) core *= 2;
    for (const auto& [low, high] : {std::pair{first, first},
                                    {first + 1, std::min(last, size_ - core - 1)},
                                    {std::max(first + 1, size_ - core), std::min(last, core - 1)},
                                    {std::max(first + 1, core), last}}) {
      std::optional<std::pair<std::int32_t, std::uint64_t>> best;
      for (std::int32_t r = low; r <= high && (!best || best->second < 2); ++r) {
        if (spanning_.count(r) > 0) continue;
        const TreePlace place = TreePlace::of(Rank{r}, size_);
        const std::uint64_t children = (place.left ? 1U : 0U) + (place.right ? 1U : 0U);
        if (!best || best->second < children) best = {r, children};
      }
      if (best) plains_.push_back({unit, count(best->first), best->second});
    }
  }

  /// One round of all machines; false where they do not ask for the same kind.
  bool round(Machines machines) {
    const std::size_t kind = machines[0]->next().index();
    for (const auto& machine : machines)
      if (machine->next().index() != kind) return false;
    ++rounds_;
    if (std::holds_alternative<action::Vote>(machines[0]->next()))
      vote(machines);
    else if (std::holds_alternative<action::Exchange>(machines[0]->next()))
      exchange(machines);
    else
      broadcast(machines);
    return true;
  }

  void vote(Machines machines) {
    const auto combine = std::get<action::Vote>(machines[0]->next()).combine;
    Vote all;
    for (const auto& machine : machines) {
      const Vote& mine = std::get<action::Vote>(machine->next()).mine;
      for (std::size_t w = 0; w < all.words.size(); ++w)
        all.words[w] = combine == collectives::Combine::And ? all.words[w] & mine.words[w]
                                                            : std::min(all.words[w], mine.words[w]);
    }
    for (Counted& rank : counted_) rank.received += rank.vote_messages * sizeof(Vote);
    for (const auto& machine : machines) machine->voted(all);
  }

  void exchange(Machines machines) {
    const auto& first = std::get<action::Exchange>(machines[0]->next());
    std::vector<Bytes> joined(joints_.size());
    for (std::size_t j = 0; j < joints_.size(); ++j) {
      // Children come before their parents in the list; lower ranks are joined from the left.
      const Joint& joint = joints_[j];
      Bytes payload = std::get<action::Exchange>(machines[joint.unit]->next()).mine;
      for (const auto* child : {&joint.left, &joint.right}) {
        if (child->kind == Joint::Child::Kind::None) continue;
        const Bytes& theirs = child->kind == Joint::Child::Kind::Spanning
                                  ? joined[child->index]
                                  : std::get<action::Exchange>(machines[child->index]->next()).mine;
        counted_[joint.counted].received += theirs.size();
        payload = child == &joint.left ? first.join(theirs, payload) : first.join(payload, theirs);
      }
      joined[j] = std::move(payload);
    }
    const Bytes result = joints_.empty() ? first.mine : std::move(joined.back());
    for (const Plain& plain : plains_)
      counted_[plain.counted].received +=
          plain.children * std::get<action::Exchange>(machines[plain.unit]->next()).mine.size();
    for (Counted& rank : counted_)
      if (rank.has_parent) rank.received += result.size();
    for (const auto& machine : machines) machine->joined(result);
  }

  void broadcast(Machines machines) {
    const auto& first = std::get<action::Broadcast>(machines[0]->next());
    const std::int32_t root = first.root.value;
    const std::size_t giver = unit_of(root);
    const Bytes payload = std::get<action::Broadcast>(machines[giver]->next()).mine;
    for (Counted& rank : counted_)
      if (rank.rank != root) rank.received += payload.size();
    for (const auto& machine : machines) machine->joined(payload);
  }

  void break_off(Machines machines, Local& local) {
    const Status bug{Code::Internal,
                     "the simulated ranks asked for different rounds; this is a bug of lockstep, "
                     "please report it with the scenario or record",
                     {},
                     {}};
    for (std::size_t i = 0; i < machines.size(); ++i) {
      machines[i]->failed(bug);
      local.asked(i, machines[i]->next());
    }
  }

  std::vector<Unit> units_;
  int size_;
  std::vector<Counted> counted_;
  std::vector<Joint> joints_;
  std::vector<Plain> plains_;
  std::set<std::int32_t> spanning_;
  std::uint64_t rounds_ = 0;
};

}  // namespace

std::unique_ptr<Group> folded_group(std::vector<Unit> units, int size) {
  return std::make_unique<FoldedGroup>(std::move(units), size);
}

}  // namespace lockstep::worker::simulator
