#include "program.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep::fuzz {
namespace {

using worker::Kind;
using worker::simulator::ScenarioValue;

std::string value_text(const ScenarioValue& value) {
  switch (value.kind) {
    case Kind::Int:
      return fmt::format("{}", value.number);
    case Kind::Bool:
      return value.number != 0 ? "true" : "false";
    case Kind::Float:
      return "float";
    case Kind::Tensor:
      break;
  }
  std::string text = fmt::format("{}{}", dtype_name(value.dtype), value.sizes);
  for (std::size_t d = 0; d < value.marks.size(); ++d)
    if (value.marks[d] != worker::Mark::None)
      text += fmt::format(" {}:{}", d, worker::mark_name(value.marks[d]));
  return text;
}

std::string values_text(const Values& values) {
  std::string text;
  for (const auto& [name, value] : values)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, value_text(value));
  return text.empty() ? "no inputs" : text;
}

std::string group_text(const GroupPlan& group) {
  constexpr std::array kConsistency{"same_graph", "same_collectives", "shared_sizes"};
  return fmt::format("ranks {}, {}{}{}, limit {}{}{}{}{}{}", group.members.text(),
                     kConsistency[static_cast<std::size_t>(group.config.consistency)],
                     group.config.automatic_dynamic ? "" : ", no automatic dynamic",
                     group.config.assume_at_least_two ? "" : ", sizes from 0",
                     group.config.recompile_limit, group.config.settle ? ", settles" : "",
                     group.branches ? ", branches" : "", group.asks ? ", asks the group" : "",
                     group.pads ? ", pads" : "", group.builds ? ", builds" : "");
}

std::string step_text(const Step& step, const GroupPlan& group) {
  std::string text = fmt::format("{}{}{} in group {}", step_name(step.kind),
                                 step.frame.empty() ? "" : " ", step.frame, step.group);
  if (step.kind == Step::Kind::Any) text += fmt::format(", ranks that say yes: {:b}", step.yes);
  if (step.ahead != 0) text += fmt::format(", prefetched {} steps earlier", step.ahead);
  std::size_t place = 0;
  for (const RankSet::Run& run : group.members.runs())
    for (int r = run.first; r <= run.last && !step.inputs.empty(); ++r, ++place) {
      text += fmt::format("\n    rank {}: {}", r, values_text(step.inputs[place]));
      if (!step.batches.empty()) text += fmt::format(", {} times", step.batches[place]);
    }
  return text;
}

/// Faults by which a rank breaks the promise that it gave by a prefetch.
bool breaks_promise(Fault::Kind kind) {
  using K = Fault::Kind;
  return kind == K::OtherPromise || kind == K::NoPromise || kind == K::Trouble ||
         kind == K::Pending || kind == K::WrongFrame;
}

/// Ends the job, whatever the program.
bool ends_job(Fault::Kind kind) {
  return kind >= Fault::Kind::Leave && kind <= Fault::Kind::Freeze;
}

}  // namespace

std::string_view fault_name(Fault::Kind kind) {
  constexpr std::array<std::string_view, kFaultKinds> kNames{"trouble",
                                                             "trace fails",
                                                             "graph differs",
                                                             "compile fails",
                                                             "wrong frame",
                                                             "other pending",
                                                             "builder dies",
                                                             "rejects text",
                                                             "corrupt unit",
                                                             "other object",
                                                             "lost cache",
                                                             "garbled payload",
                                                             "pause",
                                                             "slow",
                                                             "stop",
                                                             "skipped step",
                                                             "other promise",
                                                             "no promise",
                                                             "leaves",
                                                             "hangs",
                                                             "crash",
                                                             "freeze",
                                                             "ignores commit votes"};
  return kNames[static_cast<std::size_t>(kind)];
}

bool at_step(Fault::Kind kind) {
  using K = Fault::Kind;
  return kind != K::Slow && kind != K::Stop && kind != K::Crash && kind != K::Freeze &&
         kind != K::IgnoresCommit;
}

