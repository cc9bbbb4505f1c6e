#include <algorithm>
#include <atomic>

#include <lockstep/worker/agree/agreement/rank_table.h>
#include <lockstep/worker/agree/exchange/conflict.h>
#include <lockstep/worker/agree/exchange/hints.h>
#include <lockstep/worker/simulator/cluster/streamed_executor.h>
#include <lockstep/worker/simulator/draw/parallel.h>

namespace lockstep::worker::simulator {
namespace {

using collectives::Combine;
using collectives::Vote;

/// True if `join` is `function`, which identifies the exchange.
bool joins_by(const collectives::Join& join,
              Bytes (*function)(std::span<const std::byte>, std::span<const std::byte>)) {
  const auto* target = join.target<decltype(function)>();
  return target != nullptr && *target == function;
}

/// Returns the entries that fit whatever is drawn. An entry requires a range per value. Guards may
/// require more, so if any entry has guards (in a dry run none has, unless traces are known), no
/// entry is sure to fit.
std::uint64_t sure_to_fit(const CodeCache& frame, const RankInputs& inputs) {
  for (const Entry& entry : frame.entries)
    if (!entry.guards.empty() || !entry.group_guards.empty() || !entry.uniform.empty()) return 0;
  return frame.lookup(inputs.least()) & frame.lookup(inputs.greatest());
}

template <class T>
const T& asked(const CallMachine& machine) {
  return std::get<T>(machine.next());
}

}  // namespace

/// One call: the rounds of its machines, over all ranks.
class StreamedExecutor::Call {
 public:
  Call(StreamedExecutor& executor, Machines machines, const RankInputs* inputs)
      : executor_(executor), machines_(machines), inputs_(inputs) {}

  /// Returns nullopt if the machines ask for something else than their ranks' inputs lead to.
  std::optional<RoundResult> round() {
    const Action& first = machines_[0]->next();
    if (std::holds_alternative<action::Vote>(first)) return vote();
    if (std::holds_alternative<action::TreeJoin>(first)) return tree_join();
    if (std::holds_alternative<action::Broadcast>(first)) return broadcast();
    return std::nullopt;
  }

 private:
  std::optional<RoundResult> vote() {
    const Combine combine = asked<action::Vote>(*machines_[0]).combine;
    Vote all = joint_vote(machines_);
    if (inputs_ != nullptr && !voted_) {
      all.words[0] = entries_that_fit(all.words[0]);
      join_uniform_sizes(all);
    }
    if (inputs_ != nullptr && combine == Combine::Min) {
      if (!joint_ || known_donor(decided())) return std::nullopt;
      all.words[0] = lowest_donor();
    }
    voted_ = true;
    executor_.rounds_.voted();
    if (executor_.clock_ != nullptr) executor_.clock_->vote();
    return all;
  }

  std::optional<RoundResult> tree_join() {
    const auto& asked_first = asked<action::TreeJoin>(*machines_[0]);
    const collectives::Join& join = asked_first.join;
    if (inputs_ == nullptr || joins_by(join, join_rosters)) return exchange_of_units(join);
    if (joins_by(join, join_columns)) {
      if (asked_first.mine != list_payload(inputs_->like())) return std::nullopt;
      Bytes joined = tree_join([&](Rank rank) { return list_payload(seen_by(rank)); }, join,
                               [alike = inputs_->alike()](std::int32_t low, std::int32_t high) {
                                 return low / alike == high / alike;
                               });
      if (!learn(joined)) return std::nullopt;
      return joined;
    }
    if (!joint_) return std::nullopt;
    const auto conflict = find_conflict(*joint_, executor_.config_);
    if (!conflict ||
        asked_first.mine != rank_table_payload(machines_[0]->rank_status().speaks_for,
                                               conflict_value(*conflict, inputs_->like())))
      return std::nullopt;
    return tree_join(
        [&](Rank rank) {
          return rank_table_payload(rank, conflict_value(*conflict, seen_by(rank)));
        },
        join, [](std::int32_t low, std::int32_t high) { return low == high; });
  }

  Bytes tree_join(const RankRounds::Payload& payload, const collectives::Join& join,
                  const RankRounds::Same& same) {
    RunClock* clock = executor_.clock_;
    TreeBytes sent;
    Bytes joined =
        executor_.rounds_.tree_join(payload, join, same, clock != nullptr ? &sent : nullptr);
    if (clock != nullptr) clock->tree_join(sent);
    return joined;
  }

  Bytes exchange_of_units(const collectives::Join& join) {
    return tree_join(
        [&](Rank rank) { return asked<action::TreeJoin>(*machines_[unit_of(rank)]).mine; }, join,
        [&](std::int32_t low, std::int32_t high) {
          return unit_of(Rank{low}) == unit_of(Rank{high});
        });
  }

  Bytes broadcast() {
    const Rank root = asked<action::Broadcast>(*machines_[0]).root;
    Bytes payload = inputs_ != nullptr && joint_
                        ? encode_hints(decided(), seen_by(root))
                        : asked<action::Broadcast>(*machines_[unit_of(root)]).mine;
    executor_.rounds_.broadcast(root, payload.size());
    if (executor_.clock_ != nullptr) executor_.clock_->broadcast(root, payload.size());
    return payload;
  }

