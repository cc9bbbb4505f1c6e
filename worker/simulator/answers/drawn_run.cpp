#include <algorithm>

#include <lockstep/worker/simulator/answers/comparison.h>
#include <lockstep/worker/simulator/answers/drawn_run.h>
#include <lockstep/worker/simulator/answers/mark_advice.h>

namespace lockstep::worker::simulator {

Result<DrawnRun> run_drawn(const RecordedInputs& inputs, const std::vector<RankRecord>& ranks,
                           const Replay& replay, int world_size, std::uint64_t seed,
                           const RecordQuestions& questions) {
  auto drawn = inputs.draw(ranks, world_size, seed);
  if (!drawn) return drawn.error();
  DrawnRun out{.scenario = std::move(drawn->scenario), .result = {}, .variants = {}, .notes = {}};
  out.scenario.cost = questions.cost;
  out.scenario.traces = std::make_shared<const KnownTraces>(replay.traces);
  Profiles learnt;
  DryRunOptions how{.counterfactual = questions.counterfactual,
                    .compare = questions.compare,
                    .progress = questions.progress,
                    .most_spans = questions.most_spans};
  how.learnt = &learnt;
  if (auto refused = too_large(out.scenario, how)) return *std::move(refused);
  out.result = dry_run(out.scenario, how);
  if (how.compare)
    out.variants = compare_variants(out.scenario, out.result, learnt, questions.progress);
  out.result.compare = out.variants;
  DrawnFrom& from = out.result.drawn.emplace();
  from.ranks = static_cast<int>(ranks.size());
  from.seed = seed;
  from.inputs = drawn->inputs;
  from.as_recorded = drawn->as_recorded;
  from.left_out = drawn->left_out;
  count_conditions(out.scenario, out.result, from);
  out.result.advice = mark_advice(out.scenario, out.result, ranks);
  if (std::ranges::any_of(ranks, &RankRecord::loaded))
    out.notes.emplace_back(
        "frames of the job started from saved programs; the drawn ranks start without, and "
        "compile.");
  if (ranks.size() == 1)
    out.notes.emplace_back(
        "the record is of one rank, which says nothing of how ranks differ; every size is taken to "
        "differ between ranks as it differs between calls.");
  return out;
}

}  // namespace lockstep::worker::simulator
