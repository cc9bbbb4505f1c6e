// The calls that a scenario's generator section makes. They are made when their turn comes: as a
// call with its groups of equal ranks, or, where ranks draw for themselves, one rank at a time.
#pragma once

#include <map>
#include <vector>

#include <lockstep/worker/simulator/draw.h>
#include <lockstep/worker/simulator/remainder.h>
#include <lockstep/worker/simulator/scenario_call.h>

namespace lockstep::worker::simulator {

/// A call of the section, made `repeat` times.
struct GeneratedCall {
  std::string frame;
  ScenarioValues like;  // with the draws' lowest in their places
  std::vector<Draw> draws;
  std::int64_t repeat = 1;
  /// Some draw is the rank's own.
  [[nodiscard]] bool apart() const;
  bool operator==(const GeneratedCall&) const = default;
};

/// What every rank sees in one generated call. Immutable; the generator outlives it.
class RankInputs {
 public:
  RankInputs(const GeneratedCall& call, std::uint64_t seed, std::uint64_t number);
  /// That of rank 0: what differs on other ranks are the values.
  [[nodiscard]] const Observation& like() const { return like_; }
  /// Puts the rank's values in. Requires an observation that was like() or of a rank.
  void fill(std::int32_t rank, Observation& out) const;

 private:
  /// A uniform draw of the rank's own: nearly all there are, so they have a loop of their own.
  struct Uniform {
    std::uint64_t place;
    Remainder by;
    std::uint64_t low;
    std::size_t at;  // in Observation::values
  };
  struct Other {
    const Draw* draw;
    std::uint64_t place;
    std::size_t at;
  };
  Observation like_;
  std::vector<Uniform> uniform_;
  std::vector<Other> other_;
};

/// Immutable once read.
struct Generator {
  std::uint64_t seed = 0;
  std::vector<GeneratedCall> calls;
  /// Ranks that stay away, by number of the generated call.
  std::map<std::size_t, RankSet> absent;

  /// How many calls are made.
  [[nodiscard]] std::size_t count() const;
  /// The call of the section that call `number` is one of. Requires number < count().
  [[nodiscard]] const GeneratedCall& kind(std::size_t number) const;
  [[nodiscard]] RankSet present(std::size_t number, int world_size) const;
  /// The whole call: equal ranks in one group. Takes a draw for every rank where they are apart.
  [[nodiscard]] ScenarioCall call(std::size_t number, int world_size) const;
  [[nodiscard]] RankInputs inputs(std::size_t number) const { return {kind(number), seed, number}; }
  /// Ranks differ in some call.
  [[nodiscard]] bool apart() const;
  bool operator==(const Generator&) const = default;
};

}  // namespace lockstep::worker::simulator
