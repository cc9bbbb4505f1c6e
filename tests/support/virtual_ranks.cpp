#include "virtual_ranks.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace lockstep::worker {
namespace {

using collectives::Combine;

collectives::Vote fold(const std::vector<std::unique_ptr<CallMachine>>& machines) {
  collectives::Vote result = std::get<action::Vote>(machines[0]->next()).mine;
  const Combine combine = std::get<action::Vote>(machines[0]->next()).combine;
  for (const auto& machine : machines) {
    const auto& asked = std::get<action::Vote>(machine->next());
    EXPECT_EQ(asked.combine, combine);
    for (std::size_t i = 0; i < result.words.size(); ++i)
      result.words[i] = combine == Combine::And ? result.words[i] & asked.mine.words[i]
                                                : std::min(result.words[i], asked.mine.words[i]);
  }
  return result;
}

/// The payloads of ranks [first, last) joined as a balanced tree, in rank order.
Bytes tree(const std::vector<std::unique_ptr<CallMachine>>& machines, std::size_t first,
           std::size_t last) {
  const auto& asked = std::get<action::TreeJoin>(machines[first]->next());
  if (last - first == 1) return asked.mine;
  const std::size_t middle = first + (last - first) / 2;
  return asked.join(tree(machines, first, middle), tree(machines, middle, last));
}

}  // namespace

VirtualRanks::VirtualRanks(int size, DecisionConfig config)
    : size_(size), config_(config), frames_(static_cast<std::size_t>(size)) {
  tracer = [](Rank, const Decision& decision) {
    TraceReport report;
    report.graph = decision.digest();
    return report;
  };
  compiler = [](Rank) { return std::nullopt; };
  explainer = [](Rank rank, std::size_t node) {
    return "node " + std::to_string(node) + " of rank " + std::to_string(rank.value);
  };
  rank_status = [](Rank) { return RankStatus{}; };
  transport = [](int) { return std::nullopt; };
}

CodeCache& VirtualRanks::frame(int rank, const std::string& name) {
  CodeCache& frame = frames_[static_cast<std::size_t>(rank)][name];
  frame.name = name;
  return frame;
}

std::vector<CallOutcome> VirtualRanks::call(const std::vector<Inputs>& inputs) {
  return call(std::vector<std::string>(inputs.size(), "f"), inputs);
}

std::vector<CallOutcome> VirtualRanks::call(const std::vector<std::string>& frames,
                                            const std::vector<Inputs>& inputs) {
  std::vector<std::unique_ptr<CallMachine>> machines;
  for (int r = 0; r < size_; ++r) {
    const auto i = static_cast<std::size_t>(r);
    RoundKey key;
    key.frame = frames[i];
    key.round = key.call = calls_;
    machines.push_back(std::make_unique<CallMachine>(Rank{r}, size_, config_, key,
                                                     frame(r, frames[i]), inputs[i].build(),
                                                     rank_status(Rank{r})));
  }
  ++calls_;
  log.assign(machines.size(), "");
  votes = exchanges = broadcasts = 0;
  constexpr int kMostSteps = 200;
  int steps = 0;
  for (; steps < kMostSteps; ++steps) {
    std::size_t done = 0;
    for (std::size_t i = 0; i < machines.size(); ++i) {
      log[i] += action_text(machines[i]->next()) + "\n";
      if (std::holds_alternative<action::Finish>(machines[i]->next())) ++done;
      EXPECT_EQ(machines[i]->next().index(), machines[0]->next().index())
          << "rank " << i << " asks for something else:\n"
          << log[i] << "rank 0:\n"
          << log[0];
    }
    if (testing::Test::HasFailure() || done == machines.size()) break;
    std::vector<CallStage> before;
    for (const auto& machine : machines) before.push_back(machine->stage());
    if (const auto failure = transport(steps))
      for (auto& machine : machines) machine->failed(*failure);
    else
      step(machines);
    for (std::size_t i = 0; i < machines.size(); ++i)
      followed.emplace(before[i], machines[i]->stage());
  }
  EXPECT_LT(steps, kMostSteps) << "the call does not come to an end:\n" << log[0];
  std::vector<CallOutcome> out;
  for (auto& machine : machines) {
    const auto* finish = std::get_if<action::Finish>(&machine->next());
    out.push_back(finish != nullptr ? finish->outcome : CallOutcome{});
  }
  return out;
}

void VirtualRanks::step(std::vector<std::unique_ptr<CallMachine>>& machines) {
  const Action& first = machines[0]->next();
  if (std::holds_alternative<action::Vote>(first)) {
    ++votes;
    collectives::Vote result = fold(machines);
    if (on_vote) on_vote(result);
    for (auto& machine : machines) machine->voted(result);
  } else if (std::holds_alternative<action::TreeJoin>(first)) {
    ++exchanges;
    Bytes result = tree(machines, 0, machines.size());
    if (on_payload) on_payload(result);
    for (auto& machine : machines) machine->joined(result);
  } else if (const auto* broadcast = std::get_if<action::Broadcast>(&first)) {
    ++broadcasts;
    const Rank root = broadcast->root;
    const auto& from = machines[static_cast<std::size_t>(root.value)]->next();
    Bytes payload = std::get<action::Broadcast>(from).mine;
    if (on_payload) on_payload(payload);
    for (auto& machine : machines) {
      EXPECT_EQ(std::get<action::Broadcast>(machine->next()).root, root);
      machine->joined(payload);
    }
  } else {
    for (std::size_t i = 0; i < machines.size(); ++i) {
      const Rank rank{static_cast<std::int32_t>(i)};
      const Action& asked = machines[i]->next();
      if (const auto* trace = std::get_if<action::Trace>(&asked))
        machines[i]->traced(tracer(rank, *trace->decision));
      else if (const auto* explain = std::get_if<action::Explain>(&asked))
        machines[i]->explained(explainer(rank, explain->node));
      else
        machines[i]->compiled(compiler(rank));
    }
  }
}

CallOutcome VirtualRanks::joint(const std::vector<Inputs>& inputs) {
  const std::vector<CallOutcome> all = call(inputs);
  for (const CallOutcome& outcome : all) {
    EXPECT_EQ(outcome.kind, all[0].kind);
    EXPECT_EQ(outcome.entry, all[0].entry);
    EXPECT_EQ(outcome.error, all[0].error) << outcome_text(outcome) << "\n" << outcome_text(all[0]);
  }
  return all[0];
}

}  // namespace lockstep::worker
