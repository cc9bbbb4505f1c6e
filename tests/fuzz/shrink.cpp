#include "shrink.h"

#include <algorithm>
#include <utility>

namespace lockstep::fuzz {
namespace {

Program without_step(Program program, std::size_t step) {
  program.steps.erase(program.steps.begin() + static_cast<std::ptrdiff_t>(step));
  std::erase_if(program.faults, [&](const Fault& f) { return at_step(f.kind) && f.step == step; });
  for (Fault& fault : program.faults)
    if (fault.step > step) --fault.step;
  return program;
}

Program without_fault(Program program, std::size_t fault) {
  program.faults.erase(program.faults.begin() + static_cast<std::ptrdiff_t>(fault));
  return program;
}

Program without_group(Program program, std::size_t group) {
  for (std::size_t s = program.steps.size(); s-- > 0;)
    if (program.steps[s].group == group) program = without_step(std::move(program), s);
  program.groups.erase(program.groups.begin() + static_cast<std::ptrdiff_t>(group));
  for (Step& step : program.steps)
    if (step.group > group) --step.group;
  return program;
}

RankSet without_rank(const RankSet& set, int rank) {
  RankSet out;
  for (const RankSet::Run& run : set.runs())
    for (int r = run.first; r <= run.last; ++r)
      if (r != rank) out.insert(RankSet::of(Rank{r > rank ? r - 1 : r}));
  return out;
}

Program without_rank(Program program, int rank) {
  for (Step& step : program.steps) {
    const RankSet& members = program.groups[step.group].members;
    if (members.contains(Rank{rank}) && !step.inputs.empty()) {
      const RankSet below = members.minus(RankSet::range(Rank{rank}, Rank{program.ranks}));
      step.inputs.erase(step.inputs.begin() + below.size());
      if (!step.batches.empty()) step.batches.erase(step.batches.begin() + below.size());
    }
    const std::uint64_t low = (std::uint64_t{1} << rank) - 1;
    step.yes = (step.yes & low) | (step.yes >> 1 & ~low);
  }
  if (!program.hosts.empty()) program.hosts.erase(program.hosts.begin() + rank);
  if (!program.starts.empty()) program.starts.erase(program.starts.begin() + rank);
  for (GroupPlan& group : program.groups) group.members = without_rank(group.members, rank);
  std::erase_if(program.faults, [&](const Fault& f) { return f.rank == rank; });
  for (Fault& fault : program.faults)
    if (fault.rank > rank) --fault.rank;
  --program.ranks;
  for (std::size_t g = program.groups.size(); g-- > 1;)
    if (program.groups[g].members.empty()) program = without_group(std::move(program), g);
  return program;
}

/// Without prefetch, and with at most one batch on each rank.
Program plain_step(Program program, std::size_t step) {
  program.steps[step].ahead = 0;
  for (int& batches : program.steps[step].batches) batches = std::min(batches, 1);
  return program;
}

/// A source leaves one step on all ranks.
Program without_source(Program program, std::size_t step, const std::string& name) {
  for (Values& values : program.steps[step].inputs) values.erase(name);
  return program;
}

Program plain_group(Program program, std::size_t group) {
  program.groups[group].config = {};
  program.groups[group].branches = program.groups[group].asks = false;
  program.groups[group].pads = false;
  program.groups[group].builds = false;
  return program;
}

class Shrinker {
 public:
  Shrinker(Program program, const std::function<bool(const Program&)>& fails)
      : program_(std::move(program)), fails_(fails) {}

  Program smallest() {
    do {
      progress_ = false;
      for (std::size_t s = program_.steps.size(); s-- > 0;) attempt(without_step(program_, s));
      for (std::size_t f = program_.faults.size(); f-- > 0;) attempt(without_fault(program_, f));
      for (std::size_t g = program_.groups.size(); g-- > 1;) attempt(without_group(program_, g));
      for (int r = program_.ranks; r-- > 0;)
        if (program_.ranks > 1) attempt(without_rank(program_, r));
      inputs();
    } while (progress_);
    for (std::size_t g = program_.groups.size(); g-- > 0;) attempt(plain_group(program_, g));
    for (std::size_t s = 0; s < program_.steps.size(); ++s) attempt(plain_step(program_, s));
    Program nothing_kept = program_;
    nothing_kept.starts.clear();
    attempt(std::move(nothing_kept));
    Program nothing_built = program_;
    nothing_built.hosts.clear();
    attempt(std::move(nothing_built));
    Program stays_lost = program_;
    stays_lost.recovers = false;
    attempt(std::move(stays_lost));
    return std::move(program_);
  }

 private:
  void inputs() {
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      std::vector<std::string> names;
      for (const Values& values : program_.steps[s].inputs)
        for (const auto& [name, value] : values)
          if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      for (const std::string& name : names) attempt(without_source(program_, s, name));
    }
  }

  void attempt(Program smaller) {
    if (!fails_(smaller)) return;
    program_ = std::move(smaller);
    progress_ = true;
  }

  Program program_;
  const std::function<bool(const Program&)>& fails_;
  bool progress_ = false;
};

}  // namespace

Program shrink(Program program, const std::function<bool(const Program&)>& fails) {
  return Shrinker(std::move(program), fails).smallest();
}

}  // namespace lockstep::fuzz
