#include <algorithm>
#include <map>

#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/recompile_advice.h>
#include <lockstep/worker/simulator/answers/call_replay.h>
#include <lockstep/worker/simulator/answers/replay.h>
#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/draw/json_document.h>
#include <lockstep/worker/simulator/input/joint_calls.h>

namespace lockstep::worker::simulator {
namespace {

std::vector<std::size_t> ranks_in(const RankSet& set) {
  std::vector<std::size_t> out;
  for (const Rank rank : set) out.push_back(static_cast<std::size_t>(rank.value));
  return out;
}

FoldedRounds rounds_of(std::size_t size) {
  std::vector<Unit> units;
  for (std::int32_t r = 0; r < static_cast<std::int32_t>(size); ++r) units.push_back({r, r});
  return {std::move(units), static_cast<int>(size)};
}

/// Replays the job, call by call.
class JobReplay {
 public:
  explicit JobReplay(const std::vector<RankRecord>& ranks)
      : ranks_(ranks), joint_(ranks), frames_(ranks.size()) {}

  Result<Replay> run(bool counterfactual) {
    out_.result.world_size = ranks_.front().header.world_size;
    for (const RankRecord& rank : ranks_)
      if (rank.truncated)
        out_.notes.push_back(rank.path + ": the last line was cut and is left out.");
    if (const auto columns = ranks_.front().header.columns; columns != kColumnsVersion)
      out_.notes.push_back(fmt::format(
          "{}: ranks sent version {} of their columns, which is {} here, so what they sent is not "
          "compared.",
          ranks_.front().path, columns, kColumnsVersion));
    for (std::size_t call = 0; call < joint_.size(); ++call) {
      auto difference = replay_call(call);
      if (!difference) return difference.error();
      if (*difference) {
        out_.difference = **difference;
        out_.frames = std::move(frames_.front());
        return std::move(out_);
      }
    }
    for (const auto& [group, rounds] : rounds_) {
      out_.result.rounds += rounds.rounds();
      out_.result.bytes_per_rank_max =
          std::max(out_.result.bytes_per_rank_max, rounds.bytes_per_rank_max());
    }
    out_.frames = std::move(frames_.front());
    if (!counterfactual) return std::move(out_);
    const Scenario inputs = scenario_of(ranks_);
    out_.result.uncoordinated = run_uncoordinated(inputs);
    if (auto wrong = inputs.error()) return *std::move(wrong);
    return std::move(out_);
  }

 private:
  Result<std::optional<Difference>> replay_call(std::size_t call) {
    const std::vector<std::size_t> members = ranks_in(joint_.members(call));
    const auto known = rounds_.find(joint_.group(call));
    FoldedRounds& rounds =
        known != rounds_.end()
            ? known->second
            : rounds_.emplace(joint_.group(call), rounds_of(members.size())).first->second;
    std::vector<std::optional<RecordedCall>> calls(members.size());
    std::vector<CallReplay::Member> seats;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const std::size_t r = members[i];
      if (const auto own = joint_.of(call, r)) {
        auto read = ranks_[r].calls.read(*own);
        if (!read) return read.error();
        calls[i] = *std::move(read);
      }
      seats.push_back({Rank{static_cast<std::int32_t>(r)}, &ranks_[r],
                       calls[i] ? &*calls[i] : nullptr, &frames_[r]});
    }
    if (auto altered = altered_observation(seats)) return altered;
    CallReplay replay(seats, ranks_.front().header.config, rounds, out_.traces);
    auto difference = replay.run();
    if (difference && !*difference) difference = other_outcome(replay, seats);
    if (difference && !*difference) add_result(replay, seats);
    return difference;
  }

  static Difference difference_at(const CallReplay::Member& seat, std::string recorded,
                                  std::string replayed) {
    return {.rank = seat.rank,
            .key = seat.call->key,
            .where = fmt::format("{}:{}", seat.record->path, seat.call->line),
            .recorded = std::move(recorded),
            .replayed = std::move(replayed)};
  }

  /// Finds an observation whose digest is not the one that the rank wrote.
  static std::optional<Difference> altered_observation(
      const std::vector<CallReplay::Member>& seats) {
    for (const CallReplay::Member& seat : seats) {
      if (seat.call == nullptr || !seat.call->seen) continue;
      const shapes::Fingerprint found = observation_digest(seat.call->observation);
      if (found != *seat.call->seen)
        return difference_at(seat, "observation " + seat.call->seen->text(),
                             "observation " + found.text());
    }
    return std::nullopt;
  }

