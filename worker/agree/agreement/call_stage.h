// The stages of a call as a table: what each asks for, what it learns, which stages may follow.
// CallMachine aborts with a message if it leaves the table.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>

#include <lockstep/worker/agree/agreement/action.h>

namespace lockstep::worker {

enum class CallStage : std::uint8_t {
  // Stages that lead to an existing entry.
  Call,
  Witness,
  Uniform,
  // Stages that lead to a new entry.
  Roster,
  Gather,
  Elect,
  Hints,
  Trace,
  Verify,
  NewUniform,
  Compile,
  Commit,
  // The search for a difference.
  GuardElect,
  NodeCount,
  NodeSearch,
  Explain,
  RankTable,
  // The end.
  Done,
};

struct CallStageRow {
  CallStage stage;
  std::size_t asks;  // index in Action of the action that the stage asks for
  std::string_view learns;
  std::uint32_t next;  // bit per stage that may follow; Done always may, if the transport gives up
  [[nodiscard]] constexpr bool leads_to(CallStage to) const {
    return (next >> static_cast<unsigned>(to) & 1) != 0;
  }
};

/// The index of an action in Action.
template <class Asked>
inline constexpr std::size_t kAction = []<class... All>(std::type_identity<std::variant<All...>>) {
  std::size_t index = 0;
  (void)((std::is_same_v<Asked, All> || (++index, false)) || ...);
  return index;
}(std::type_identity<Action>{});

inline constexpr auto kCallStages = [] {
  using enum CallStage;
  using action::Broadcast, action::Finish, action::TreeJoin, action::Vote;
  const auto to = [](auto... stages) {
    return ((std::uint32_t{1} << static_cast<unsigned>(stages)) | ... | 0U);
  };
  const std::uint32_t decided = to(Elect, Trace, Verify), missed = to(Roster, Gather);
  return std::array<CallStageRow, 18>{{
      {Call, kAction<Vote>, "which entries fit on every rank",
       to(Witness, RankTable, Done) | missed},
      {Witness, kAction<Vote>, "which of them some rank bears out",
       to(Uniform, RankTable, Done) | missed | decided},
      {Uniform, kAction<Vote>, "whether the sizes that the first of them needs alike are",
       to(Uniform, RankTable, Done) | decided},
      {Roster, kAction<TreeJoin>,
       "whether the ranks hold one list of sources, one state, the same entries",
       to(Roster, Gather, RankTable, Done)},
      {Gather, kAction<TreeJoin>, "what the ranks have observed",
       to(Witness, Uniform, RankTable, Done) | decided},
      {Elect, kAction<Vote>, "which rank gives the hints", to(Hints)},
      {Hints, kAction<Broadcast>, "the hints", to(Trace, Verify)},
      {Trace, kAction<action::Trace>, "this rank's graph and guards", to(Verify)},
      {Verify, kAction<Vote>, "whether the graphs are equal, and the guards hold on every rank",
       to(NewUniform, Compile, GuardElect, NodeCount, RankTable, Done) | decided},
      {NewUniform, kAction<Vote>, "whether the sizes that the new entry needs alike are",
       to(Compile, GuardElect, RankTable, Done)},
      {Compile, kAction<action::Compile>, "whether this rank has built and loaded it", to(Commit)},
      {Commit, kAction<Vote>, "whether every rank has, for one decision", to(RankTable, Done)},
      {GuardElect, kAction<Vote>, "the first guard that fails on some rank", to(RankTable)},
      {NodeCount, kAction<Vote>, "the most nodes of any rank's graph", to(NodeSearch, RankTable)},
      {NodeSearch, kAction<Vote>, "whether the graphs are equal up to a node",
       to(NodeSearch, Explain, RankTable)},
      {Explain, kAction<action::Explain>, "what this rank has at the first node that differs",
       to(RankTable)},
      {RankTable, kAction<TreeJoin>, "what each rank says, from which all make one error",
       to(Done)},
      {Done, kAction<Finish>, "", 0},
  }};
}();
static_assert([] {
  for (std::size_t i = 0; i < kCallStages.size(); ++i)
    if (kCallStages[i].stage != static_cast<CallStage>(i)) return false;
  return kCallStages.back().stage == CallStage::Done;
}());

[[nodiscard]] constexpr const CallStageRow& row_of(CallStage stage) {
  return kCallStages[static_cast<std::size_t>(stage)];
}

}  // namespace lockstep::worker
