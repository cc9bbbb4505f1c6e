#include <algorithm>

#include <lockstep/worker/agree/agreement/rank_table.h>
#include <lockstep/worker/simulator/cluster/row_executor.h>

namespace lockstep::worker::simulator {
namespace {

bool joins_tables(const collectives::Join& join) {
  const auto* target = join.target<decltype(&join_rank_tables)>();
  return target != nullptr && *target == &join_rank_tables;
}

}  // namespace

// All ranks hold the same entries and receive the same results, so all end when the first does.
// Only the first machine commits: the machines share one cache.
void RowExecutor::run(Machines machines, std::span<const std::uint32_t> machine_of) {
  for (;;) {
    if (!answer_timed(*machines[0])) return;
    for (const auto& machine : machines.subspan(1))
      if (!answer_timed(*machine)) return fail_all(machines);
    const auto result = round(machines, machine_of);
    if (!result) return fail_all(machines);
    answer(*machines[0], *result);
    if (std::holds_alternative<action::Finish>(machines[0]->next())) return;
    for (const auto& machine : machines.subspan(1)) answer(*machine, *result);
  }
}

std::optional<RoundResult> RowExecutor::round(Machines machines,
                                              std::span<const std::uint32_t> machine_of) {
  const Action& first = machines[0]->next();
  if (!ask_alike(machines)) return std::nullopt;
  if (std::holds_alternative<action::Vote>(first)) {
    rounds_.voted();
    if (clock_ != nullptr) clock_->vote();
    return joint_vote(machines);
  }
  if (std::holds_alternative<action::TreeJoin>(first)) return tree_join(machines, machine_of);
  const Rank root = std::get<action::Broadcast>(first).root;
  const auto& machine = machines[machine_of[static_cast<std::size_t>(root.value)]];
  Bytes payload = std::get<action::Broadcast>(machine->next()).mine;
  rounds_.broadcast(root, payload.size());
  if (clock_ != nullptr) clock_->broadcast(root, payload.size());
  return payload;
}

Bytes RowExecutor::tree_join(Machines machines, std::span<const std::uint32_t> machine_of) {
  const auto& first = std::get<action::TreeJoin>(machines[0]->next());
  const bool tables = joins_tables(first.join);
  std::vector<std::optional<std::string>> rows;  // if rank tables are joined: each machine's value
  for (const auto& machine : machines) {
    if (!tables) break;
    auto values = rank_table_values(std::get<action::TreeJoin>(machine->next()).mine);
    rows.push_back(values.empty() ? std::nullopt : std::optional(std::move(values[0].value)));
  }
  const auto of = [&](Rank rank) { return machine_of[static_cast<std::size_t>(rank.value)]; };
  const auto payload = [&](Rank rank) {
    return tables ? rank_table_payload(rank, rows[of(rank)])
                  : std::get<action::TreeJoin>(machines[of(rank)]->next()).mine;
  };
  const auto same = [](std::int32_t low, std::int32_t high) { return low == high; };
  TreeBytes sent;
  Bytes out = rounds_.tree_join(payload, first.join, same, clock_ != nullptr ? &sent : nullptr);
  if (clock_ != nullptr) clock_->tree_join(sent);
  return out;
}

}  // namespace lockstep::worker::simulator
