// Ranks whose inputs are the same in every call of a scenario behave alike, so one of them can be
// simulated for all. Found by a sweep over range boundaries; no rank is looked at one by one.
#pragma once

#include <vector>

#include <lockstep/worker/simulator/input/scenario_call.h>

namespace lockstep::worker::simulator {

struct Scenario;

/// Ranks that are in the same group of inputs in every call.
struct RankClass {
  RankSet ranks;
  [[nodiscard]] Rank lowest() const { return ranks.lowest(); }
};

/// Ranks told apart call by call. Holds runs of ranks, and nothing of the calls.
class RankPartition {
 public:
  explicit RankPartition(int world_size) : world_size_(world_size) {}
  void add(const ScenarioCall& call);
  /// Ranks are in one of these disjoint sets, or in none.
  void add(const std::vector<RankSet>& groups);
  /// By their lowest ranks. They cover the world.
  [[nodiscard]] std::vector<RankClass> classes() const;

 private:
  int world_size_;
  std::vector<std::int32_t> starts_{0};  // of runs that are alike so far, ascending
  std::vector<int> class_of_{0};         // per run; numbered by lowest ranks
  std::vector<RankSet> last_;            // that were added; a repetition tells nobody apart
};

/// Of a whole scenario, by its explicit calls and by the generated ones that some ranks stay away
/// from; by their lowest ranks. Where ranks draw for themselves, those of a class differ in what
/// they draw.
[[nodiscard]] std::vector<RankClass> classes_of(const Scenario& scenario);

/// Which of the call's groups each class is in; -1: it is absent. In every call the ranks of a
/// class are together.
[[nodiscard]] std::vector<int> groups_of(const std::vector<RankClass>& classes,
                                         const ScenarioCall& call);
/// The same of a call that all present ranks make together: 0, or -1.
[[nodiscard]] std::vector<int> groups_of(const std::vector<RankClass>& classes,
                                         const RankSet& present);

}  // namespace lockstep::worker::simulator
