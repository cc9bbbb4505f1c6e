// Connects a frame and its stored profile: which stored states still belong to the frame's sources,
// and what to store. A restored state is this rank's own until the exchange of the first miss joins
// all ranks' states, so ranks with different profiles, or none, still decide alike.
#pragma once

#include <functional>
#include <optional>

#include <lockstep/coordinator/store/profile_store.h>
#include <lockstep/worker/agree/agreement/code_cache.h>
#include <lockstep/worker/agree/exchange/observation.h>

namespace lockstep::worker {

class CallDriver;

/// Fingerprint of name, kind, dtype and number of dims. A source that differs in any of them is
/// another source.
[[nodiscard]] shapes::Fingerprint profile_key(const SourceSpec& spec);

/// The state that `profile` gives a frame that is called with `list`. Omits the sources of the list
/// whose key has changed. Keeps sources that are not in the list, as another call may have them.
[[nodiscard]] FrameState state_from(const coordinator::Profile& profile, const SourceList& list);

/// The profile to store: the sources of the frame's entries with their state. Equal on all ranks
/// with equal frames.
[[nodiscard]] coordinator::Profile profile_of(const CodeCache& cache);

/// Collective. The ranks of the group that see the same profiles as this rank. `store`: null if
/// this rank has no profiles.
[[nodiscard]] Result<RankSet> profile_sharers(CallDriver& driver,
                                              const coordinator::ProfileStore* store);

/// The profile of one frame, read before its first call and stored after each commit.
/// Single-threaded.
class FrameProfile {
 public:
  /// Receives errors of the disk: a job can do without its profile.
  using Report = std::function<void(const Status&)>;

  /// `store` must outlive this object; null: there are no profiles. keep() stores only if `keeps`.
  FrameProfile(coordinator::ProfileStore* store, coordinator::FrameKey key, bool keeps,
               Report report)
      : store_(store), key_(std::move(key)), keeps_(keeps), report_(std::move(report)) {}

  /// Sets the profile to start from, in place of the stored one. Requires that no call was made
  /// yet.
  void begin_with(coordinator::Profile profile) { given_ = std::move(profile); }
  /// To be called before every call; acts at the first. Returns the state that the frame got, if
  /// any.
  std::optional<FrameState> restore(CodeCache& cache, const Observation& observation);
  /// Stores the profile after a commit.
  void keep(const CodeCache& cache) const;

 private:
  coordinator::ProfileStore* store_;
  coordinator::FrameKey key_;
  bool keeps_;
  bool asked_ = false;
  std::optional<coordinator::Profile> given_;
  Report report_;
};

}  // namespace lockstep::worker
