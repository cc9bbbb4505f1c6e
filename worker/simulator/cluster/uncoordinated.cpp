// The counterfactual: what the ranks would do without lockstep. Every class of equal ranks, or
// every rank if ranks draw their own inputs, runs alone, as a group of one, through the same call
// machine.
#include <algorithm>
#include <map>
#include <mutex>
#include <span>

#include <lockstep/worker/simulator/cluster/call_view.h>
#include <lockstep/worker/simulator/cluster/cause.h>
#include <lockstep/worker/simulator/cluster/dry_run.h>
#include <lockstep/worker/simulator/cluster/rank_executor.h>
#include <lockstep/worker/simulator/draw/parallel.h>

namespace lockstep::worker::simulator {
namespace {

/// Answers the machine of a group of one: its vote is the result, its payload the join.
CallOutcome run_alone(CallMachine& machine, const KnownTraces* traces) {
  for (;;) {
    (void)answer_locally(machine, nullptr, traces);
    const Action action = machine.next();
    if (const auto* finish = std::get_if<action::Finish>(&action)) return finish->outcome;
    if (const auto* vote = std::get_if<action::Vote>(&action)) {
      machine.voted(vote->mine);
    } else if (const auto* to_join = std::get_if<action::TreeJoin>(&action)) {
      machine.joined(to_join->mine);
    } else if (const auto* broadcast = std::get_if<action::Broadcast>(&action)) {
      machine.joined(broadcast->mine);
    }
  }
}

/// A class of ranks, or a rank, that runs alone.
struct LoneRank {
  std::map<std::string, CodeCache> frames;
  std::map<std::string, std::vector<shapes::Fingerprint>> programs;  // programs of the entries, by
                                                                     // frame
  int compiles = 0;
  int entry = -1;  // run by the last call
};

/// What a rank ran in one call.
struct Ran {
  std::optional<shapes::Fingerprint> program;  // nullopt: fallback
  bool compiled = false;
  auto operator<=>(const Ran&) const = default;
};
/// The different programs that ranks ran in one call, by frame; sorted.
using CallRuns = std::map<std::string, std::vector<Ran>>;
struct CallOfAll {
  CallRuns runs;
  bool by_all = false;  // every rank makes it, and all call one frame
};

Ran run_call(const Scenario& scenario, std::size_t index, const std::string& name,
             const Observation& observation, LoneRank& rank) {
  CodeCache& frame = rank.frames[name];
  frame.name = name;
  RoundKey key;
  key.group = "alone";
  key.frame = name;
  key.round = key.call = index;
  CallMachine machine(Rank{0}, 1, scenario.config_of(name), std::move(key), frame, observation);
  const CallOutcome outcome = run_alone(machine, scenario.traces.get());
  std::vector<shapes::Fingerprint>& programs = rank.programs[name];
  while (programs.size() < frame.entries.size())
    programs.push_back(program_of(frame.entries[programs.size()].decision));
  Ran ran;
  rank.entry = outcome.entry;
  ran.compiled = outcome.kind == CallOutcome::Kind::Compiled;
  if (ran.compiled) ++rank.compiles;
  if (outcome.entry >= 0) ran.program = programs[static_cast<std::size_t>(outcome.entry)];
  return ran;
}

/// Returns how a decision treats each value.
std::vector<std::string> uses_of(const Decision& decision) {
  std::vector<std::string> out;
  for (const SourceDecision& source : decision.sources)
    for (const DimDecision& dim : source.dims) {
      if (!dim.is_symbol) {
        out.push_back(std::to_string(dim.value));
        continue;
      }
      const SymbolDecision& symbol = decision.symbols[dim.symbol];
      std::string use = symbol.unbacked ? "unbacked" : "dynamic";
      if (symbol.min) use += " from " + std::to_string(*symbol.min) + " on";
      out.push_back(std::move(use));
    }
  return out;
}

/// Runs all representatives through the whole scenario, part by part on all cores, so that few
/// caches are held at once.
class Runs {
 public:
  Runs(const Scenario& scenario, const OnProgress& progress)
      : scenario_(scenario),
        progress_(progress),
        classes_(classes_of(scenario)),
        representatives_(representatives_of(classes_, scenario.generator.apart())),
        calls_(scenario.count()) {}

  Uncoordinated run() {
    in_parts(representatives_,
             [&](std::size_t, std::span<const Representative> part) { run(part); });
    for (std::size_t c = 0; c < calls_.size(); ++c) judge(c);
    return out_;
  }

  /// Returns which ranks first diverge in call `c`, and over what; nullopt if none do.
  std::optional<Cause> cause(std::size_t c) {
    constexpr std::size_t kTogether = 4096;
    std::map<std::string, std::pair<Ran, Representative>> first;  // by frame
    for (std::size_t at = 0; at < representatives_.size(); at += kTogether) {
      const std::size_t count = std::min(kTogether, representatives_.size() - at);
      std::vector<std::optional<std::pair<std::string, Ran>>> ran(count);
      in_parts(std::span(representatives_).subspan(at, count),
               [&](std::size_t begin, std::span<const Representative> part) {
                 std::ranges::move(run_up_to(c, part, nullptr),
                                   ran.begin() + static_cast<std::ptrdiff_t>(begin));
               });
      for (std::size_t i = 0; i < count; ++i) {
        if (!ran[i]) continue;
        const auto& [frame, run] = *ran[i];
        const auto known = first.try_emplace(frame, run, representatives_[at + i]).first;
        if (known->second.first == run) continue;
        Side a, b;
        if (!run_up_to(c, std::span(&known->second.second, 1), &a)[0] ||
            !run_up_to(c, std::span(&representatives_[at + i], 1), &b)[0])
          return std::nullopt;  // the call cannot be read again
        return cause_of(scenario_, c, frame, a, b);
      }
    }
    return std::nullopt;
  }

