#include <algorithm>

#include <lockstep/worker/simulator/cluster/folded_rounds.h>
#include <lockstep/worker/simulator/cluster/rank_executor.h>

namespace lockstep::worker::simulator {
namespace {

class FoldedExecutor final : public RankExecutor {
 public:
  FoldedExecutor(std::vector<Unit> units, int size) : rounds_(std::move(units), size) {}

  void run(Machines machines, const Status& absent) override {
    run_together(machines, absent, [&] { return fold_round(rounds_, machines, clock_); });
  }
  [[nodiscard]] std::uint64_t bytes_per_rank_max() const override {
    return rounds_.bytes_per_rank_max();
  }
  [[nodiscard]] std::uint64_t rounds() const override { return rounds_.rounds(); }

 private:
  FoldedRounds rounds_;
};

/// Returns the payloads of a TreeJoin or a Broadcast.
template <class T>
std::vector<Bytes> payloads(Machines machines) {
  std::vector<Bytes> out;
  for (const auto& machine : machines) out.push_back(std::get<T>(machine->next()).mine);
  return out;
}

}  // namespace

void time_out_all(Machines machines, const Status& absent, RunClock* clock) {
  if (clock != nullptr) clock->time_out_all();
  for (const auto& machine : machines)
    if (machine) machine->failed(absent);
}

void fail_all(Machines machines) {
  const Status bug = internal_error(
      "the simulated ranks asked for different rounds; this is a bug of lockstep, "
      "please report it with the scenario");
  for (const auto& machine : machines) machine->failed(bug);
}

std::optional<RoundResult> fold_round(FoldedRounds& rounds, Machines machines, RunClock* clock) {
  const Action& first = machines[0]->next();
  if (!ask_alike(machines)) return std::nullopt;
  if (const auto* vote = std::get_if<action::Vote>(&first)) {
    std::vector<collectives::Vote> mine;
    for (const auto& machine : machines)
      mine.push_back(std::get<action::Vote>(machine->next()).mine);
    if (clock != nullptr) clock->vote();
    return rounds.vote(mine, vote->combine);
  }
  if (const auto* to_join = std::get_if<action::TreeJoin>(&first)) {
    TreeBytes bytes;
    Bytes joined = rounds.tree_join(payloads<action::TreeJoin>(machines), to_join->join,
                                    clock != nullptr ? &bytes : nullptr);
    if (clock != nullptr) clock->tree_join(bytes);
    return joined;
  }
  if (const auto* broadcast = std::get_if<action::Broadcast>(&first)) {
    Bytes payload = rounds.broadcast(broadcast->root, payloads<action::Broadcast>(machines));
    if (clock != nullptr) clock->broadcast(broadcast->root, payload.size());
    return payload;
  }
  return std::nullopt;
}

void answer(CallMachine& machine, const RoundResult& result) {
  if (const auto* vote = std::get_if<collectives::Vote>(&result))
    machine.voted(*vote);
  else
    machine.joined(std::get<Bytes>(result));
}

std::unique_ptr<RankExecutor> folded_executor(std::vector<Unit> units, int size) {
  return std::make_unique<FoldedExecutor>(std::move(units), size);
}

}  // namespace lockstep::worker::simulator
