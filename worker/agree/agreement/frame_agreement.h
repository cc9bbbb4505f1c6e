// The agreement on the calls of one frame: its entries, its prefetched calls and its profile, over
// the rounds of its group. A frame of a job has one; the library call (agreement.h) has one for
// each of its frames.
#pragma once

#include <optional>
#include <utility>

#include <lockstep/worker/agree/agreement/code_cache.h>
#include <lockstep/worker/agree/agreement/frame_profile.h>
#include <lockstep/worker/agree/agreement/group_rounds.h>

namespace lockstep::worker {

/// Single-threaded.
class FrameAgreement {
 public:
  /// `rounds` must outlive this object. `call` is the key of the frame's calls, without epoch and
  /// numbers.
  FrameAgreement(GroupRounds& rounds, RoundKey call)
      : rounds_(rounds), call_(std::move(call)), cache_(call_.frame) {}

  [[nodiscard]] CodeCache& cache() { return cache_; }
  [[nodiscard]] const CodeCache& cache() const { return cache_; }
  [[nodiscard]] const RoundKey& key() const { return call_; }
  [[nodiscard]] GroupRounds& rounds() const { return rounds_; }
  [[nodiscard]] CallDriver& driver() const { return rounds_.driver(); }
  /// True if the vote of the next call has been cast.
  [[nodiscard]] bool is_ahead() const { return driver().is_ahead(cache_); }

  void use_profile(FrameProfile profile) { profile_ = std::move(profile); }
  /// Sets the profile to start from, in place of the stored one. Requires that no call was made
  /// yet.
  void begin_with(coordinator::Profile profile) { profile_.begin_with(std::move(profile)); }
  /// To be called before every call; acts at the first. Returns the state that the profile gave the
  /// frame.
  std::optional<FrameState> restore(const Observation& observation) {
    return profile_.restore(cache_, observation);
  }

  /// GroupRounds::call for this frame. A commit is stored in the profile.
  template <class Seen, class Agreed = decltype([] {})>
  [[nodiscard]] CallOutcome call(Seen&& observation, RankStatus rank_status, CallSteps& steps,
                                 const Agreed& agreed = {}) {
    CallOutcome outcome = rounds_.call(call_, cache_, std::forward<Seen>(observation),
                                       std::move(rank_status), steps, agreed);
    if (outcome.kind == CallOutcome::Kind::Compiled) profile_.keep(cache_);
    return outcome;
  }
  [[nodiscard]] GroupRounds::Refusal refuse(const Status& why) {
    return rounds_.refuse(call_, cache_, why);
  }
  void promise(Observation observation, RankStatus rank_status) {
    rounds_.promise(call_, cache_, std::move(observation), std::move(rank_status));
  }
  /// The error of a call with `given` if something else was promised; it names the first source
  /// that differs, with both values. nullopt: the promise is kept, or nothing was promised. Floats
  /// and the elements of tensors are runtime values: they may differ unless they change a branch
  /// that an entry took. The order of dims may differ, too, as no entry depends on it.
  [[nodiscard]] std::optional<Status> broken(const Observation& given) const;

 private:
  GroupRounds& rounds_;
  RoundKey call_;
  CodeCache cache_;
  FrameProfile profile_{nullptr, {}, false, {}};
};

}  // namespace lockstep::worker