 private:
  /// Runs parts of the representatives on all cores. `work` also gets the part's offset in
  /// `representatives`.
  template <class Work>
  void in_parts(std::span<const Representative> representatives, Work work) const {
    // Stored calls are read again for each part, so there the parts are large.
    const std::size_t together = scenario_.stored ? 4096 : 64;
    in_parallel((representatives.size() + together - 1) / together, [&](std::size_t part) {
      const std::size_t first = part * together;
      work(first,
           representatives.subspan(first, std::min(together, representatives.size() - first)));
    });
  }

  /// Returns, for each representative, the frame that it calls in call `c` and what it runs there;
  /// nullopt if it is absent. `side`, if not null, is filled for the only representative.
  std::vector<std::optional<std::pair<std::string, Ran>>> run_up_to(
      std::size_t c, std::span<const Representative> representatives, Side* side) {
    std::vector<LoneRank> ranks(representatives.size());
    for (std::size_t i = 0; i < c; ++i)
      (void)run_call_of(i, CallView(scenario_, classes_, i), representatives, ranks);
    const CallView view(scenario_, classes_, c);
    std::vector<std::optional<std::pair<std::string, Ran>>> out(representatives.size());
    Observation room;
    for (std::size_t i = 0; i < representatives.size(); ++i) {
      if (!view.made_by(representatives[i])) continue;
      const std::string& frame = view.frame(representatives[i]);
      out[i].emplace(frame,
                     run_call(scenario_, c, frame, view.of(representatives[i], room), ranks[i]));
      if (side == nullptr) continue;
      side->rank = Rank{representatives[i].rank};
      side->compiled = out[i]->second.compiled;
      side->seen = view.of(representatives[i], room);
      const CodeCache& cache = ranks[i].frames.at(frame);
      if (ranks[i].entry >= 0)
        side->uses = uses_of(cache.entries[static_cast<std::size_t>(ranks[i].entry)].decision);
    }
    return out;
  }

  void run(std::span<const Representative> representatives) {
    std::vector<LoneRank> ranks(representatives.size());
    for (std::size_t c = 0; c < calls_.size(); ++c) {
      const CallView view(scenario_, classes_, c);
      add(c, run_call_of(c, view, representatives, ranks), view.made_by_all());
    }
    const std::lock_guard lock(mutex_);
    for (const LoneRank& rank : ranks)
      out_.compiles_per_rank_max = std::max(out_.compiles_per_rank_max, rank.compiles);
    done_ += representatives.size();
    if (progress_) progress_("ranks alone", done_, representatives_.size());
  }

  CallRuns run_call_of(std::size_t c, const CallView& view,
                       std::span<const Representative> representatives,
                       std::vector<LoneRank>& ranks) {
    CallRuns runs;
    Observation room;
    for (std::size_t i = 0; i < representatives.size(); ++i) {
      if (!view.made_by(representatives[i])) continue;
      const std::string& frame = view.frame(representatives[i]);
      runs[frame].push_back(
          run_call(scenario_, c, frame, view.of(representatives[i], room), ranks[i]));
    }
    return runs;
  }

  void add(std::size_t c, CallRuns runs, bool by_all) {
    const std::lock_guard lock(mutex_);
    calls_[c].by_all = by_all;
    for (auto& [frame, ran] : runs) {
      std::vector<Ran>& all = calls_[c].runs[frame];
      all.insert(all.end(), ran.begin(), ran.end());
      std::sort(all.begin(), all.end());
      all.erase(std::unique(all.begin(), all.end()), all.end());
    }
  }

  void judge(std::size_t c) {
    bool compiled = false, fell_back = false;
    for (const auto& [frame, ran] : calls_[c].runs)
      for (const Ran& one : ran) {
        compiled |= one.compiled;
        fell_back |= !one.program;
      }
    ++(!calls_[c].by_all ? out_.errors
       : fell_back       ? out_.fallbacks
       : compiled        ? out_.compiles
                         : out_.reuses);
    for (auto& [frame, ran] : calls_[c].runs) {
      if (ran.size() > 1 && !out_.first_divergent_call) out_.first_divergent_call = c;
      const auto end = std::unique(ran.begin(), ran.end(), [](const Ran& a, const Ran& b) {
        return a.program == b.program;
      });
      out_.distinct_graphs_max =
          std::max(out_.distinct_graphs_max, static_cast<int>(end - ran.begin()));
    }
  }

  const Scenario& scenario_;
  const OnProgress& progress_;
  std::vector<RankClass> classes_;
  std::vector<Representative> representatives_;
  std::mutex mutex_;  // guards the members below
  std::vector<CallOfAll> calls_;
  std::size_t done_ = 0;
  Uncoordinated out_;
};

}  // namespace

Uncoordinated run_uncoordinated(const Scenario& scenario, const OnProgress& progress) {
  return Runs(scenario, progress).run();
}

std::optional<Cause> uncoordinated_cause(const Scenario& scenario, std::size_t call) {
  return Runs(scenario, {}).cause(call);
}

std::uint64_t uncoordinated_bytes(const Scenario& scenario) {
  if (!scenario.generator.apart()) return 0;
  return static_cast<std::uint64_t>(scenario.world_size) *
         (sizeof(Representative) + scenario.count() * sizeof(Ran));
}

}  // namespace lockstep::worker::simulator
