// Ranks whose inputs are the same in every call of a scenario behave alike, so one of them can be
// simulated for all. A sweep over range boundaries finds them, without a loop over ranks.
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

/// Partition of the ranks, refined call by call. Holds runs of ranks, and nothing of the calls.
class RankPartition {
 public:
  explicit RankPartition(int world_size) : world_size_(world_size) {}
  void add(const ScenarioCall& call);
  /// Adds disjoint sets; each rank is in one of them, or in none.
  void add(const std::vector<RankSet>& groups);
  /// Classes, by their lowest ranks. They cover the world.
  [[nodiscard]] std::vector<RankClass> classes() const;

 private:
  int world_size_;
  std::vector<std::int32_t> starts_{0};  // first rank of each run of equal ranks so far, ascending
  std::vector<int> class_of_{0};         // class of each run; numbered by lowest ranks
  std::vector<RankSet> last_;            // sets of the last add(); a repetition changes nothing
};

/// Classes of a whole scenario, by their lowest ranks. Ranks of a class have the same inputs in all
/// explicit calls and make the same generated calls, but may draw different inputs there.
[[nodiscard]] std::vector<RankClass> classes_of(const Scenario& scenario);

/// Group of the call that each class is in; -1: the class is absent. The ranks of a class are
/// together in every call.
[[nodiscard]] std::vector<int> groups_of(const std::vector<RankClass>& classes,
                                         const ScenarioCall& call);
/// As above, for a call that all present ranks make as one group: 0, or -1 if the class is absent.
[[nodiscard]] std::vector<int> groups_of(const std::vector<RankClass>& classes,
                                         const RankSet& present);

}  // namespace lockstep::worker::simulator
