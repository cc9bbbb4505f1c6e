// The agreement alone, for frameworks that bring their own compiler: before each call of a function
// all ranks agree which compiled version runs, or on one decision from which every rank compiles
// the next version, or on one error.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/agreement/frame_agreement.h>

namespace lockstep::worker {

/// What to run. Equal on all ranks.
struct Agreed {
  enum class Run : std::uint8_t {
    Entry,     // version `entry` of the function
    Fallback,  // the recompile limit is reached: run without a compiled version, this call only
  };
  Run run = Run::Entry;
  int entry = -1;
  bool is_new = false;                 // compiled in this call
  const Decision* decision = nullptr;  // of the entry, or of this call; valid until the next one
  bool untested = false;  // RankStatus::untested of some rank, or the call was prefetched
};

/// What an audited call came to. Equal on all ranks.
struct Audited {
  std::uint64_t times = 0;        // that this has been found by now; 1: to be reported in full
  std::optional<Status> finding;  // the ranks do not run the same; nullopt: they do
};

/// What the caller compiled.
struct Built {
  /// Of the program, so that ranks can be compared; leave it as it is to compare decisions only.
  shapes::Fingerprint program;
  /// Conditions on the decision's symbols that the program relies on; read_guard() makes them of
  /// text. They are tested on every rank's sizes before the entry comes into being
  /// (BranchDivergence where one is false), and an entry fits only inputs for which all are true.
  /// Under same_graph all ranks give the same.
  std::vector<shapes::Guard> guards;
  /// Over the decision's symbols: what all ranks have to have alike, read_uniform(). Compared
  /// before the entry comes into being and in each call of it (ConstraintViolation where they
  /// differ).
  std::vector<UniformSize> uniform{};
  /// Not empty: a round that the build itself made with all ranks of the group ended in this error
  /// on all of them; nothing was built.
  std::optional<Status> ended{};
};

/// One group of ranks. Not thread-safe. The communicator outlives it. Every rank makes
/// the same calls in the same order; where one does not, all get FrameMismatch.
class Agreement {
 public:
  /// Compiles version `entry` for `decision`. An error becomes the joint error of the call.
  using Build = std::function<Result<Built>(int entry, const Decision& decision)>;

  /// `name` is the group's, the same on all its ranks.
  Agreement(collectives::Communicator& group, std::string name, DecisionConfig config);
  /// One of several over a communicator; `rounds` outlives it, as do its frames a vote that is out.
  /// `number`: as CodeCache::agreement, the same on all ranks.
  Agreement(GroupRounds& rounds, std::string name, DecisionConfig config, int number = 0);

  /// Collective, before each call of `frame`. `build` runs where no entry fits on every rank; the
  /// entry exists only if it succeeded on all. Errors, the same on all ranks: those about inputs
  /// (exchange/rules.md), BranchDivergence, GraphDivergence, what `build` failed with, and those of
  /// Communicator::poll. After any but the last the next call works.
  [[nodiscard]] Result<Agreed> agree(std::string_view frame, Observation observation,
                                     const Build& build, RankStatus rank_status = {});
  /// The same for a compiler whose steps take part in rounds of their own, over driver() and with
  /// keys made of key().
  [[nodiscard]] Result<Agreed> agree(std::string_view frame, Observation observation,
                                     CallSteps& steps, RankStatus rank_status = {});
  /// Collective, outside of a call: every rank hears of the local error of any. `kind` tells the
  /// rounds of a program apart: Settle, or Finish where nothing comes after it. Errors as agree().
  [[nodiscard]] Result<void> settle(RankStatus rank_status = {},
                                    RoundKey::Kind kind = RoundKey::Kind::Settle);

