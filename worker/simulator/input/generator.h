// The calls that a scenario's generator section makes. They are made when their turn comes: as a
// call with its groups of equal ranks, or, where ranks draw for themselves, one rank at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <lockstep/worker/simulator/draw/draw.h>
#include <lockstep/worker/simulator/draw/fast_modulo.h>
#include <lockstep/worker/simulator/input/scenario_call.h>

namespace lockstep::worker::simulator {

/// Inputs of a recorded job from which virtual ranks draw theirs: whole inputs of one rank in one
/// call, so that what holds within a rank holds for who draws them. Immutable. The inputs have one
/// list of sources.
struct InputPool {
  /// Of all calls of a frame with that list; pools share them.
  std::shared_ptr<const std::vector<Observation>> inputs;
  std::vector<std::uint32_t> recorded;  // which of them: one for each time that it was recorded
  std::vector<std::uint32_t> distinct;  // the same, each once, ascending
  Observation least, greatest;          // the values of all of these

  /// By 64 random bits.
  [[nodiscard]] std::uint32_t at(std::uint64_t random) const {
    return recorded[static_cast<std::size_t>(random % recorded.size())];
  }
};

/// A call whose sizes are yet to be drawn.
struct GeneratedCall {
  std::string frame;
  ScenarioValues like;  // with zeros in place of what is drawn
  std::vector<Draw> draws;
  /// Of a recorded job's: the inputs from which each rank draws one; null: `draws` are made.
  std::shared_ptr<const InputPool> pool = nullptr;
  /// The same: a call in which nothing is drawn; null: ranks draw.
  std::shared_ptr<const ScenarioCall> as_is = nullptr;

  /// The n for which every draw is the same on all of ranks k n to k n + n - 1; world_size where it
  /// is on all ranks.
  [[nodiscard]] std::int64_t alike_run(int world_size) const;
  /// Some draw may differ between ranks.
  [[nodiscard]] bool apart() const;
  bool operator==(const GeneratedCall&) const = default;
};

/// What every rank sees in one generated call. Immutable; the generator outlives it.
class RankInputs {
 public:
  RankInputs(const GeneratedCall& call, std::uint64_t seed, std::uint64_t number, int world_size);
  /// That of rank 0: what differs on other ranks are the values.
  [[nodiscard]] const Observation& like() const { return like_; }
  /// The same with the least and the greatest values that any rank may draw.
  [[nodiscard]] const Observation& least() const { return least_; }
  [[nodiscard]] const Observation& greatest() const { return greatest_; }
  /// The n for which ranks k n to k n + n - 1 see the same.
  [[nodiscard]] std::int32_t alike() const { return alike_; }
  /// Puts the rank's values in. Requires an observation that was like() or of a rank.
  void fill(std::int32_t rank, Observation& out) const;
  /// From which every rank draws; null: sizes are drawn one by one.
  [[nodiscard]] const InputPool* pool() const { return pool_; }
  /// Which of the pool's inputs the rank has. Requires a pool.
  [[nodiscard]] std::uint32_t drawn_by(std::int32_t rank) const {
    return pool_->at(mixed(pool_place_, static_cast<std::uint64_t>(rank) + 1));
  }

 private:
  /// Uniform draws of the rank's own that are alike: nearly all there are, so they have a loop of
  /// their own.
  struct Uniform {
    FastModulo by;
    std::uint64_t low;
    std::size_t at;  // of the first in Observation::values; the others follow
    std::vector<std::uint64_t> places{};
    void fill(std::uint64_t part, std::int64_t* out) const;
  };
  struct Other {
    const Draw* draw;
    std::uint64_t place;
    std::size_t at;
  };
  /// A tensor whose order may depend on what is drawn: dims of one element have none.
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

/// A call that is made in place of the block's own, where it applies.
struct Variant {
  enum class When { First, Every, Chance };
  When when = When::First;
  std::int64_t count = 0;   // the first `count` calls of the block; the last of every `count`
  std::uint64_t below = 0;  // the chance, out of 2 to the 53
  GeneratedCall call;
  bool operator==(const Variant&) const = default;
};

/// Calls of one kind that follow each other.
struct Block {
  std::int64_t repeat = 1;
  GeneratedCall call;
  std::vector<Variant> variants;  // the first that applies is made
  bool operator==(const Block&) const = default;
};

/// Immutable once read; may be asked from several threads.
struct Generator {
  std::uint64_t seed = 0;
  std::vector<Block> blocks;
  /// In place of blocks, for the calls of a record: which of `kinds` each call is.
  std::vector<std::uint32_t> order{};
  std::vector<GeneratedCall> kinds{};
  /// Ranks that stay away, by number of the generated call.
  std::map<std::size_t, RankSet> absent;

  /// How many calls are made.
  [[nodiscard]] std::size_t count() const;
  /// What call `number` is like, before anything is drawn. Requires number < count().
  [[nodiscard]] const GeneratedCall& kind(std::size_t number) const;
  [[nodiscard]] RankSet present(std::size_t number, int world_size) const;
  /// The whole call: equal ranks in one group. Takes a draw for every rank where they are apart.
  [[nodiscard]] ScenarioCall call(std::size_t number, int world_size) const;
  [[nodiscard]] RankInputs inputs(std::size_t number, int world_size) const {
    return {kind(number), seed, number, world_size};
  }
  /// Ranks may differ in some call.
  [[nodiscard]] bool apart() const;
  bool operator==(const Generator&) const = default;
};

}  // namespace lockstep::worker::simulator
