// One program, held against all that can be said of it.
#include <algorithm>
#include <map>
#include <tuple>

#include "check.h"
#include <fmt/format.h>

namespace lockstep::fuzz {
namespace {

std::string told(const Ended& one) {
  return fmt::format("{} graph {} objects {} past {:x}", outcome_text(one.outcome),
                     one.graph.text(), one.objects.text(), one.past) +
         (one.finding ? one.finding->text() : "");
}

/// Nothing is expected but what the inputs come to: no fault, nothing known beforehand, nothing
/// that a trace or a host adds.
bool is_plain(const Program& program) {
  return program.faults.empty() && program.starts.empty() &&
         std::none_of(program.groups.begin(), program.groups.end(),
                      [](const GroupPlan& g) { return g.branches || g.asks || g.pads; }) &&
         std::all_of(program.hosts.begin(), program.hosts.end(),
                     [](const Host& host) { return host.compiler != 0; });
}

}  // namespace

std::optional<Violation> check_same(const Run& a, const Run& b) {
  using Key = std::tuple<int, std::size_t, std::uint64_t>;
  const auto by_key = [](const Run& run) {
    std::map<Key, const Ended*> out;
    for (const Ended& one : run.ended) out[{one.rank, one.group, one.ordinal}] = &one;
    return out;
  };
  const auto first = by_key(a), second = by_key(b);
  if (first.size() != second.size()) return Violation{"I2", "other delays, other ends"};
  for (auto i = first.begin(), j = second.begin(); i != first.end(); ++i, ++j)
    if (i->first != j->first || told(*i->second) != told(*j->second))
      return Violation{"I2",
                       "other delays: " + seen(*i->second) + "\n  became " + seen(*j->second)};
  return std::nullopt;
}

Verdict examine(const Program& program, std::uint64_t seed) {
  Verdict verdict;
  verdict.run = run(program, {.network_seed = seed});
  verdict.violation = check(program, verdict.run);
  if (verdict.violation) return verdict;
  if (program.ends_early()) {
    if (run(program, {.network_seed = seed}).digest() != verdict.run.digest())
      verdict.violation = Violation{"replay", "the same seed ran differently"};
    return verdict;
  }
  const Run other = run(program, {.network_seed = ~seed});
  verdict.violation = check(program, other);
  if (!verdict.violation) verdict.violation = check_same(verdict.run, other);
  if (!verdict.violation) verdict.violation = check_restart(program, verdict.run);
  if (!is_plain(program) || verdict.violation) return verdict;
  verdict.oracle = true;
  verdict.violation = check_oracle(program, verdict.run);
  return verdict;
}

}  // namespace lockstep::fuzz
