#include "group_program.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace lockstep::worker {
namespace {

std::vector<int> each_of(const RankSet& set) {
  std::vector<int> out;
  for (const RankSet::Run& run : set.runs())
    for (std::int32_t r = run.first; r <= run.last; ++r) out.push_back(r);
  return out;
}

}  // namespace

GroupProgram::GroupProgram(int size, unsigned seed) : size_(size), seed_(seed) {
  std::mt19937 random(seed);
  width_ = 1;
  for (std::int64_t n = 2; n <= size; ++n) width_ = std::lcm(width_, n);
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  for (const char* name : {"a", "b", "c"}) {
    std::shuffle(ranks.begin(), ranks.end(), random);
    int part = 1 + static_cast<int>(random() % static_cast<unsigned>(size));
    while (size % part != 0) --part;
    for (int first = 0; first < size; first += part) {
      RankSet set;
      for (int i = first; i < first + part; ++i)
        set.insert(RankSet::of(Rank{ranks[static_cast<std::size_t>(i)]}));
      layouts_[name].push_back(set);
    }
  }
  const std::string names[] = {"a", "b", "c", ""};
  for (int i = 0; i < 8; ++i)
    steps_.push_back(
        {static_cast<What>(random() % 6), names[random() % 4], static_cast<unsigned>(random())});
}

RankSet GroupProgram::set_of(const std::string& name, int rank) const {
  for (const RankSet& set : layouts_.at(name))
    if (set.contains(Rank{rank})) return set;
  return {};
}

Group GroupProgram::group_of(const std::string& name, int rank) const {
  Group group{name, set_of(name, rank), {}};
  const std::vector<int> members = each_of(group.members);
  group.rank.value =
      static_cast<std::int32_t>(std::find(members.begin(), members.end(), rank) - members.begin());
  return group;
}

std::vector<double> GroupProgram::input(int rank) const {
  std::mt19937 random(seed_ * 1000 + static_cast<unsigned>(rank));
  std::vector<double> out;
  for (std::int64_t i = 0; i < width(); ++i) out.push_back(static_cast<double>(random() % 17) - 8);
  return out;
}

// Whole numbers kept small, so that the order of a sum does not matter.
Tensor GroupProgram::traced(Tensor x, const std::map<std::string, Group>& groups) const {
  for (const Step& step : steps_) {
    const Group group = step.group.empty() ? Group{} : groups.at(step.group);
    const int n = step.group.empty() ? size_ : group.size();
    switch (step.what) {
      case What::Sum:
        x = all_reduce(x, collectives::Reduce::Sum, group);
        break;
      case What::Max:
        x = all_reduce(x, collectives::Reduce::Max, group);
        break;
      case What::GatherScatter:
        x = reduce_scatter(all_gather(x * 2.0, group), group);
        break;
      case What::Broadcast:
        x = broadcast(x, Rank{static_cast<std::int32_t>(step.root % static_cast<unsigned>(n))},
                      group);
        break;
      case What::AllToAll:
        x = all_to_all_single(x, group);
        break;
      case What::AddRank:
        x = x + cast(group_rank(x, group), DType::F64);
        break;
    }
    x = where(x > 100.0, x - 90.0, x);
  }
  return x;
}

std::vector<std::vector<int>> GroupProgram::sets(const std::string& name) const {
  std::vector<std::vector<int>> out;
  if (name.empty())
    out.push_back(each_of(RankSet::all(size_)));
  else
    for (const RankSet& set : layouts_.at(name)) out.push_back(each_of(set));
  return out;
}

void GroupProgram::apply(const Step& step, const std::vector<int>& members, Values& values) {
  const Values before = values;
  const std::size_t n = members.size(), width = before[0].size();
  const auto of = [&](std::size_t place) -> const std::vector<double>& {
    return before[static_cast<std::size_t>(members[place])];
  };
  for (std::size_t me = 0; me < n; ++me) {
    std::vector<double>& mine = values[static_cast<std::size_t>(members[me])];
    for (std::size_t i = 0; i < width; ++i) {
      double sum = 0, most = of(0)[i];
      for (std::size_t p = 0; p < n; ++p) sum += of(p)[i], most = std::max(most, of(p)[i]);
      switch (step.what) {
        case What::Sum:
          mine[i] = sum;
          break;
        case What::Max:
          mine[i] = most;
          break;
        case What::GatherScatter:  // every rank gathers the same, so each share counts n times
          mine[i] = of(me)[i] * 2 * static_cast<double>(n);
          break;
        case What::Broadcast:
          mine[i] = of(step.root % n)[i];
          break;
        case What::AllToAll: {
          const std::size_t rows = width / n;
          mine[i] = of(i / rows)[me * rows + i % rows];
          break;
        }
        case What::AddRank:
          mine[i] += static_cast<double>(me);
          break;
      }
    }
  }
}

std::vector<std::vector<double>> GroupProgram::expected() const {
  Values values;
  for (int r = 0; r < size_; ++r) values.push_back(input(r));
  for (const Step& step : steps_) {
    for (const std::vector<int>& members : sets(step.group)) apply(step, members, values);
    for (std::vector<double>& of_rank : values)
      for (double& x : of_rank)
        if (x > 100) x -= 90;
  }
  return values;
}

}  // namespace lockstep::worker
