#include <algorithm>
#include <deque>

#include <lockstep/worker/agree/agreement/frame_profile.h>
#include <lockstep/worker/simulator/cluster/drawn_job.h>
#include <lockstep/worker/simulator/draw/parallel.h>

namespace lockstep::worker::simulator {

DrawnJob::DrawnJob(const Scenario& scenario, const DryRunOptions& options)
    : scenario_(scenario), from_(options.from), executor_(scenario.world_size) {
  executor_.trace_by(scenario.traces.get());
  if (!scenario.cost) return;
  clock_.emplace(*scenario.cost, scenario.world_size, scenario.count(), options.most_spans);
  executor_.time_by(*clock_);
}

CallResult DrawnJob::call(std::size_t index) {
  const GeneratedCall& kind = scenario_.generator.kind(index);
  if (kind.as_is) return run(index, recorded(*kind.as_is), true);
  return run(index, drawn(kind, scenario_.generator.inputs(index, scenario_.world_size)), false);
}

DrawnJob::Rows DrawnJob::drawn(const GeneratedCall& kind, const RankInputs& inputs) const {
  Rows out;
  out.present = RankSet::all(scenario_.world_size);
  out.of.resize(static_cast<std::size_t>(scenario_.world_size));
  const auto shares = shares_of(scenario_.world_size);
  in_parallel(shares.size(), [&](std::size_t i) {
    for (std::int32_t r = shares[i].first; r <= shares[i].last; ++r)
      out.of[static_cast<std::size_t>(r)] = inputs.drawn_by(r);
  });
  std::vector<std::uint32_t> row_of(kind.pool->inputs->size(), UINT32_MAX);
  for (std::int32_t r = 0; r < scenario_.world_size; ++r) {
    std::uint32_t& of = out.of[static_cast<std::size_t>(r)];
    std::uint32_t& row = row_of[of];
    if (row == UINT32_MAX) {
      row = static_cast<std::uint32_t>(out.rows.size());
      out.rows.push_back({r, kind.frame, (*kind.pool->inputs)[of]});
    }
    of = row;
  }
  return out;
}

DrawnJob::Rows DrawnJob::recorded(const ScenarioCall& call) const {
  Rows out;
  out.present = call.present;
  out.of.resize(static_cast<std::size_t>(scenario_.world_size), UINT32_MAX);
  for (const ScenarioGroup& group : call.groups) {
    const auto row = static_cast<std::uint32_t>(out.rows.size());
    out.rows.push_back({group.ranks.lowest().value, group.frame, group.observation()});
    for (const RankSet::Run& run : group.ranks.runs())
      std::fill(out.of.begin() + run.first, out.of.begin() + run.last + 1, row);
  }
  return out;
}

CodeCache& DrawnJob::cache_of(const Row& row) {
  const auto [at, fresh] = frames_.try_emplace(row.frame, row.frame);
  if (fresh && from_ != nullptr)
    if (const auto kept = from_->find(row.frame); kept != from_->end())
      at->second.adopt(state_from(kept->second, *row.seen.list));
  return at->second;
}

std::unique_ptr<CallMachine> DrawnJob::machine(std::size_t index, const Row& row,
                                               CodeCache& cache) const {
  RoundKey key;
  key.group = "all";
  key.frame = row.frame;
  key.round = key.call = index;
  RankStatus rank_status;
  rank_status.speaks_for = RankSet::of(Rank{row.lowest});
  return std::make_unique<CallMachine>(Rank{row.lowest}, scenario_.world_size,
                                       scenario_.config_of(row.frame), std::move(key), cache,
                                       row.seen, std::move(rank_status));
}

/// `apart`: source lists or frames may differ between ranks. Machines then learn names during the
/// call, so each but the first has a copy of the cache.
CallResult DrawnJob::run(std::size_t index, const Rows& call, bool apart) {
  const Status absent = absent_ranks(call.present, scenario_.world_size);
  CallResult result;
  if (call.rows.empty()) {
    result.outcome.error = absent;
    return result;
  }
  const std::string& frame = call.rows.front().frame;
  std::deque<CodeCache> copies;
  std::vector<std::unique_ptr<CallMachine>> machines;
  for (const Row& row : call.rows) {
    CodeCache* cache = &cache_of(row);
    if (apart && !machines.empty()) cache = &copies.emplace_back(*cache);
    machines.push_back(machine(index, row, *cache));
  }
  if (clock_) clock_->begin(call.present, frame);
  if (call.present.size() == scenario_.world_size)
    executor_.run(machines, call.of);
  else
    executor_.time_out(machines, absent);
  result.outcome = std::get<action::Finish>(machines.front()->next()).outcome;
  if (!result.outcome.error || result.outcome.error->code != Code::FrameMismatch)
    result.frame = frame;
  if (result.outcome.kind == CallOutcome::Kind::Compiled)
    result.reported =
        frames_.at(frame).entries[static_cast<std::size_t>(result.outcome.entry)].reported;
  if (clock_)
    clock_->end(!result.outcome.error, [&](std::span<std::int64_t> out) {
      std::vector<std::int64_t> elements;
      for (const Row& row : call.rows) elements.push_back(elements_of(row.seen));
      for (std::size_t r = 0; r < out.size(); ++r)
        out[r] = call.of[r] == UINT32_MAX ? 0 : elements[call.of[r]];
    });
  return result;
}

Profiles DrawnJob::learnt() const {
  Profiles out;
  for (const auto& [name, frame] : frames_)
    if (!frame.entries.empty()) out[name] = profile_of(frame);
  return out;
}

std::optional<Timing> DrawnJob::take_timing() {
  return clock_ ? std::optional(clock_->take()) : std::nullopt;
}

}  // namespace lockstep::worker::simulator
