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
  Check(const Program& program, const Run& run)
      : program_(program), run_(run), strays_(program.strays()) {
    for (const Ended& one : run.ended) {
      if (one.transport)
        given_up_.push_back(&one);
      else if (!strays_)
        operations_[{one.group, one.ordinal}].push_back(&one);
      ++ends_[one.rank];
      last_[one.rank] = &one;
      if (one.outcome.error && one.outcome.error->code == Code::Gone)
        left_.insert(RankSet::of(Rank{one.rank}));
    }
  }

  std::optional<Violation> violation() {
    cost();
    waits();
    builds();
    expect(!run_.audit_changes, "audit", [] { return std::string("an audit changed a frame"); });
    expect(run_.not_local == 0, "local", [&] {
      return fmt::format("{} calls made alone went wrong, or had traffic", run_.not_local);
    });
    if (strays_) strayed();
    std::optional<std::pair<std::size_t, std::uint64_t>> apart;  // group and epoch
    for (const auto& [key, operation] : operations_) {
      const std::pair epoch{key.first, key.second >> 32};
      if (apart != epoch && resync_took_in(operation)) apart = epoch;
      if (apart == epoch) continue;
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
    if (!early) program_ended();
  }

  /// Every unit is built once for a call, and nothing else is loaded.
  void builds() {
    expect(run_.wrong_objects == 0, "I7",
           [&] { return fmt::format("{} objects that no compiler made", run_.wrong_objects); });
    for (const auto& [call, objects] : run_.built)
      for (const auto& [object, times] : objects)
        expect(times == 1, "once", [&, &what = object, &n = times] {
          return fmt::format("built {} times: {}", n, what);
        });
  }

  /// Nothing takes a rank out of the job: all come to its end.
  void program_ended() {
    // A garbled report may read as that of a rank that leaves: then all take leave by it, alike.
    const auto read_as_last = [](const Ended& one) {
      return one.garbled && one.outcome.error && one.outcome.error->code == Code::Gone;
    };
    if (std::any_of(run_.ended.begin(), run_.ended.end(), read_as_last)) return;
    std::map<int, std::uint64_t> due;
    for (int r = 0; r < program_.ranks; ++r) due[r] = program_.hosts.empty() ? 1 : 2;
    for (const Step& step : program_.steps)
      for (auto& [rank, count] : due)
        if (program_.groups[step.group].members.contains(Rank{rank})) count += operations_of(step);
    for (const auto& [rank, count] : due) {
      const auto ended = last_.find(rank);
      expect(ended != last_.end() && ended->second->step == program_.steps.size(), "I3",
             [&, rank = rank] { return fmt::format("rank {} does not come to the end", rank); });
      if (!program_.recovers)
        expect(ends_[rank] == count, "I3", [&, rank = rank, count = count] {
          return fmt::format("rank {} ended {} of {} operations", rank, ends_[rank], count);
        });
      else if (ended != last_.end())
        expect(!ended->second->outcome.error ||
                   ended->second->outcome.error->code != Code::FrameMismatch,
               "I3", [&, one = ended->second] { return "out of step for good, " + seen(*one); });
    }
  }

  static std::uint64_t operations_of(const Step& step) {
    if (step.kind == Step::Kind::Local) return 0;
    if (step.kind != Step::Kind::More) return 1;
    return 1 + 2 * static_cast<std::uint64_t>(most_batches(step));
  }
  static int most_batches(const Step& step) {
    return *std::max_element(step.batches.begin(), step.batches.end());
  }

  /// Ranks went different ways after a vote that was cast ahead. What still ran was the same, and
  /// where a promise was broken all hear of it.
  void strayed() {
    std::map<std::tuple<std::size_t, std::uint64_t, std::string>, Operation> ran;
    std::map<std::pair<int, std::size_t>, std::vector<const Ended*>> of_rank;  // rank and group
    for (const Ended& one : run_.ended) {
      of_rank[{one.rank, one.group}].push_back(&one);
      if (one.kind == Ended::Kind::Call && !one.outcome.error)
        ran[{one.group, one.number, one.frame}].push_back(&one);
    }
    for (const auto& [key, operation] : ran) {
      alike(operation);
      for (const Ended* one : operation)
        expect(one->fits, "I1", [&] { return "an entry that does not fit: " + seen(*one); });
    }
    // A rank that goes another way itself hears of it at another place.
    if (program_.faults.size() != 1) return;
    for (const Ended& one : run_.ended)
      if (one.broke_promise && !one.transport)
        for (const auto& [key, records] : of_rank)
          if (key.second == one.group && key.first != one.rank) hears_of(one, records);
  }

  /// Of a broken promise: by the error of that call, or of the round after it.
  void hears_of(const Ended& broken, const std::vector<const Ended*>& records) {
    expect(broken.outcome.error.has_value(), "I6",
           [&] { return "a call that was not as promised, " + seen(broken); });
    const auto same = std::find_if(records.begin(), records.end(), [&](const Ended* one) {
      return one->kind == Ended::Kind::Call && one->number == broken.number &&
             one->frame == broken.frame;
    });
    if (same == records.end() || (*same)->outcome.error || same + 1 == records.end()) return;
    const Ended& next = **(same + 1);
    expect(next.outcome.error.has_value() || next.kind == Ended::Kind::Resync, "I6",
           [&] { return "nobody heard that " + seen(broken) + "\n  " + seen(next); });
    if (next.outcome.error && !next.transport)
      expect(in_table(*next.outcome.error, broken), "I6", [&] {
        return fmt::format("rank {} is not in the table, ", broken.rank) + seen(next);
      });
  }

  /// Ranks in a resync wait there for a rank with a local error elsewhere. That rank alone hears of
  /// the error, and from there on the ranks' operations of this epoch are not numbered alike. A
  /// rank with a garbled report counts as a rank with a local error. True: such a wait took place.
  static bool resync_took_in(const Operation& operation) {
    bool resync = false, failed = false;
    for (const Ended* one : operation) {
      resync |= one->kind == Ended::Kind::Resync;
      if (one->kind == Ended::Kind::Resync || !one->outcome.error) continue;
      failed |= one->garbled;
      failed |= one->struck && one->outcome.error->code == *one->struck &&
                *one->struck != Code::FrameMismatch && *one->struck != Code::Gone;
    }
    return resync && failed;
  }

  /// One verdict for all, and it names nobody who was there.
  void blame(const Ended& one) {
    if (!one.outcome.error) return;
    const Status& error = *one.outcome.error;
    // A vote met an exchange: only those who saw it say so.
    if (strays_ && error.code == Code::Internal &&
        error.message.find("not at the same point") != std::string::npos)
      return;
    expect(error.code == Code::Stuck || error.code == Code::RankLost, "I3",
           [&] { return "no verdict of the watch: " + seen(one); });
    if (!verdict_) verdict_ = error;
    expect(error == verdict_, "I3", [&] { return "another verdict than the first: " + seen(one); });
    // Then anybody may wait for anybody.
    if (strays_ || program_.strikes(Fault::Kind::Skip)) return;
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
    std::map<shapes::Fingerprint, shapes::Fingerprint>
        of_class;  // objects by what they are made for
    for (const Ended* one : operation) {
      expect(one->outcome.kind == first.outcome.kind && one->outcome.entry == first.outcome.entry &&
                 one->outcome.error == first.outcome.error && one->finding == first.finding,
             "I1", [&] { return seen(operation); });
      if (one->kind == Ended::Kind::Audit) continue;
      if (first.outcome.error || group.config.consistency != Consistency::SameGraph) continue;
      expect(one->graph == first.graph, "I1", [&] { return seen(operation); });
      const shapes::Fingerprint& objects =
          of_class.try_emplace(one->toolchain_key, one->objects).first->second;
      expect(one->objects == objects, "I1",
             [&] { return "different objects, " + seen(operation); });
    }
  }

  /// Stops before collectives that would not match, reports programs that differ, and else nothing.
  void audited(const Operation& operation) {
    const Ended& first = *operation[0];
    if (first.kind != Ended::Kind::Audit || untold(operation)) return;
    bool same_program = true, same_collectives = true;
    for (const Ended* one : operation) {
      same_program &= one->graph == first.graph;
      same_collectives &= one->objects == first.objects;
    }
    const bool stopped = first.outcome.error && first.outcome.error->code == Code::GraphDivergence;
    expect(stopped == !same_collectives, "audit", [&] { return seen(operation); });
    expect(stopped || first.finding.has_value() == !same_program, "audit",
           [&] { return seen(operation); });
  }

  void errors(const Operation& operation) {
    const Ended& first = *operation[0];
    std::vector<const Ended*> struck;
    bool told = true;  // nothing has happened that this check cannot foresee
    for (const Ended* one : operation)
      if (one->struck) struck.push_back(one);
    for (const Fault& fault : program_.faults)
      told &= fault.kind != Fault::Kind::Garbled && fault.kind != Fault::Kind::LostCache &&
              fault.kind != Fault::Kind::IgnoresCommit;
    if (told && (out_of_step(operation) || counts_differ(operation))) return missed(operation);
    if (!told) return;
    more(operation);
    if (struck.empty() && first.kind == Ended::Kind::Audit) return audited(operation);
    if (struck.empty()) return expect_no_error(operation);
    const std::optional<Status>& error = heard(operation, struck.size());
    expect(error.has_value(), "I6",
           [&] { return fmt::format("rank {} failed, ", struck[0]->rank) + seen(operation); });
    if (!error) return;
    const bool known = untold(operation) ||
                       std::any_of(struck.begin(), struck.end(),
                                   [&](const Ended* one) { return *one->struck == error->code; });
    expect(known, "I6", [&] { return "an error of another kind, " + seen(operation); });
    for (const Ended* one : struck)
      expect(in_table(*error, *one), "I6", [&] {
        return fmt::format("rank {} is not in the table, ", one->rank) + seen(operation);
      });
  }

  /// An audit stops for the sake of ranks that would wait in collectives. Where every rank of the
  /// group has a local error, no rank has collectives, and the error is a finding.
  [[nodiscard]] const std::optional<Status>& heard(const Operation& operation,
                                                   std::size_t struck) const {
    const Ended& first = *operation[0];
    const auto members = program_.groups[first.group].members.size();
    const bool all = struck == static_cast<std::size_t>(members);
    return first.kind == Ended::Kind::Audit && all ? first.finding : first.outcome.error;
  }

  static bool out_of_step(const Operation& operation) {
    return std::any_of(operation.begin(), operation.end(), [&](const Ended* one) {
      return one->step != operation[0]->step || one->turn != operation[0]->turn ||
             one->kind != operation[0]->kind;
    });
  }

  /// Ranks that have left out a call, or a resync, come to the same round with other numbers.
  [[nodiscard]] bool counts_differ(const Operation& operation) const {
    const std::optional<Status>& error = operation[0]->outcome.error;
    return program_.strikes(Fault::Kind::Skip) && error && error->code == Code::FrameMismatch;
  }

  /// Ranks that met out of step and noticed it: every one is named.
  void missed(const Operation& operation) {
    const Ended& first = *operation[0];
    if (!first.outcome.error || first.outcome.error->code != Code::FrameMismatch) return;
    for (const Ended* one : operation)
      expect(in_table(*first.outcome.error, *one), "I6", [&] {
        return fmt::format("rank {} is not in the table, ", one->rank) + seen(operation);
      });
  }

  /// All ranks go on while one has data, and leave together.
  void more(const Operation& operation) {
    const Ended& first = *operation[0];
    if (first.kind != Ended::Kind::More || first.step >= program_.steps.size() ||
        program_.steps[first.step].kind != Step::Kind::More || first.outcome.error)
      return;
    const int most = most_batches(program_.steps[first.step]);
    expect(first.outcome.entry == (first.turn < most ? 1 : 0), "I1",
           [&] { return fmt::format("{} turns, not {}, ", first.turn, most) + seen(operation); });
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
    if (first.kind == Ended::Kind::Audit) return;
    const GroupPlan& group = program_.groups[first.group];
    if (program_.strikes(Fault::Kind::Garbled) || program_.strikes(Fault::Kind::LostCache)) return;
    for (const Ended* one : operation) {
      expect(one->fits, "I1", [&] { return "an entry that does not fit: " + seen(*one); });
      expect(first.outcome.error || one->uniform == first.uniform, "I1",
             [&] { return "sizes apart that the entry needs alike, " + seen(operation); });
      expect(one->live <= group.config.recompile_limit, "I1",
             [&] { return fmt::format("{} entries, ", one->live) + seen(*one); });
      expect(first.outcome.error || one->past == first.past, "I1",
             [&] { return "different pasts, " + seen(operation); });
      if (group.builds) continue;  // What is built is sent as well.
      expect(one->outcome.error || one->payloads <= kMostPayloads, "I5",
             [&] { return fmt::format("{} payloads in one call, ", one->payloads) + seen(*one); });
    }
  }

  const Program& program_;
  const Run& run_;
  Operations operations_;
  bool strays_;
  std::vector<const Ended*> given_up_;
  std::optional<Status> verdict_;      // the first one
  std::map<int, const Ended*> last_;   // per rank
  std::map<int, std::uint64_t> ends_;  // per rank
  RankSet left_;                       // ranks that left because another one did
  std::optional<Violation> violation_;
};

}  // namespace

std::optional<Violation> check(const Program& program, const Run& run) {
  return Check(program, run).violation();
}

}  // namespace lockstep::fuzz
