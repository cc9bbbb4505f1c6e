// Calls of a scenario's generator section. They are made when they are needed: as a call with its
// groups of equal ranks, or, if ranks draw for themselves, one rank at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <lockstep/worker/simulator/draw/draw.h>
#include <lockstep/worker/simulator/draw/fast_modulo.h>
#include <lockstep/worker/simulator/input/scenario_call.h>

namespace lockstep::worker::simulator {

/// Recorded inputs from which virtual ranks draw. Each is the whole input of one rank in one call,
/// so that relations within a rank are kept. All have the same list of sources. Immutable.
struct InputPool {
  /// Inputs of all calls of a frame with this list of sources. Several pools share them.
  std::shared_ptr<const std::vector<Observation>> inputs;
  std::vector<std::uint32_t> recorded;  // indices of this pool's inputs, each as often as recorded
  std::vector<std::uint32_t> distinct;  // the same indices, each once, ascending
  Observation least, greatest;          // least and greatest values of the pool's inputs

  /// Index of the input that 64 random bits draw.
  [[nodiscard]] std::uint32_t at(std::uint64_t random) const {
    return recorded[static_cast<std::size_t>(random % recorded.size())];
  }
};

/// Call whose sizes are not drawn yet.
struct GeneratedCall {
  std::string frame;
  ScenarioValues like;  // the values, with zeros for those that are drawn
  std::vector<Draw> draws;
  /// For a recorded job: the inputs from which each rank draws one; null: `draws` apply.
  std::shared_ptr<const InputPool> pool = nullptr;
  /// For a recorded job: a call in which nothing is drawn; null: ranks draw.
  std::shared_ptr<const ScenarioCall> as_is = nullptr;

  /// Number n of consecutive ranks with equal draws: ranks k*n to k*n + n - 1, for every k. It is
  /// world_size if every draw is equal on all ranks.
  [[nodiscard]] std::int64_t equal_run_length(int world_size) const;
  /// True if some draw may differ between ranks.
  [[nodiscard]] bool apart() const;
  bool operator==(const GeneratedCall&) const = default;
};

/// Inputs of every rank in one generated call. Immutable; the generator outlives it.
class RankInputs {
 public:
  RankInputs(const GeneratedCall& call, std::uint64_t seed, std::uint64_t number, int world_size);
  /// Observation of rank 0; only the values differ on other ranks.
  [[nodiscard]] const Observation& like() const { return like_; }
  /// Observations with the least and the greatest values that any rank may draw.
  [[nodiscard]] const Observation& least() const { return least_; }
  [[nodiscard]] const Observation& greatest() const { return greatest_; }
  /// Number n of consecutive ranks with equal inputs: ranks k*n to k*n + n - 1, for every k.
  [[nodiscard]] std::int32_t alike() const { return alike_; }
  /// Writes the rank's values into `out`, which must be like() or the observation of a rank.
  void fill(std::int32_t rank, Observation& out) const;
  /// Inputs from which every rank draws; null: sizes are drawn one by one.
  [[nodiscard]] const InputPool* pool() const { return pool_; }
  /// Index of the rank's input in the pool. Requires a pool.
  [[nodiscard]] std::uint32_t drawn_by(std::int32_t rank) const {
    return pool_->at(mixed(pool_place_, static_cast<std::uint64_t>(rank) + 1));
  }

 private:
  /// Uniform draws with one range, different on each rank. Nearly all draws are of this kind, so
  /// they have a loop of their own.
  struct Uniform {
    FastModulo by;
    std::uint64_t low;
    std::size_t at;  // index of the first value in Observation::values; the others follow
    std::vector<std::uint64_t> places{};
    void fill(std::uint64_t part, std::int64_t* out) const;
  };
  struct Other {
    const Draw* draw;
    std::uint64_t place;
    std::size_t at;
  };
  /// Tensor with strides. Draws may change its order of dims, which leaves out dims of one element.
  struct Strided {
    std::size_t source;
    std::span<const std::int64_t> strides;
  };
  void add(const Uniform& one);
  Observation like_, least_, greatest_;
  std::int32_t alike_;
  const InputPool* pool_;
  std::uint64_t pool_place_;
  std::vector<Uniform> uniform_;
  std::vector<Other> other_;
  std::vector<Strided> strided_;
};

/// Call that replaces the block's own call where it applies.
struct Variant {
  enum class When { First, Every, Chance };
  When when = When::First;
  std::int64_t count = 0;   // First: number of calls; Every: one in how many
  std::uint64_t below = 0;  // the probability, times 2 to the 53
  GeneratedCall call;
  bool operator==(const Variant&) const = default;
};

/// Consecutive calls of one kind.
struct Block {
  std::int64_t repeat = 1;
  GeneratedCall call;
  std::vector<Variant> variants;  // the first that applies is made
  bool operator==(const Block&) const = default;
};

/// Immutable once read; may be used from several threads.
struct Generator {
  std::uint64_t seed = 0;
  std::vector<Block> blocks;
  /// For the calls of a record, instead of blocks: index of each call in `kinds`.
  std::vector<std::uint32_t> order{};
  std::vector<GeneratedCall> kinds{};
  /// Absent ranks, by number of the generated call.
  std::map<std::size_t, RankSet> absent;

  /// Number of calls.
  [[nodiscard]] std::size_t count() const;
  /// Call `number` before anything is drawn. Requires number < count().
  [[nodiscard]] const GeneratedCall& kind(std::size_t number) const;
  [[nodiscard]] RankSet present(std::size_t number, int world_size) const;
  /// The whole call; ranks with equal inputs form a group. If apart(), draws for every rank.
  [[nodiscard]] ScenarioCall call(std::size_t number, int world_size) const;
  [[nodiscard]] RankInputs inputs(std::size_t number, int world_size) const {
    return {kind(number), seed, number, world_size};
  }
  /// True if ranks may draw different inputs in some call.
  [[nodiscard]] bool apart() const;
  bool operator==(const Generator&) const = default;
};

}  // namespace lockstep::worker::simulator
