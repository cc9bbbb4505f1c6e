#include "check.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

namespace lockstep::fuzz {
namespace {

using worker::CallOutcome;
using worker::Consistency;

/// The records of one operation of one group, one per rank that saw it end.
using Operation = std::vector<const Ended*>;
using Operations = std::map<std::pair<std::size_t, std::uint64_t>, Operation>;  // group, ordinal

/// Of one call: names and states that differ, the exchange, the hints.
constexpr std::uint64_t kMostPayloads = 3 + 3 + 1;

std::string seen(const Ended& one) {
  return fmt::format("rank {}: {} (graph {}, past {:x})", one.rank, outcome_text(one.outcome),
                     one.graph.text().substr(0, 6), one.past);
}

std::string seen(const Operation& operation) {
  std::string text =
      fmt::format("operation {} of group {}:", operation[0]->ordinal, operation[0]->group);
  for (const Ended* one : operation) text += "\n  " + seen(*one);
  return text;
}

/// The ranks that a verdict of the watch blames: the message begins with them. nullopt: it blames
/// nobody in particular.
std::optional<RankSet> blamed(const Status& status, int world) {
  const std::size_t from = status.message.starts_with("Ranks ") ? 6 : 5;
  if (!status.message.starts_with("Rank")) return std::nullopt;
  std::string error;
  return worker::simulator::parse_ranks(
      status.message.substr(from, status.message.find(' ', from) - from), world, error);
}

/// The ranks that the table of a verdict shows as suspended.
RankSet suspended(const Status& status) {
  RankSet out;
  for (const RankValue& group : status.groups)
    if (group.value.starts_with("its process is stopped")) out.insert(group.ranks);
  return out;
}

class Check {
 public:
  Check(const Program& program, const Run& run) : program_(program), run_(run) {
    for (const Ended& one : run.ended) {
      if (one.transport)
        given_up_.push_back(&one);
      else
        operations_[{one.group, one.ordinal}].push_back(&one);
      ++ends_[one.rank];
      if (one.outcome.error && one.outcome.error->code == Code::Gone)
        left_.insert(RankSet::of(Rank{one.rank}));
    }
  }

  std::optional<Violation> violation() {
    cost();
    waits();
    for (const auto& [key, operation] : operations_) {
      alike(operation);
      errors(operation);
      entries(operation);
    }
    return std::move(violation_);
  }

 private:
  void expect(bool holds, const char* invariant, const auto& text) {
    if (!holds && !violation_) violation_ = Violation{invariant, text()};
  }

  void cost() {
    expect(run_.most_in_vote == 0, "I5",
           [&] { return fmt::format("{} messages received in one vote", run_.most_in_vote); });
    expect(run_.most_in_exchange <= 3, "I5",
           [&] { return fmt::format("{} payloads received in one tree", run_.most_in_exchange); });
    expect(run_.longest_vote == 64 && run_.shortest_vote == 64, "I5",
           [&] { return fmt::format("a vote of {} bytes", run_.longest_vote); });
  }

  void waits() {
    expect(!run_.endless, "I3", [&] { return fmt::format("{} events and no end", run_.events); });
    for (const int rank : run_.waiting)
      expect(run_.taken_out.contains(Rank{rank}), "I3",
             [&] { return fmt::format("rank {} waits for ever", rank); });
    const bool early = program_.ends_early();
    for (const Ended* one : given_up_) {
      expect(early, "I3", [&] { return "without a cause, " + seen(*one); });
      blame(*one);
    }
    if (early) return;
    std::map<int, std::uint64_t> due;
    for (int r = 0; r < program_.ranks; ++r) due[r] = 1;
    for (const Step& step : program_.steps)
      for (auto& [rank, count] : due)
        if (program_.groups[step.group].members.contains(Rank{rank})) ++count;
    for (const auto& [rank, count] : due)
      expect(ends_[rank] == count, "I3", [&, rank = rank, count = count] {
        return fmt::format("rank {} ended {} of {} operations", rank, ends_[rank], count);
      });
  }

  /// One verdict for all, and it names nobody who was there.
  void blame(const Ended& one) {
    if (!one.outcome.error) return;
    const Status& error = *one.outcome.error;
    expect(error.code == Code::Stuck || error.code == Code::RankLost, "I3",
           [&] { return "no verdict of the watch: " + seen(one); });
    expect(error == *given_up_[0]->outcome.error, "I3",
           [&] { return "another verdict than the first: " + seen(one); });
    if (program_.strikes(Fault::Kind::Skip)) return;  // Then anybody may wait for anybody.
    const auto ranks = blamed(error, program_.ranks);
    RankSet guilty = run_.taken_out;
    guilty.insert(left_);
    // Which of several ranks that are suspended when the verdict falls would have gone on, no board
    // tells: they are named together.
    expect(ranks && !guilty.empty() && ranks->minus(guilty).minus(suspended(error)).empty() &&
               ranks->minus(guilty) != *ranks,
           "I3",
           [&] { return fmt::format("blames others than {}: {}", guilty.text(), seen(one)); });
  }

  void alike(const Operation& operation) {
    const Ended& first = *operation[0];
    const GroupPlan& group = program_.groups[first.group];
    for (const Ended* one : operation) {
      expect(one->outcome.kind == first.outcome.kind && one->outcome.entry == first.outcome.entry &&
                 one->outcome.error == first.outcome.error,
             "I1", [&] { return seen(operation); });
      if (first.outcome.error || group.config.consistency != Consistency::SameGraph) continue;
      expect(one->graph == first.graph, "I1", [&] { return seen(operation); });
    }
  }

