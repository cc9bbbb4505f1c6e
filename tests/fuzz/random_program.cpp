// Programs from seeds: narrow ranges of values, so that calls meet again, differ, supersede, hit
// limits and go wrong in every way.
#include <algorithm>
#include <array>

#include "program.h"
#include "random.h"

namespace lockstep::fuzz {
namespace {

using worker::Consistency;
using worker::Kind;
using worker::Mark;
using worker::simulator::ScenarioValue;

class Writer {
 public:
  explicit Writer(std::uint64_t seed) : settles_(seed % 3 != 0), random_(seed) {}

  Program program() {
    const bool large = random_.chance(1);
    program_.ranks = large ? random_.between(10, 64) : size_of_world();
    calm_ = random_.chance(30);
    wild_ = random_.pick({0, 0, 2, 10, 40});
    wobble_ = random_.pick({5, 10, 30, 70});
    marks_ = random_.pick({0, 0, 10, 30});
    smallest_ = random_.chance(50) ? 2 : 0;
    prefetches_ = random_.pick({0, 0, 0, 60});
    program_.recovers = random_.chance(30);
    add_group(RankSet::all(program_.ranks));
    for (int extra = large ? 0 : random_.pick({0, 0, 1, 2}); extra > 0; --extra)
      if (const RankSet members = subset(); !members.empty() && !known(members)) add_group(members);
    if (!large && random_.chance(15)) add_hosts();
    if (!large && random_.chance(4))
      for (int r = 0; r < program_.ranks; ++r)
        program_.starts.push_back(static_cast<Start>(random_.pick({0, 1, 1, 2, 3})));
    const int steps = large ? random_.between(1, 3) : random_.between(1, 7);
    for (int s = 0; s < steps; ++s) add_step();
    if (!calm_)
      for (int faults = random_.pick({0, 1, 1, 1, 2, 3}); faults > 0; --faults) add_fault();
    return std::move(program_);
  }

 private:
  int size_of_world() { return random_.chance(50) ? random_.between(1, 4) : random_.between(2, 9); }

  RankSet subset() {
    RankSet members;
    for (int r = 0; r < program_.ranks; ++r)
      if (random_.chance(50)) members.insert(RankSet::of(Rank{r}));
    return members;
  }

  /// Hosts with compilers, few without; half of the groups build together.
  void add_hosts() {
    const bool alike = random_.chance(60), stores = random_.chance(20);
    for (int r = 0; r < program_.ranks; ++r)
      program_.hosts.push_back(
          {.processor = alike ? 0 : random_.below(2),
           .compiler = alike ? random_.pick({1, 1, 1, 0}) : random_.pick({0, 1, 1, 2}),
           .store = stores && random_.chance(70)});
    for (GroupPlan& group : program_.groups) group.builds = random_.chance(70);
  }

  /// The simulated network knows groups by their members.
  [[nodiscard]] bool known(const RankSet& members) const {
    return std::any_of(program_.groups.begin(), program_.groups.end(),
                       [&](const GroupPlan& group) { return group.members == members; });
  }

  void add_group(const RankSet& members) {
    GroupPlan group{.members = members, .config = {}};
    group.config = {.consistency = static_cast<Consistency>(random_.pick({0, 0, 0, 1, 2})),
                    .automatic_dynamic = !random_.chance(20),
                    .assume_at_least_two = !random_.chance(25),
                    .recompile_limit = random_.chance(50) ? 8 : random_.between(1, 3),
                    .settle = settles_};
    if (!calm_) {
      group.branches = random_.chance(25);
      group.asks = group.config.consistency == Consistency::SameGraph && random_.chance(25);
      group.pads = group.config.consistency == Consistency::SameGraph && random_.chance(25);
    }
    program_.groups.push_back(std::move(group));
    habits_.emplace_back();
    for (Values& habit : habits_.back())
      for (int i = random_.between(0, 3); i > 0; --i) habit[name()] = value();
  }

  void add_step() {
    Step step;
    step.group = static_cast<std::size_t>(random_.below(static_cast<int>(program_.groups.size())));
    const int kind = random_.below(64);
    step.kind = kind < 48   ? Step::Kind::Call
                : kind > 61 ? Step::Kind::Local
                : kind > 59 ? Step::Kind::Audit
                : kind < 51 ? Step::Kind::Settle
                : kind < 55 ? Step::Kind::Any
                : kind < 58 ? Step::Kind::More
                            : Step::Kind::Resync;
    if (step.kind == Step::Kind::Any) step.yes = random_.chance(40) ? 0 : random_.next();
    if (step.kind != Step::Kind::Any && step.kind != Step::Kind::Settle &&
        step.kind != Step::Kind::Resync) {
      const int frame = random_.pick({0, 0, 0, 1});
      step.frame = std::string(1, frame == 0 ? 'f' : 'g');
      add_inputs(step, habits_[step.group][static_cast<std::size_t>(frame)]);
    }
    if (step.kind == Step::Kind::Call && random_.chance(prefetches_))
      step.ahead = static_cast<std::size_t>(random_.between(1, 3));
    if (step.kind == Step::Kind::More)
      for (std::size_t i = 0; i < step.inputs.size(); ++i)
        step.batches.push_back(random_.pick({0, 1, 1, 2, 3}));
    program_.steps.push_back(std::move(step));
  }

