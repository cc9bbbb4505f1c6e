#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/simulator/answers/comparison.h>
#include <lockstep/worker/simulator/answers/recorded_answers.h>
#include <lockstep/worker/simulator/answers/replay.h>
#include <lockstep/worker/simulator/input/joint_calls.h>

namespace lockstep::worker::simulator {
namespace {

bool same_outcome(const CallOutcome& a, const CallOutcome& b) {
  return a.kind == b.kind && a.entry == b.entry && a.error.has_value() == b.error.has_value() &&
         (!a.error || a.error->code == b.error->code);
}

std::string told(const CallOutcome& outcome) {
  return outcome.error ? "error " + std::string(code_name(outcome.error->code))
                       : std::string(outcome_name(outcome.kind));
}

/// Returns the first call that the inputs alone do not explain, as part of a sentence; nullopt:
/// none.
std::optional<std::string> unexplained(const std::vector<RankRecord>& ranks,
                                       const DryRunResult& recorded, const DryRunResult& inputs) {
  if (std::any_of(ranks.begin(), ranks.end(), [](const RankRecord& r) { return r.profiled; }))
    return "the job started from what an earlier run had learnt, which is not among its inputs";
  if (std::any_of(ranks.begin(), ranks.end(), [](const RankRecord& r) { return r.loaded; }))
    return "frames of the job started from saved programs, which are not among its inputs";
  for (std::size_t c = 0; c < recorded.calls.size(); ++c) {
    const CallOutcome &was = recorded.calls[c].outcome, &would = inputs.calls[c].outcome;
    if (!same_outcome(was, would))
      return fmt::format(
          "call {} came to \"{}\" and its inputs alone would come to \"{}\"; guards of a traced "
          "program, failures and options of a call are not among its inputs",
          c, told(was), told(would));
    const auto &made = recorded.calls[c].reported, &would_make = inputs.calls[c].reported;
    if (made && would_make && program_of(*made) != program_of(*would_make))
      return fmt::format("call {} compiled another decision than its inputs alone lead to", c);
  }
  if (recorded.rounds != inputs.rounds)
    return fmt::format("the job took {} rounds and its inputs alone would take {}", recorded.rounds,
                       inputs.rounds);
  return std::nullopt;
}

}  // namespace

Result<std::vector<RunVariant>> answer(const std::vector<RankRecord>& ranks,
                                       const RecordQuestions& questions, DryRunResult& result,
                                       std::vector<std::string>& notes) {
  if (!questions.compare && !questions.cost) return std::vector<RunVariant>();
  const JointCalls joint(ranks);
  for (std::size_t c = 0; c < joint.size(); ++c)
    if (joint.groups() > 1 || joint.members(c).size() != static_cast<std::int64_t>(ranks.size()))
      return bad_input(
          "calls of this record are of groups of ranks, which a dry run of its inputs does not "
          "know; --compare and --network take records whose calls are all of one group of all "
          "ranks.");
  Scenario inputs = scenario_of(ranks);
  inputs.cost = questions.cost;
  Profiles learnt;
  DryRunOptions how{
      .counterfactual = false, .progress = questions.progress, .most_spans = questions.most_spans};
  how.learnt = &learnt;
  DryRunResult alone = dry_run(inputs, how);
  if (auto wrong = inputs.error()) return *std::move(wrong);
  const auto other = unexplained(ranks, result, alone);
  if (other && questions.cost)
    return bad_input(fmt::format("the times of this record cannot be told: {}.", *other));
  if (other)
    notes.push_back(
        fmt::format("the ways compared are those of the recorded inputs alone: {}.", *other));
  result.timing = std::move(alone.timing);
  if (!questions.compare) return std::vector<RunVariant>();
  alone.uncoordinated = result.uncoordinated;
  auto variants = compare_variants(inputs, alone, learnt, questions.progress);
  if (auto wrong = inputs.error()) return *std::move(wrong);
  return variants;
}

}  // namespace lockstep::worker::simulator
