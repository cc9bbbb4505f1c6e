#include <algorithm>
#include <atomic>
#include <map>
#include <set>

#include <lockstep/worker/simulator/answers/pytorch_model.h>
#include <lockstep/worker/simulator/answers/upstream_program.h>
#include <lockstep/worker/simulator/cluster/call_view.h>
#include <lockstep/worker/simulator/cluster/cause.h>
#include <lockstep/worker/simulator/draw/parallel.h>

namespace lockstep::worker::simulator {
namespace {

using Programs = std::vector<std::uint32_t>;  // indices into all programs, the last used first

struct UpstreamFrame {
  std::map<std::size_t, FrameState> states;  // by class
  std::vector<Programs> entries;             // by representative
  int compiles = 0;
};

void add_to(FrameState& joined, const Observation& seen) {
  for (std::size_t s = 0; s < seen.list->sources().size(); ++s) {
    const SourceSpec& spec = seen.list->sources()[s];
    const auto values = seen.of(s);
    shapes::Dynamism mine;
    if (spec.kind == Kind::Int) mine = shapes::Dynamism::of_int(values[0]);
    if (spec.kind == Kind::Tensor) mine = shapes::Dynamism::of_tensor(values);
    for (std::size_t d = 0; spec.kind == Kind::Tensor && d < values.size(); ++d)
      if (seen.mark(s, d) == Mark::Dynamic) mine.size.dims[d] = shapes::Seen::dynamic();
    if (spec.kind != Kind::Int && spec.kind != Kind::Tensor) continue;
    shapes::Dynamism& all = joined[spec.name];
    all = join(all, mine);
  }
}

class Upstream {
 public:
  Upstream(const Scenario& scenario, const OnProgress& progress)
      : scenario_(scenario),
        progress_(progress),
        classes_(classes_of(scenario)),
        representatives_(representatives_of(classes_, scenario.generator.apart())) {
    out_.name = "upstream";
  }

  RunVariant run() {
    for (std::size_t c = 0; c < scenario_.count(); ++c) {
      if (progress_) progress_("calls, upstream's way", c, scenario_.count());
      const CallView view(scenario_, classes_, c);
      if (!view.made_by_all())
        ++out_.errors;  // some ranks wait for others until the time-out
      else
        call(c, view.frame(representatives_.front()), view);
    }
    return std::move(out_);
  }

 private:
  void call(std::size_t c, const std::string& name, const CallView& view) {
    UpstreamFrame& frame = frames_[name];
    frame.entries.resize(representatives_.size());
    if (hit(frame, view)) {
      ++out_.reuses;
    } else if (frame.entries.front().size() >=
               static_cast<std::size_t>(scenario_.config.recompile_limit)) {
      ++out_.fallbacks;
      return;
    } else if (compile(frame, view)) {
      ++out_.compiles;
      ++out_.compiles_per_rank_max;
      ++out_.restarts_per_rank_max;  // for the trace that was discarded after the exchange of sizes
    } else {
      ++out_.errors;
      return;
    }
    compare(c, name, frame, view);
  }

  /// True if every rank has an entry that fits. Moves these entries to the front.
  bool hit(UpstreamFrame& frame, const CallView& view) {
    if (frame.entries.front().empty()) return false;
    if (all_sure(frame, view)) return true;
    std::vector<std::uint32_t> hits(representatives_.size());
    std::atomic<bool> all{true};
    const std::vector<RankSet::Run> shares =
        shares_of(static_cast<std::int32_t>(representatives_.size()));
    in_parallel(shares.size(), [&](std::size_t share) {
      Observation room;
      for (std::int32_t m = shares[share].first; m <= shares[share].last && all; ++m) {
        const auto at = static_cast<std::size_t>(m);
        const Observation& seen = view.of(representatives_[at], room);
        const Programs& entries = frame.entries[at];
        while (hits[at] < entries.size() && !programs_[entries[hits[at]]].fits(seen)) ++hits[at];
        if (hits[at] == entries.size()) all = false;
      }
    });
    if (!all) return false;
    for (std::size_t m = 0; m < representatives_.size(); ++m) {
      const auto first = frame.entries[m].begin();
      std::rotate(first, first + hits[m], first + hits[m] + 1);
    }
    return true;
  }

  /// True if all ranks run one program, whatever they draw.
  bool all_sure(const UpstreamFrame& frame, const CallView& view) const {
    if (view.drawn() == nullptr) return false;
    const std::uint32_t front = frame.entries.front().front();
    const UpstreamProgram& program = programs_[front];
    return program.fits(view.drawn()->least()) && program.fits(view.drawn()->greatest()) &&
           std::all_of(frame.entries.begin(), frame.entries.end(),
                       [&](const Programs& entries) { return entries.front() == front; });
  }