  static std::optional<Difference> other_outcome(const CallReplay& replay,
                                                 const std::vector<CallReplay::Member>& seats) {
    for (std::size_t i = 0; i < seats.size(); ++i) {
      if (seats[i].call == nullptr || !seats[i].call->outcome) continue;
      const auto outcome = replay.outcome(i);
      if (!outcome) continue;
      const std::string recorded = outcome_text(*seats[i].call->outcome);
      const std::string replayed = outcome_text(*outcome);
      if (recorded != replayed) return difference_at(seats[i], recorded, replayed);
    }
    return std::nullopt;
  }

  /// Decision of entry `entry` on each rank that finished the call.
  static HeldDecisions held_by(const CallReplay& replay,
                               const std::vector<CallReplay::Member>& seats,
                               const std::pair<std::string, std::string>& at, std::size_t entry) {
    HeldDecisions out;
    for (std::size_t i = 0; i < seats.size(); ++i)
      if (seats[i].call != nullptr && replay.outcome(i))
        out.emplace_back(RankSet::of(seats[i].rank),
                         &seats[i].frames->at(at).entries.at(entry).decision);
    return out;
  }

  void add_advice(const std::string& frame, const std::vector<Entry>& entries) {
    for (const std::string& advice : recompile_advice(entries)) {
      std::string line = fmt::format("{}: {}", frame, advice);
      if (std::ranges::find(out_.advice, line) == out_.advice.end())
        out_.advice.push_back(std::move(line));
    }
  }

  /// Adds the result of the lowest rank that finished the call.
  void add_result(const CallReplay& replay, const std::vector<CallReplay::Member>& seats) {
    CallResult result;
    for (std::size_t i = 0; i < seats.size(); ++i) {
      if (seats[i].call == nullptr) continue;
      const auto outcome = replay.outcome(i);
      if (!outcome) {
        out_.notes.push_back(fmt::format("{}:{}: the record ends within {}.", seats[i].record->path,
                                         seats[i].call->line, seats[i].call->key.text()));
        continue;
      }
      const std::string& frame = seats[i].call->frame;
      const std::pair at{seats[i].call->key.group, frame};
      result.outcome = *outcome;
      if (!outcome->error || outcome->error->code != Code::FrameMismatch) result.frame = frame;
      if (outcome->kind == CallOutcome::Kind::Compiled) {
        const auto entry = static_cast<std::size_t>(outcome->entry);
        add_advice(frame, seats[i].frames->at(at).entries);
        result.reported = seats[i].frames->at(at).entries[entry].reported;
        const DecisionConfig config =
            seats[i].call->own_config.value_or(ranks_.front().header.config);
        if (seats[i].call->key.consistency.value_or(config.consistency) == Consistency::SharedSizes)
          result.own = own_decisions(held_by(replay, seats, at, entry));
      }
      break;
    }
    if (result.outcome.kind == CallOutcome::Kind::Error && !result.outcome.error)
      result.outcome.error =
          Status{Code::RankLost, "the record ends within this call on every rank that made it"};
    out_.result.calls.push_back(std::move(result));
  }

  const std::vector<RankRecord>& ranks_;
  JointCalls joint_;
  std::vector<FramesOfRank> frames_;            // per rank
  std::map<std::string, FoldedRounds> rounds_;  // per group
  Replay out_;
};

}  // namespace

std::string Difference::text() const {
  return fmt::format(
      "rank {}, {}: the record has {} and the replay {} ({}); the record was written "
      "by another build or altered since, or a decision depended on more than what ranks exchange.",
      rank.value, key.text(), in_quotes(recorded), in_quotes(replayed), where);
}

Result<Replay> replay(const std::vector<RankRecord>& ranks, bool counterfactual) {
  return JobReplay(ranks).run(counterfactual);
}

Scenario scenario_of(const std::vector<RankRecord>& ranks) {
  Scenario out;
  out.world_size = ranks.front().header.world_size;
  out.config = ranks.front().header.config;
  for (const RankRecord& rank : ranks)
    out.own_configs.insert(rank.own_configs.begin(), rank.own_configs.end());
  out.stored = std::make_shared<RecordedCalls>(ranks);
  return out;
}

}  // namespace lockstep::worker::simulator
