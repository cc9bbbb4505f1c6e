// Random programs with collectives over overlapping groups, with the expected values of every rank
// from plain loops. For tests on threads and on real ranks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <lockstep/worker/tensor/language/collective_ops.h>

namespace lockstep::worker {

/// One program for all ranks of a job of `size`; the same for the same seed.
class GroupProgram {
 public:
  GroupProgram(int size, unsigned seed);

  /// Per name, the sets into which the job's ranks are divided.
  [[nodiscard]] const std::map<std::string, std::vector<RankSet>>& layouts() const {
    return layouts_;
  }
  [[nodiscard]] RankSet set_of(const std::string& name, int rank) const;
  /// The group as Job::group returns it.
  [[nodiscard]] Group group_of(const std::string& name, int rank) const;
  /// The input of rank `rank`: f64 [width()].
  [[nodiscard]] std::vector<double> input(int rank) const;
  [[nodiscard]] std::int64_t width() const { return times_ * width_; }
  /// Makes inputs `times` times as wide; the program stays as it is.
  void widen(std::int64_t times) { times_ = times; }
  /// Traces the program.
  [[nodiscard]] Tensor traced(Tensor x, const std::map<std::string, Group>& groups) const;
  /// The output that each rank must get.
  [[nodiscard]] std::vector<std::vector<double>> expected() const;

 private:
  enum class What : std::uint8_t { Sum, Max, GatherScatter, Broadcast, AllToAll, AddRank };
  struct Step {
    What what = What::Sum;
    std::string group;  // empty: all
    unsigned root = 0;  // modulo the group's size
  };
  using Values = std::vector<std::vector<double>>;
  [[nodiscard]] std::vector<std::vector<int>> sets(const std::string& name) const;
  static void apply(const Step& step, const std::vector<int>& members, Values& values);

  int size_;
  unsigned seed_;
  std::int64_t width_, times_ = 1;
  std::map<std::string, std::vector<RankSet>> layouts_;
  std::vector<Step> steps_;
};

}  // namespace lockstep::worker