  /// Commits to a call of `frame` with these inputs, after those already committed to, so that its
  /// vote is under way while the program does something else. Every rank does so, or none. Does not
  /// wait. A commitment that agree() then finds broken (other sizes, ints, bools or marks, or a
  /// status of its own) is BadInput: on all ranks, but where they run a version as promised, on
  /// this one alone; its peers then hear of it at their next round, and the program should end.
  /// A local error in `rank_status` is the error of that call on all ranks.
  void prefetch(std::string_view frame, Observation observation, RankStatus rank_status = {});
  /// The error of a call that this rank alone has, and that its peers have yet to hear of; taken
  /// here, for a caller that tells them otherwise.
  [[nodiscard]] std::optional<Status> take_unheard() {
    return std::exchange(local_error_, std::nullopt);
  }
  /// The vote of the next call of `frame` has been cast.
  [[nodiscard]] bool is_ahead(std::string_view frame) const;
  /// No call is made any more, on all ranks alike: prefetches are dropped. True: a vote may be out,
  /// so this stays in place until the driver has no call ahead.
  [[nodiscard]] bool abandon();
  /// Moves a prefetched vote; to be called now and then while the program works. Never waits.
  void poke() { driver().poke(); }
  /// Collective: true while any rank has data; false, on all ranks, when none has. Errors as
  /// agree().
  [[nodiscard]] Result<bool> more(bool have);
  /// Collective, after an error that all ranks have: ranks that made different numbers of calls are
  /// in step again. Entries stay, prefetches do not. Errors: FrameMismatch, which says what the
  /// ranks that are elsewhere are in.
  [[nodiscard]] Result<void> resync();

  /// Collective, before each call of `frame`, in place of agree(): every rank has decided for
  /// itself, and the ranks compare what they are about to run. Changes no decision. A finding is
  /// for the caller to report (in full if it is the first of its kind), and the call goes on.
  /// Errors, the same on all ranks, before anything runs: GraphDivergence (collectives that would
  /// not match), FrameMismatch, the local error of a rank, and those of Communicator::poll.
  [[nodiscard]] Result<Audited> audit(std::string_view frame, AuditedCall own);
  /// What the audit has found so far, for a summary.
  [[nodiscard]] const AuditLedger& findings() const { return ledger_; }

  /// From here on frames start, at their first call, from what `store` has of them, and what their
  /// commits add is kept there where `keeps` is true: on one rank of those that see the same
  /// directory. Ranks may have different stores, or none. `report` (may be empty) hears of a disk
  /// that does not do its part. The store outlives this.
  /// `restored` (may be empty) hears of each frame that was given a state.
  using Restored = std::function<void(const CodeCache& frame, const FrameState& state)>;
  void use_profiles(coordinator::ProfileStore& store, bool keeps, FrameProfile::Report report,
                    Restored restored = {});
  /// What tells this agreement's profiles from those of others of the job; empty: nothing does.
  void profiles_as(std::string name) { profiles_as_ = std::move(name); }
  /// What the function behind a frame is (a hash of its text), before the frame's first call: what
  /// was kept of another function under the same name is not used.
  void identify(std::string_view frame, const shapes::Fingerprint& content);

  [[nodiscard]] CallDriver& driver() const { return rounds_.driver(); }
  /// Of the round under way, or the last one.
  [[nodiscard]] const RoundKey& key() const { return rounds_.key(); }
  /// The cache of a frame on this rank: entries, state to store, explanations of a miss.
  [[nodiscard]] CodeCache& frame(std::string_view name) { return known(name).calls.cache(); }
  /// Where the time of all calls went.
  [[nodiscard]] const CallTimes& times() const { return driver().times(); }

 private:
  struct Known {
    FrameAgreement calls;
    shapes::Fingerprint content{};       // of the function behind it
    std::optional<Decision> past_limit;  // of the last call, if it ran without an entry
    bool profiled = false;               // from its first call on, where there are profiles
  };
  [[nodiscard]] Known& known(std::string_view frame);
  [[nodiscard]] RoundKey round(RoundKey::Kind kind, std::string_view frame = {}) const {
    return {.group = name_, .frame = std::string(frame), .kind = kind};
  }
  void restore(Known& frame, const Observation& observation);
  /// What stands against making the promised call: nullopt where the promise is kept.
  [[nodiscard]] std::optional<Status> broken(const FrameAgreement& calls,
                                             const Observation& observation,
                                             const RankStatus& rank_status) const;
  [[nodiscard]] Result<Agreed> agreed(const CallOutcome& outcome, const Known& frame);

  std::unique_ptr<GroupRounds> own_rounds_;  // null: they are shared
  GroupRounds& rounds_;
  std::string name_;
  DecisionConfig config_;
  int number_ = 0;
  std::optional<Status> local_error_;  // of a promise broken here, until all ranks have heard
  std::map<std::string, Known, std::less<>> frames_;
  coordinator::ProfileStore* store_ = nullptr;
  bool keeps_ = false;
  FrameProfile::Report report_;
  Restored restored_;
  std::string profiles_as_;
  AuditLedger ledger_;
};

}  // namespace lockstep::worker