  /// Observations of all ranks, joined by source.
  FrameState joined(const CallView& view) const {
    FrameState out;
    Observation room;
    if (view.drawn() == nullptr) {
      for (const Representative& representative : representatives_)
        add_to(out, view.of(representative, room));
      return out;
    }
    // A size is equal on all ranks if its least and greatest values are equal.
    Observation least = view.of(representatives_.front(), room), greatest = least;
    for (const Representative& representative : representatives_) {
      const Observation& seen = view.of(representative, room);
      for (std::size_t i = 0; i < seen.values.size(); ++i) {
        least.values[i] = std::min(least.values[i], seen.values[i]);
        greatest.values[i] = std::max(greatest.values[i], seen.values[i]);
      }
    }
    add_to(out, least);
    add_to(out, greatest);
    return out;
  }

  /// Returns false if some rank cannot compile; the others then wait for it.
  bool compile(UpstreamFrame& frame, const CallView& view) {
    const FrameState all = joined(view);
    std::map<std::size_t, FrameState> states = frame.states;
    std::map<std::size_t, std::shared_ptr<const UpstreamBase>> bases;
    std::vector<std::uint32_t> made(representatives_.size());
    std::map<std::pair<const UpstreamBase*, UpstreamProgram::Constants>, std::uint32_t> known;
    Observation room;
    for (std::size_t m = 0; m < representatives_.size(); ++m) {
      const Observation& seen = view.of(representatives_[m], room);
      auto& base = bases[representatives_[m].of];
      if (!base) {
        FrameState& state = states[representatives_[m].of];
        for (const SourceSpec& spec : seen.list->sources())
          if (const auto joint = all.find(spec.name); joint != all.end())
            state[spec.name] = join(state[spec.name], joint->second);
        base = std::make_shared<const UpstreamBase>(
            decide_upstream(seen, state, scenario_.config.automatic_dynamic));
      }
      auto own = own_constants(*base, seen);
      if (!own) return false;
      const auto [at, fresh] =
          known.try_emplace({base.get(), *own}, static_cast<std::uint32_t>(programs_.size()));
      if (fresh) programs_.push_back(UpstreamProgram::make(base, *std::move(own)));
      made[m] = at->second;
    }
    frame.states = std::move(states);
    for (std::size_t m = 0; m < representatives_.size(); ++m)
      frame.entries[m].insert(frame.entries[m].begin(), made[m]);
    return true;
  }

  /// Compares the programs that run in the call.
  void compare(std::size_t c, const std::string& name, const UpstreamFrame& frame,
               const CallView& view) {
    std::set<std::uint32_t> used;
    for (const Programs& entries : frame.entries) used.insert(entries.front());
    std::set<shapes::Fingerprint> prints;
    for (const std::uint32_t program : used) prints.insert(programs_[program].print);
    out_.distinct_graphs_max = std::max(out_.distinct_graphs_max, static_cast<int>(prints.size()));
    if (prints.size() < 2 || out_.first_divergent_call) return;
    out_.first_divergent_call = c;
    const auto print_of = [&](std::size_t m) { return programs_[frame.entries[m].front()].print; };
    std::size_t other = 1;
    while (print_of(other) == print_of(0)) ++other;
    const auto side = [&](std::size_t m) {
      Observation room;
      const Observation seen = view.of(representatives_[m], room);
      return Side{Rank{representatives_[m].rank}, seen, false,
                  programs_[frame.entries[m].front()].uses()};
    };
    out_.cause = cause_of(scenario_, c, name, side(0), side(other));
  }

  const Scenario& scenario_;
  const OnProgress& progress_;
  std::vector<RankClass> classes_;
  std::vector<Representative> representatives_;
  std::map<std::string, UpstreamFrame> frames_;
  std::vector<UpstreamProgram> programs_;
  RunVariant out_;
};

}  // namespace

RunVariant pytorch_model(const Scenario& scenario, const OnProgress& progress) {
  return Upstream(scenario, progress).run();
}

std::uint64_t pytorch_model_bytes(const Scenario& scenario) {
  if (!scenario.generator.apart()) return 0;
  // Sizes of 0 and 1 may give every rank a program of its own in each compile.
  std::map<std::string, std::uint64_t> own;  // by frame
  for (const Block& block : scenario.generator.blocks) {
    std::vector<const GeneratedCall*> kinds{&block.call};
    for (const Variant& variant : block.variants) kinds.push_back(&variant.call);
    for (const GeneratedCall* kind : kinds) {
      std::uint64_t& most = own[kind->frame];
      const auto small = static_cast<std::uint64_t>(
          std::count_if(kind->draws.begin(), kind->draws.end(),
                        [](const Draw& draw) { return draw.reach().low < 2; }));
      most = std::max(most, small);
    }
  }
  std::uint64_t bytes = 0;
  for (const auto& [frame, small] : own)
    bytes += static_cast<std::uint64_t>(scenario.config.recompile_limit) *
             (4 + (small > 0 ? sizeof(UpstreamProgram) + 160 +
                                   2 * small * sizeof(UpstreamProgram::Constants::value_type)
                             : 0));
  return static_cast<std::uint64_t>(scenario.world_size) * (bytes + 64);
}

}  // namespace lockstep::worker::simulator