std::string_view step_name(Step::Kind kind) {
  constexpr std::array<std::string_view, kStepKinds> kNames{"call",   "settle", "any",  "more",
                                                            "resync", "audit",  "local"};
  return kNames[static_cast<std::size_t>(kind)];
}

Values batch_of(const Values& inputs, int batches, int turn) {
  Values out = inputs;
  for (auto& [name, value] : out)
    if (!value.sizes.empty()) value.sizes[0] = turn < batches ? value.sizes[0] + turn : 0;
  return out;
}

bool Program::strikes(Fault::Kind kind) const {
  return std::any_of(faults.begin(), faults.end(), [&](const Fault& f) { return f.kind == kind; });
}

bool Program::strikes(Fault::Kind kind, Rank rank, std::size_t step) const {
  return std::any_of(faults.begin(), faults.end(), [&](const Fault& f) {
    return f.kind == kind && f.rank == rank.value && f.step == step;
  });
}

bool Program::strays() const {
  return std::any_of(faults.begin(), faults.end(), [&](const Fault& f) {
    const auto ahead_in_group = [&](const Step& step) {
      return step.ahead != 0 && step.group == steps[f.step].group;
    };
    if (!at_step(f.kind)) return false;
    // Once a vote is out ahead, another order of rounds is another order of messages.
    if (f.kind == Fault::Kind::Skip || f.kind == Fault::Kind::Leave ||
        f.kind == Fault::Kind::WrongFrame)
      return std::any_of(steps.begin(), steps.end(), ahead_in_group);
    return breaks_promise(f.kind) && steps[f.step].ahead != 0;
  });
}

bool Program::gets_lost() const {
  return strikes(Fault::Kind::Skip) || (recovers && strikes(Fault::Kind::WrongFrame));
}

bool Program::ends_early() const {
  // Ranks that are out of step go through the groups in different orders.
  const bool skips = strikes(Fault::Kind::Skip) && !(recovers && groups.size() == 1);
  return skips || strays() ||
         std::any_of(faults.begin(), faults.end(), [](const Fault& f) { return ends_job(f.kind); });
}

std::vector<std::vector<std::size_t>> Program::promises() const {
  std::vector<std::vector<std::size_t>> before(steps.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::vector<std::size_t> own;  // steps of the group
    // By frame: the first place at which its next call may be promised.
    std::map<std::string, std::size_t> from;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      if (steps[s].group != g) continue;
      const std::size_t place = own.size();
      own.push_back(s);
      std::size_t& first = from[steps[s].frame];
      if (steps[s].ahead != 0) {
        first = std::max(first, place - std::min(place, steps[s].ahead));
        before[own[first]].push_back(s);
      } else {
        first = place + 1;
      }
    }
  }
  return before;
}

std::string program_text(const Program& program) {
  std::string text =
      fmt::format("{} ranks{}\n", program.ranks, program.recovers ? ", recover" : "");
  for (std::size_t r = 0; r < program.hosts.size(); ++r)
    text +=
        fmt::format("rank {}: processor {}, compiler {}{}\n", r, program.hosts[r].processor,
                    program.hosts[r].compiler, program.hosts[r].store ? ", keeps artifacts" : "");
  constexpr std::array kStarts{"nothing", "the same program", "another program",
                               "the same program, damaged"};
  for (std::size_t r = 0; r < program.starts.size(); ++r)
    text += fmt::format("rank {}: starts from the profile of {}\n", r,
                        kStarts[static_cast<std::size_t>(program.starts[r])]);
  for (std::size_t g = 0; g < program.groups.size(); ++g)
    text += fmt::format("group {}: {}\n", g, group_text(program.groups[g]));
  for (std::size_t s = 0; s < program.steps.size(); ++s)
    text += fmt::format("step {}: {}\n", s,
                        step_text(program.steps[s], program.groups[program.steps[s].group]));
  for (const Fault& fault : program.faults)
    text += fmt::format("fault: rank {}, {}{}, amount {}\n", fault.rank, fault_name(fault.kind),
                        at_step(fault.kind) ? fmt::format(" at step {}", fault.step) : "",
                        fault.amount);
  return text;
}

}  // namespace lockstep::fuzz
