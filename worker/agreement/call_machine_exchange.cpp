// The exchange of a call: what the group sees, and the errors that only the group can see. Ranks
// that hold one list and one state send one vector; others first learn each other's names.
#include <fmt/format.h>

#include <lockstep/worker/agreement/call_machine.h>
#include <lockstep/worker/agreement/rank_table.h>
#include <lockstep/worker/exchange/hints.h>

namespace lockstep::worker {

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
    // A rank's transport gave up before it learnt what the others did: all start anew.
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
  // Then only this call tells whether an int is a constant.
  if (config_.specialize_int)
    for (SourceCell& source : joint_.sources)
      if (source.number != nullptr) source.stored = nullptr;
  if (const auto conflict = find_conflict(joint_, config_))
    return collect_rank_table(conflict_value(*conflict, observation_),
                              [conflict = *conflict, frame = cache_.name](auto rank_table) {
                                return conflict_status(conflict, frame, std::move(rank_table));
                              });
  gathered_ = true;
  // The mask of the vote is one of entries that all ranks hold: what differed was something else.
  candidates_ = uniform_differs_ ? fit_ : 0;
  ask_for_witnesses();
}

void CallMachine::decided() {
  // Past the limit the ranks still trace and compare one graph, which is then interpreted: a
  // fallback must not pair collectives wrongly either.
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
