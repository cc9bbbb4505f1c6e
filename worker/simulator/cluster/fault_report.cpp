#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/simulator/cluster/fault_report.h>
#include <lockstep/worker/simulator/cluster/timed_run.h>

namespace lockstep::worker::simulator {
namespace {

using Kind = Fault::Kind;

/// Returns how many of the first `count` calls had this outcome; `count` is capped by the run.
std::int64_t with(CallOutcome::Kind kind, const TimedRun& run, std::size_t count) {
  count = std::min(count, run.calls.size());
  return std::count_if(run.calls.begin(), run.calls.begin() + static_cast<std::ptrdiff_t>(count),
                       [kind](const CallResult& call) { return call.outcome.kind == kind; });
}

bool intersects(const RankSet& a, const RankSet& b) { return a.minus(b) != a; }

JobOutcome job_outcome(const TimedRun& run, const TimedRun& without) {
  JobOutcome out;
  out.ends = run.verdict || run.hangs;
  if (run.verdict) out.exit_code = exit_code(run.verdict->code);
  out.calls = run.calls.size();
  const auto more = [&](CallOutcome::Kind kind) {
    const std::size_t both = std::min(out.calls, without.calls.size());
    return with(kind, run, both) - with(kind, without, both);
  };
  out.more_compiles = more(CallOutcome::Kind::Compiled);
  out.more_errors = more(CallOutcome::Kind::Error);
  if (!out.ends) out.longer = run.end - without.end;
  std::vector<Duration> waits;
  for (std::size_t r = 0; r < run.waited.size(); ++r)
    waits.push_back(std::max(Duration{0}, run.waited[r] - without.waited[r]));
  const auto middle = waits.begin() + static_cast<std::ptrdiff_t>(waits.size() / 2);
  std::nth_element(waits.begin(), middle, waits.end());
  out.wait_median = *middle;
  out.wait_max = *std::max_element(waits.begin(), waits.end());
  out.last = run.last;
  return out;
}

/// Finds the first error that reports the fault: an error of a call that the run without faults
/// does not have, or the error that ends the job. `alone`: the error can only be about this fault.
FaultOutcome fault_outcome(const Fault& fault, const std::optional<Instant>& struck,
                           const TimedRun& run, const TimedRun& without, bool alone) {
  FaultOutcome out;
  out.struck = struck;
  if (!struck) return out;
  const auto found = [&](const Status& error, Instant when) {
    out.named = named_ranks(error, run.culprits);
    if (!alone && !intersects(out.named, fault.ranks)) {
      out.named = {};
      return false;
    }
    out.detected = error;
    out.after = when - *struck;
    return true;
  };
  const bool told_by_a_call = row_of(fault.kind).is(FaultRow::ReportedByCall);
  for (std::size_t i = 0; told_by_a_call && i < run.calls.size(); ++i) {
    const auto& error = run.calls[i].outcome.error;
    const bool before = i < without.calls.size() && error == without.calls[i].outcome.error;
    if (!error || before || run.call_ended[i] < *struck) continue;
    if (found(*error, run.call_ended[i])) return out;
  }
  if (run.verdict && (alone || !told_by_a_call)) (void)found(*run.verdict, run.end);
  return out;
}

}  // namespace

RankSet named_ranks(const Status& error, const RankSet& culprits) {
  if (error.code == Code::Stuck || error.code == Code::RankLost) return culprits;
  const bool failed = error.code == Code::CompileError || error.code == Code::TraceError ||
                      error.code == Code::Environment;
  const RankValue* most = nullptr;
  for (const RankValue& group : error.groups)
    if (most == nullptr || group.ranks.size() > most->ranks.size()) most = &group;
  RankSet out;
  for (const RankValue& group : error.groups)
    if (failed ? group.value != "compiled" && group.value != "traced" : &group != most)
      out.insert(group.ranks);
  return out;
}

FaultReport fault_report(
    const Scenario& scenario,
    const std::function<void(std::string_view what, std::size_t done, std::size_t of)>& progress) {
  FaultReport report;
  report.plan = *scenario.faults;
  const std::vector<Fault>& list = report.plan.list;
  const auto run_with = [&](std::span<const Fault> faults, const std::string& what) {
    TimedRun run = timed_run(scenario, report.plan, faults, [&](std::size_t done, std::size_t of) {
      if (progress) progress(what, done, of);
    });
    report.events += run.events;
    return run;
  };
  const TimedRun without = run_with({}, "calls without faults");
  report.without = without.end;
  report.ends_alone = without.verdict;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const TimedRun run = run_with(std::span(&list[i], 1), fmt::format("calls with fault {}", i));
    report.alone.push_back(
        {fault_outcome(list[i], run.struck[0], run, without, true), job_outcome(run, without)});
  }
  if (list.size() == 1) {
    report.together = {report.alone[0].fault};
    report.job = report.alone[0].job;
    return report;
  }
  const TimedRun all = list.empty() ? without : run_with(list, "calls with all faults");
  for (std::size_t i = 0; i < list.size(); ++i)
    report.together.push_back(fault_outcome(list[i], all.struck[i], all, without, false));
  report.job = job_outcome(all, without);
  return report;
}

}  // namespace lockstep::worker::simulator