  void errors(const Operation& operation) {
    const Ended& first = *operation[0];
    std::vector<const Ended*> struck;
    bool told = true;  // nothing has happened that this check cannot foresee
    for (const Ended* one : operation)
      if (one->struck) struck.push_back(one);
    for (const Fault& fault : program_.faults)
      told &= fault.kind != Fault::Kind::Garbled && fault.kind != Fault::Kind::LostCache &&
              fault.kind != Fault::Kind::Skip && fault.kind != Fault::Kind::IgnoresCommit;
    if (!told) return;
    if (struck.empty()) return expect_no_error(operation);
    expect(first.outcome.error.has_value(), "I6",
           [&] { return fmt::format("rank {} failed, ", struck[0]->rank) + seen(operation); });
    if (!first.outcome.error) return;
    const bool known =
        untold(operation) || std::any_of(struck.begin(), struck.end(), [&](const Ended* one) {
          return *one->struck == first.outcome.error->code;
        });
    expect(known, "I6", [&] { return "an error of another kind, " + seen(operation); });
    for (const Ended* one : struck)
      expect(in_table(*first.outcome.error, *one), "I6", [&] {
        return fmt::format("rank {} is not in the table, ", one->rank) + seen(operation);
      });
  }

  /// A fault may have struck a rank that did not live to tell.
  [[nodiscard]] bool untold(const Operation& operation) const {
    const auto members = program_.groups[operation[0]->group].members.size();
    return program_.ends_early() && static_cast<std::int64_t>(operation.size()) < members;
  }

  [[nodiscard]] static bool in_table(const Status& error, const Ended& one) {
    return std::any_of(error.groups.begin(), error.groups.end(), [&](const RankValue& group) {
      return group.ranks.contains(Rank{one.rank});
    });
  }

  /// Only inputs and branches make errors of their own.
  void expect_no_error(const Operation& operation) {
    const Ended& first = *operation[0];
    if (!first.outcome.error) return;
    const GroupPlan& group = program_.groups[first.group];
    const Code code = first.outcome.error->code;
    const bool of_inputs = code >= Code::SourceMismatch && code <= Code::ConstraintViolation;
    expect(of_inputs || untold(operation) || (code == Code::BranchDivergence && group.branches),
           "I6", [&] { return "an error without a cause, " + seen(operation); });
  }

  void entries(const Operation& operation) {
    const Ended& first = *operation[0];
    const GroupPlan& group = program_.groups[first.group];
    if (program_.strikes(Fault::Kind::Garbled) || program_.strikes(Fault::Kind::LostCache)) return;
    for (const Ended* one : operation) {
      expect(one->fits, "I1", [&] { return "an entry that does not fit: " + seen(*one); });
      expect(one->live <= group.config.recompile_limit, "I1",
             [&] { return fmt::format("{} entries, ", one->live) + seen(*one); });
      expect(first.outcome.error || one->past == first.past, "I1",
             [&] { return "different pasts, " + seen(operation); });
      expect(one->outcome.error || one->payloads <= kMostPayloads, "I5",
             [&] { return fmt::format("{} payloads in one call, ", one->payloads) + seen(*one); });
    }
  }

  const Program& program_;
  const Run& run_;
  Operations operations_;
  std::vector<const Ended*> given_up_;
  std::map<int, std::uint64_t> ends_;  // per rank
  RankSet left_;                       // ranks that left because another one did
  std::optional<Violation> violation_;
};

std::string told(const Ended& one) {
  return fmt::format("{} graph {} past {:x}", outcome_text(one.outcome), one.graph.text(),
                     one.past);
}

}  // namespace

std::optional<Violation> check(const Program& program, const Run& run) {
  return Check(program, run).violation();
}

std::optional<Violation> check_same(const Run& a, const Run& b) {
  using Key = std::tuple<int, std::size_t, std::uint64_t>;
  const auto by_key = [](const Run& run) {
    std::map<Key, const Ended*> out;
    for (const Ended& one : run.ended) out[{one.rank, one.group, one.ordinal}] = &one;
    return out;
  };
  const auto first = by_key(a), second = by_key(b);
  if (first.size() != second.size()) return Violation{"I2", "other delays, other ends"};
  for (auto i = first.begin(), j = second.begin(); i != first.end(); ++i, ++j)
    if (i->first != j->first || told(*i->second) != told(*j->second))
      return Violation{"I2",
                       "other delays: " + seen(*i->second) + "\n  became " + seen(*j->second)};
  return std::nullopt;
}

Verdict examine(const Program& program, std::uint64_t seed) {
  Verdict verdict;
  verdict.run = run(program, {.network_seed = seed});
  verdict.violation = check(program, verdict.run);
  if (verdict.violation) return verdict;
  if (program.ends_early()) {
    if (run(program, {.network_seed = seed}).digest() != verdict.run.digest())
      verdict.violation = Violation{"replay", "the same seed ran differently"};
    return verdict;
  }
  const Run other = run(program, {.network_seed = ~seed});
  verdict.violation = check(program, other);
  if (!verdict.violation) verdict.violation = check_same(verdict.run, other);
  const bool plain = program.faults.empty() &&
                     std::none_of(program.groups.begin(), program.groups.end(),
                                  [](const GroupPlan& g) { return g.branches || g.asks; });
  if (!plain || verdict.violation) return verdict;
  verdict.oracle = true;
  verdict.violation = check_oracle(program, verdict.run);
  return verdict;
}

}  // namespace lockstep::fuzz