  void add_inputs(Step& step, const Values& habit) {
    const Values common = variant(habit);
    const bool alike = random_.chance(40);
    for (std::int64_t i = program_.groups[step.group].members.size(); i > 0; --i)
      step.inputs.push_back(alike || random_.chance(40) ? common : variant(common));
  }

  std::string name() {
    constexpr const char* kNames[] = {"x", "y", "n", "batch.tokens"};
    return kNames[random_.below(4)];
  }
  std::int64_t size() { return random_.between(smallest_, smallest_ + 2); }

  ScenarioValue value() {
    ScenarioValue v;
    const int kind = random_.below(10);
    v.kind = kind < 6 ? Kind::Tensor : kind < 8 ? Kind::Int : kind < 9 ? Kind::Bool : Kind::Float;
    if (v.kind == Kind::Tensor) {
      v.sizes.resize(static_cast<std::size_t>(random_.between(0, 2)));
      for (auto& s : v.sizes) s = size();
      if (random_.chance(20)) v.dtype = DType::I64;
    }
    if (v.kind == Kind::Int) v.number = random_.between(-1, 2);
    if (v.kind == Kind::Bool) v.number = random_.below(2);
    return v;
  }

  /// The same inputs with other numbers, now and then with something else besides.
  Values variant(const Values& habit) {
    Values out;
    for (const auto& [name, value] : habit)
      if (!random_.chance(wild_ / 4)) out[name] = variant(value);
    if (random_.chance(wild_ / 4)) out[name()] = value();
    return out;
  }

  ScenarioValue variant(const ScenarioValue& habit) {
    if (random_.chance(wild_ / 4)) return value();
    ScenarioValue v = habit;
    for (auto& s : v.sizes)
      if (random_.chance(wobble_)) s = size();
    if (v.kind == Kind::Int && random_.chance(wobble_)) v.number = random_.between(-1, 2);
    if (v.kind == Kind::Bool && random_.chance(wild_)) v.number = 1 - v.number;
    if (v.kind == Kind::Tensor && random_.chance(wild_ / 8)) v.dtype = DType::BF16;
    if (v.sizes.empty() || !random_.chance(marks_)) return v;
    v.marks.assign(v.sizes.size(), Mark::None);
    v.marks[static_cast<std::size_t>(random_.below(static_cast<int>(v.sizes.size())))] =
        static_cast<Mark>(random_.between(1, 5));
    return v;
  }

  void add_fault() {
    using K = Fault::Kind;
    Fault fault;
    // Half of the faults are such that the job goes on and every call can be told beforehand.
    const int last =
        random_.chance(50) ? static_cast<int>(K::OtherObject) : static_cast<int>(K::Freeze);
    fault.kind = static_cast<K>(random_.between(0, last));
    while (program_.hosts.empty() && fault.kind >= K::BuilderDies && fault.kind <= K::OtherObject)
      fault.kind = static_cast<K>(random_.between(0, last));
    fault.rank = random_.below(program_.ranks);
    fault.step = static_cast<std::size_t>(random_.below(static_cast<int>(program_.steps.size())));
    switch (fault.kind) {
      case K::Pause:
        fault.amount = static_cast<std::uint64_t>(random_.between(1, 15'000));
        break;
      case K::Slow:  // A round is a dozen hops at most: all of them within the deadline.
        fault.amount = static_cast<std::uint64_t>(random_.between(1, 1'000));
        break;
      case K::Stop:
      case K::Crash:
      case K::Freeze:
        fault.amount = static_cast<std::uint64_t>(random_.below(random_.pick({20, 200, 1000})));
        break;
      default:
        fault.amount = static_cast<std::uint64_t>(random_.below(1000));
    }
    program_.faults.push_back(fault);
  }

  bool settles_;
  Random random_;
  Program program_;
  bool calm_ = false;
  int wild_ = 0, wobble_ = 0, marks_ = 0, smallest_ = 0, prefetches_ = 0;
  std::vector<std::array<Values, 2>> habits_;  // by group and frame
};

}  // namespace

Program random_program(std::uint64_t seed) { return Writer(seed).program(); }

}  // namespace lockstep::fuzz
