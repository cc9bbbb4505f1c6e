#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/call_machine.h>
#include <lockstep/worker/agree/agreement/rank_table.h>
#include <lockstep/worker/agree/exchange/hints.h>

namespace lockstep::worker {
namespace {

using collectives::Combine;
using collectives::Vote;
using collectives::VoteFlag;

/// The flag with which this rank's vote reports a local error.
std::optional<VoteFlag> flag_of(const std::optional<Status>& local_error) {
  if (!local_error) return std::nullopt;
  if (local_error->code == Code::Gone) return VoteFlag::Gone;
  return local_error->code == Code::RuntimeAssert ? VoteFlag::RunFailed : VoteFlag::Error;
}

/// Error if a guard, host value or uniform size mentions anything but inputs and the decision's
/// backed symbols, because no call could test it.
std::optional<Status> foreign_guard(const Decision& decision, const SourceList& list,
                                    const TraceReport& report) {
  constexpr const char* kBug = "this is a bug of the tracer, please report it";
  const auto is_scalar = [&](std::string_view source) {
    const auto at = list.find(source);
    return at && list.scalar(*at);
  };
  for (const HostValue& value : report.host_values)
    if (!value.well_formed(is_scalar))
      return internal_error(
          fmt::format("a value that guards ask for is none of the inputs; {}", kBug));
  std::vector<shapes::Symbol> known = decision.trace_symbols();
  for (const shapes::Symbol symbol : decision.host_symbols(report.host_values.size()))
    known.push_back(symbol);
  for (const shapes::Guard& guard : report.guards)
    for (const shapes::Symbol symbol : guard.predicate.expr.symbols())
      if (symbol.unbacked || std::find(known.begin(), known.end(), symbol) == known.end())
        return internal_error(
            fmt::format("the guard {} at {} mentions {}, which is no size of an input; {}",
                        guard.predicate.text(), guard.where.text(), symbol.name(), kBug));
  for (const UniformSize& size : report.uniform)
    for (const shapes::Symbol symbol : size.expr.symbols())
      if (symbol.unbacked || std::find(known.begin(), known.end(), symbol) == known.end())
        return internal_error(
            fmt::format("{} at {} needs {} alike on all ranks, which is no size of an "
                        "input; {}",
                        size.what, size.where.text(), size.expr.text(), kBug));
  return std::nullopt;
}

/// Returns `compared` with the group guards added. Even where graphs may differ, group guards must
/// be equal: either all ranks take part in a witness vote or none does.
shapes::Fingerprint with_questions(const shapes::Fingerprint& compared,
                                   const std::vector<GroupGuard>& questions) {
  shapes::FingerprintBuilder builder;
  builder.add(compared);
  for (const GroupGuard& question : questions)
    builder.add(question.predicate.text())
        .add(static_cast<std::int64_t>(question.over))
        .add(std::int64_t{question.value});
  return builder.finish();
}

}  // namespace

CallMachine::CallMachine(Rank self, int size, const DecisionConfig& config, RoundKey key,
                         CodeCache& cache, Observation observation, RankStatus rank_status)
    : self_(self),
      size_(size),
      config_(config),
      key_(std::move(key)),
      cache_(cache),
      observation_(std::move(observation)),
      rank_status_(std::move(rank_status)) {
  if (key_.consistency) config_.consistency = *key_.consistency;
  if (!observation_.fields.empty() && !rank_status_.local_error)
    rank_status_.local_error = fields_error(observation_);
  // Under shared_sizes the ranks' lists may differ, and each entry knows its own list.
  std::uint64_t state = cache_.digest();
  if (config_.consistency != Consistency::SharedSizes) state ^= observation_.list->digest().low;
  state ^= cache_.uniform_digest(observation_);
  std::optional<VoteFlag> flag = flag_of(rank_status_.local_error);
  if (!flag && rank_status_.untested) flag = VoteFlag::Untested;
  vote(Stage::Call, RoundKey::Kind::Call, cache_.lookup(observation_), state, rank_status_.pending,
       flag);
}

void CallMachine::voted(const Vote& result) {
  const auto* asked = std::get_if<action::Vote>(&action_);
  // An election (Combine::Min) has no round key in its words; every other vote has.
  if (asked != nullptr && asked->combine == Combine::And && !result.same_key())
    return diagnose_mismatch();
  switch (stage_) {
    case Stage::Call:
      return called(result);
    case Stage::Witness:
      return witnessed(result);
    case Stage::Uniform:
      return compared(result.same_state());
    case Stage::NewUniform:
      return compared_new(result.same_state());
    case Stage::Elect:
      return elected(result.words[0]);
    case Stage::Verify:
      return verified(result);
    case Stage::Commit:
      return committed(result);
    case Stage::GuardElect:
      return elected_guard(result.words[0]);
    case Stage::NodeCount:
      return counted_nodes(result);
    case Stage::NodeSearch:
      return searched(result.same_state() && result.same_pending());
    default:
      expect(Stage::Call, "voted");
  }
}

void CallMachine::called(const Vote& result) {
  if (result.any_flag() || !result.same_pending()) return diagnose_mismatch();
  untested_ = result.raised(VoteFlag::Untested);
  fit_ = result.entries();
  uniform_differs_ = !result.same_state();  // true also if other things differ: see rostered()
  candidates_ = uniform_differs_ ? 0 : fit_;
  same_list_ = result.same_state() && config_.consistency != Consistency::SharedSizes;
  ask_for_witnesses();
}

void CallMachine::ask_for_witnesses() {
  // One bit per question of the candidates, in order; cleared by a rank that is a witness. Every
  // rank holds the same entries, so either all ranks ask or none does.
  std::uint64_t answers = Vote::kOnes;
  std::size_t question = 0;
  std::uint64_t rest = candidates_;
  for (const Entry& entry : cache_.entries) {
    if (rest == 0) break;
    if (entry.superseded) continue;
    const bool candidate = (rest & 1) != 0;
    rest >>= 1;
    if (!candidate) continue;
    for (std::size_t i = 0; i < entry.questions(); ++i, ++question)
      if (question < 64 && entry.witnesses(i, observation_))
        answers &= ~(std::uint64_t{1} << question);
  }
  if (question > 0)
    return vote(Stage::Witness, RoundKey::Kind::Witness, answers, 0, 0, std::nullopt);
  choose();
}

void CallMachine::witnessed(const Vote& result) {
  std::size_t question = 0;
  std::uint64_t bit = 1;
  for (const Entry& entry : cache_.entries) {
    if (entry.superseded) continue;
    if ((candidates_ & bit) != 0) {
      // Questions past the 64th were not asked: an entry that has one is not used.
      for (std::size_t i = 0; i < entry.questions(); ++i, ++question)
        if (question >= 64 || (result.entries() >> question & 1) != 0) candidates_ &= ~bit;
    }
    bit <<= 1;
  }
  choose();
}

void CallMachine::choose() {
  if (candidates_ == 0) return gathered_ ? decided() : gather();
  const int picked = cache_.pick(candidates_);
  const Entry& entry = cache_.entries[static_cast<std::size_t>(picked)];
  if (!uniform_differs_ || entry.uniform.empty())
    return finish({CallOutcome::Kind::Reused, picked, std::nullopt});
  vote(Stage::Uniform, RoundKey::Kind::Uniform, Vote::kOnes, entry.uniform_into(0, observation_), 0,
       std::nullopt);
}

/// Called if some entry's uniform sizes differ. `equal`: those of the picked entry are equal.
void CallMachine::compared(bool equal) {
  const int picked = cache_.pick(candidates_);
  if (equal) return finish({CallOutcome::Kind::Reused, picked, std::nullopt});
  std::uint64_t bit = 1;
  for (int i = 0; i < picked; ++i)
    if (!cache_.entries[static_cast<std::size_t>(i)].superseded) bit <<= 1;
  candidates_ &= ~bit;
  choose();
}

void CallMachine::joined(const Bytes& result) {
  switch (stage_) {
    case Stage::Roster:
      return rostered(result);
    case Stage::Gather:
      return gathered(result);
    case Stage::Hints:
      if (!apply_hints(decision_, joint_, result) || !apply_hints(reported_, joint_, result))
        failure_ = internal_error("the hints that rank " + std::to_string(self_.value) +
                                  " received cannot be read");
      return hinted();
    case Stage::RankTable: {
      Status error = error_of_table_(rank_table_values(result));
      return finish({CallOutcome::Kind::Error, -1, std::move(error)});
    }
    default:
      expect(Stage::RankTable, "joined");
  }
}

void CallMachine::elected(std::uint64_t lowest) {
  const Rank donor{lowest == Vote::kOnes ? 0 : static_cast<std::int32_t>(lowest)};
  ask(Stage::Hints,
      action::Broadcast{donor, donor == self_ ? encode_hints(joint_, observation_) : Bytes{}});
}

void CallMachine::hinted() {
  if (failure_) return verify({});
  // Branches may differ between ranks here, so each rank traces with its own sizes.
  if (config_.consistency != Consistency::SameGraph) use_own_hints(decision_, observation_);
  ask(Stage::Trace, action::Trace{&decision_});
}

void CallMachine::traced(TraceReport report) {
  expect(Stage::Trace, "traced");
  failure_ = report.failure ? report.failure : foreign_guard(decision_, *observation_.list, report);
  verify(std::move(report));
}

void CallMachine::verify(TraceReport report) {
  report_ = std::move(report);
  std::optional<VoteFlag> flag;
  if (failure_) {
    flag = VoteFlag::TraceFailed;
  } else {
    entry_ = Entry::make(decision_, reported_, observation_.list, report_.guards, report_.graph,
                         report_.group_guards, report_.host_values, report_.uniform);
    const auto failed = entry_->failed_guard(observation_);
    if (failed) flag = VoteFlag::GuardFailed;
    failed_guard_ = failed.value_or(report_.guards.size());
  }
  if (config_.consistency == Consistency::SameGraph) compared_ = report_.graph;
  if (config_.consistency == Consistency::SameCollectives) compared_ = report_.collectives;
  if (!report_.group_guards.empty()) compared_ = with_questions(compared_, report_.group_guards);
  vote(Stage::Verify, RoundKey::Kind::Verify, Vote::kOnes, compared_.high, compared_.low, flag);
}

void CallMachine::verified(const Vote& result) {
  if (result.raised(VoteFlag::TraceFailed) && settling_) {
    // A trace that fails with every size a symbol may succeed with only the sizes that vary.
    settling_ = false;
    return decide_call();
  }
  if (result.raised(VoteFlag::TraceFailed))
    return collect_rank_table(report_line(failure_), [frame = cache_.name](auto rank_table) {
      return joint_failure(rank_table, frame, "traced");
    });
  if (!result.same_state() || !result.same_pending()) return count_nodes();
  guard_failed_ = result.raised(VoteFlag::GuardFailed);
  if (entry_->uniform.empty()) return guard_failed_ ? elect_guard() : build();
  vote(Stage::NewUniform, RoundKey::Kind::Uniform, Vote::kOnes,
       entry_->uniform_into(0, observation_), 0, std::nullopt);
}

void CallMachine::compared_new(bool equal) {
  if (equal) return guard_failed_ ? elect_guard() : build();
  collect_rank_table(
      values_line(entry_->uniform_values(observation_)),
      [sizes = entry_->uniform, namer = entry_->namer(), frame = cache_.name](auto rank_table) {
        return uniform_violation(sizes, namer, frame, rank_table);
      });
}

void CallMachine::build() {
  if (falls_back_) return finish({CallOutcome::Kind::Fallback, -1, std::nullopt});
  ask(Stage::Compile, action::Compile{});
}

void CallMachine::compiled(std::optional<Status> failure) {
  expect(Stage::Compile, "compiled");
  failure_ = std::move(failure);
  const shapes::Fingerprint digest = reported_.digest();
  vote(Stage::Commit, RoundKey::Kind::Commit, cache_.replaced_by(*entry_), digest.high, digest.low,
       failure_ ? std::optional(VoteFlag::CompileFailed) : std::nullopt);
}

void CallMachine::committed(const Vote& result) {
  if (result.raised(VoteFlag::CompileFailed))
    return collect_rank_table(report_line(failure_), [frame = cache_.name](auto rank_table) {
      return joint_failure(rank_table, frame, "compiled");
    });
  if (!result.same_state() || !result.same_pending())
    return collect_rank_table(decision_text(reported_), [frame = cache_.name](auto rank_table) {
      return Status{Code::Internal,
                    frame +
                        ": the ranks decided differently on the same observations; check that "
                        "all ranks run the same build",
                    {},
                    std::move(rank_table)};
    });
  const int index = cache_.commit(std::move(*entry_),
                                  joined_state(joint_, cache_.state, config_.automatic_dynamic),
                                  result.entries());
  finish({CallOutcome::Kind::Compiled, index, std::nullopt});
}

void CallMachine::failed(Status status) {
  if (stage_ != Stage::Done) finish({CallOutcome::Kind::Error, -1, std::move(status)});
}

void CallMachine::ask(Stage stage, Action action) {
  // Any stage may end the call if the transport gives up, and the first stage follows none.
  const bool follows =
      row_of(stage_).leads_to(stage) || stage == Stage::Done || stage == Stage::Call;
  if (!follows || action.index() != row_of(stage).asks) {
    const std::string_view from = row_of(stage_).learns, to = row_of(stage).learns;
    std::fprintf(stderr,
                 "lockstep: rank %d: a call that has learnt %.*s asks for '%s' to learn %.*s\n",
                 self_.value, static_cast<int>(from.size()), from.data(),
                 action_text(action).c_str(), static_cast<int>(to.size()), to.data());
    std::abort();
  }
  stage_ = stage;
  action_ = std::move(action);
}

void CallMachine::vote(Stage stage, RoundKey::Kind kind, std::uint64_t entries, std::uint64_t state,
                       std::uint64_t pending, std::optional<VoteFlag> flag) {
  key_.kind = kind;
  Vote mine = Vote::of(entries, key_.hash(), state, pending);
  if (flag) mine.raise(*flag);
  ask(stage, action::Vote{mine, Combine::And});
}

void CallMachine::elect(Stage stage, std::uint64_t mine) {
  Vote vote;
  vote.words[0] = mine;
  ask(stage, action::Vote{vote, Combine::Min});
}

void CallMachine::collect_rank_table(const std::optional<std::string>& mine, ErrorOfTable error) {
  error_of_table_ = std::move(error);
  const RankSet& many = rank_status_.speaks_for;
  ask(Stage::RankTable,
      action::TreeJoin{rank_table_payload(many.empty() ? RankSet::of(self_) : many, mine),
                       join_rank_tables});
}

void CallMachine::diagnose_mismatch() {
  // A rank whose trace failed may meet, in this round, ranks that still ask the group questions in
  // their traces.
  if (!rank_status_.local_error) rank_status_.local_error = failure_;
  collect_rank_table(rank_report(key_, rank_status_),
                     [](auto rank_table) { return diagnose(rank_table); });
}

void CallMachine::finish(CallOutcome outcome) {
  entry_.reset();
  outcome.untested = untested_;
  ask(Stage::Done, action::Finish{std::move(outcome)});
}

bool CallMachine::compares_graphs() const { return config_.consistency == Consistency::SameGraph; }

void CallMachine::expect(Stage stage, const char* report) const {
  if (stage_ == stage) return;
  std::fprintf(stderr, "lockstep: rank %d of %d, %s: report '%s' does not answer '%s'\n",
               self_.value, size_, key_.text().c_str(), report, action_text(action_).c_str());
  std::abort();
}

// The exchange of a call. If all ranks hold the same source list and state, each sends its vector.
// Otherwise the ranks first exchange the names of their sources.
void CallMachine::gather() {
  if (same_list_)
    return ask(Stage::Gather, action::TreeJoin{list_payload(observation_), join_columns});
  Roster mine =
      roster_of(observation_, cache_.state, config_.automatic_dynamic, *cache_.dictionary());
  mine.state.digest = cache_.state_digest();
  mine.entries.digest = cache_.entries_digest();
  if (config_.settle && config_.consistency == Consistency::SharedSizes)
    mine.alike = cache_.alike(observation_);
  ask(Stage::Roster, action::TreeJoin{encode(mine), join_rosters});
}

void CallMachine::rostered(const Bytes& payload) {
  const std::optional<Roster> roster = decode_roster(payload);
  if (!roster) return unreadable();
  if (roster->dictionary.differs) {
    // Some rank's transport gave up before the rank learnt the others' names: all ranks start anew.
    cache_.forget_names();
    return gather();
  }
  if (roster->entries.differs)
    return collect_rank_table(fmt::format("{} entries, {}", cache_.entries.size(),
                                          cache_.entries_digest().text().substr(0, 8)),
                              [frame = cache_.name](auto rank_table) {
                                return Status{
                                    Code::GraphDivergence,
                                    frame +
                                        ": the ranks hold different compiled entries; reset "
                                        "the frame on every rank or on none",
                                    {},
                                    std::move(rank_table)};
                              });
  cache_.learn_names(roster->names);
  const bool lists_differ = roster->list.differs && config_.consistency != Consistency::SharedSizes;
  uniform_differs_ = uniform_differs_ && !roster->state.differs && !lists_differ;
  alike_ = roster->alike;
  const bool states_differ = roster->state.differs && config_.automatic_dynamic;
  if (!roster->list.differs && !states_differ) {
    same_list_ = true;
    return gather();
  }
  ask(Stage::Gather, action::TreeJoin{mixed_payload(observation_, *cache_.dictionary(),
                                                    states_differ ? &cache_.state : nullptr),
                                      join_columns});
}

void CallMachine::unreadable() {
  finish(
      {CallOutcome::Kind::Error, -1,
       internal_error(cache_.name +
                      ": the joined observations cannot be read; check that all ranks run the same "
                      "build")});
}

void CallMachine::gathered(const Bytes& payload) {
  const FrameState* state = config_.automatic_dynamic ? &cache_.state : nullptr;
  std::optional<JointObservation> joint =
      same_list_ ? read_list_payload(payload, observation_.list, state)
                 : read_mixed_payload(payload, cache_.dictionary(), state);
  if (!joint) return unreadable();
  joint_ = std::move(*joint);
  // With specialize_int, whether an int is a constant depends on this call only.
  if (config_.specialize_int)
    for (SourceCell& source : joint_.sources)
      if (source.number != nullptr) source.stored = nullptr;
  if (const auto conflict = find_conflict(joint_, config_))
    return collect_rank_table(conflict_value(*conflict, observation_),
                              [conflict = *conflict, frame = cache_.name](auto rank_table) {
                                return conflict_status(conflict, frame, std::move(rank_table));
                              });
  gathered_ = true;
  // All ranks hold the same entries, so the mask of the vote is valid: only uniform sizes differed.
  candidates_ = uniform_differs_ ? fit_ : 0;
  ask_for_witnesses();
}

void CallMachine::decided() {
  // Past the limit the ranks still trace and compare, then interpret: a fallback must not pair
  // collectives wrongly either.
  falls_back_ = cache_.at_limit(config_);
  settling_ = cache_.settles_next(config_, alike_ ? *alike_ : cache_.alike(observation_));
  decide_call();
}

void CallMachine::decide_call() {
  joint_.settle(settling_, config_.specialize_int);
  failure_.reset();
  reported_ = decide(joint_, config_);
  if (auto own = decide_for(observation_, joint_, config_))
    decision_ = std::move(*own);
  else
    failure_ = own.error();
  if (known_donor(joint_)) return hinted();
  elect(Stage::Elect, qualifies_as_donor(joint_, observation_)
                          ? static_cast<std::uint64_t>(self_.value)
                          : collectives::Vote::kOnes);
}

}  // namespace lockstep::worker