  /// Returns the entries that fit on all ranks; `first` fit on the machines' own ranks. An
  /// entry that fits the least and the greatest values that can be drawn fits every rank. Once only
  /// such entries are left, no more values are drawn.
  std::uint64_t entries_that_fit(std::uint64_t first) {
    std::uint64_t sure = Vote::kOnes;
    for (const auto& machine : machines_) sure &= sure_to_fit(machine->cache(), *inputs_);
    std::atomic<std::uint64_t> all{first};
    const std::vector<Unit> shares = shares_of(executor_.size_);
    in_parallel(first == sure ? 0 : shares.size(), [&](std::size_t i) {
      Observation seen = inputs_->like();
      std::uint64_t mask = all.load();
      for (std::int32_t r = shares[i].first; r <= shares[i].last && mask != sure;) {
        const std::size_t unit = unit_of(Rank{r});
        const std::int32_t end = std::min(shares[i].last, executor_.units_[unit].last);
        for (; r <= end && mask != sure; r = next_other(r, end)) {
          inputs_->fill(r, seen);
          mask &= machines_[unit]->cache().lookup(seen);
        }
      }
      all &= mask;
    });
    return all;
  }

  /// Joins the ranks' sizes of dims marked uniform into the vote.
  void join_uniform_sizes(Vote& all) {
    const std::vector<Mark>& marks = inputs_->like().marks;
    if (std::ranges::find(marks, Mark::Uniform) == marks.end()) return;
    std::atomic<std::uint64_t> state{all.words[3]}, complement{all.words[4]};
    const std::vector<Unit> shares = shares_of(executor_.size_);
    in_parallel(shares.size(), [&](std::size_t i) {
      Observation seen = inputs_->like();
      for (std::int32_t r = shares[i].first; r <= shares[i].last;
           r = next_other(r, shares[i].last)) {
        inputs_->fill(r, seen);
        const auto& machine = machines_[unit_of(Rank{r})];
        const std::uint64_t mine = asked<action::Vote>(*machine).mine.words[3] ^
                                   machine->cache().uniform_digest(machine->observation()) ^
                                   machine->cache().uniform_digest(seen);
        state &= mine;
        complement &= ~mine;
      }
    });
    all.words[3] = state;
    all.words[4] = complement;
  }

  /// Returns the first rank after r that may have other values, at most end + 1.
  [[nodiscard]] std::int32_t next_other(std::int32_t r, std::int32_t end) const {
    const std::int64_t alike = inputs_->alike();
    return static_cast<std::int32_t>(std::min<std::int64_t>((r / alike + 1) * alike, end + 1));
  }

  /// Returns the lowest rank that can give the hints: its sizes of all symbols are at least 2 (as
  /// in qualifies_as_donor). All ones if there is no such rank.
  std::uint64_t lowest_donor() {
    std::vector<std::size_t> sizes;
    const SourceList& list = *inputs_->like().list;
    for (const JointSymbol& symbol : joint_symbols(decided()))
      if (symbol.dim) sizes.push_back(list.offsets()[symbol.source] + *symbol.dim);
    std::atomic<std::int32_t> lowest{INT32_MAX};
    const std::vector<Unit> shares = shares_of(executor_.size_);
    in_parallel(shares.size(), [&](std::size_t i) {
      Observation seen = inputs_->like();
      for (std::int32_t r = shares[i].first; r <= shares[i].last && r < lowest;
           r = next_other(r, shares[i].last)) {
        inputs_->fill(r, seen);
        if (std::any_of(sizes.begin(), sizes.end(),
                        [&](std::size_t at) { return seen.values[at] < 2; }))
          continue;
        std::int32_t known = lowest;
        while (r < known && !lowest.compare_exchange_weak(known, r)) {
        }
      }
    });
    return lowest == INT32_MAX ? Vote::kOnes : static_cast<std::uint64_t>(lowest.load());
  }

  /// Keeps the joint observation for the rounds that depend on it. False if it cannot be read.
  bool learn(const Bytes& joined) {
    const FrameState& state = machines_[0]->cache().state;
    joint_ = read_list_payload(joined, inputs_->like().list,
                               executor_.config_.automatic_dynamic ? &state : nullptr);
    return joint_.has_value();
  }

  /// Returns the joint observation on which the machines decide.
  const JointObservation& decided() {
    joint_->settle(machines_[0]->settling(), executor_.config_.specialize_int);
    return *joint_;
  }

  [[nodiscard]] Observation seen_by(Rank rank) const {
    Observation seen = inputs_->like();
    inputs_->fill(rank.value, seen);
    return seen;
  }
  [[nodiscard]] std::size_t unit_of(Rank rank) const {
    return simulator::unit_of(executor_.units_, rank);
  }

  StreamedExecutor& executor_;
  Machines machines_;
  const RankInputs* inputs_;
  bool voted_ = false;
  std::optional<JointObservation> joint_;
};

StreamedExecutor::StreamedExecutor(std::vector<Unit> units, int size, const DecisionConfig& config)
    : units_(std::move(units)), size_(size), config_(config), rounds_(size) {}

void StreamedExecutor::run(Machines machines, const Status& absent) {
  run(machines, nullptr, absent);
}
void StreamedExecutor::run(Machines machines, const RankInputs& inputs, const Status& absent) {
  run(machines, &inputs, absent);
}

void StreamedExecutor::run(Machines machines, const RankInputs* inputs, const Status& absent) {
  Call call(*this, machines, inputs);
  run_together(machines, absent, [&] { return call.round(); });
}

}  // namespace lockstep::worker::simulator
