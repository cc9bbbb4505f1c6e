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
#include <lockstep/worker/agree/agreement/frame_agreement.h>

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
  const Decision* decision = nullptr;  // of the entry or fallback call; valid until the next call
  bool untested = false;  // RankStatus::untested on some rank, or the call was prefetched
};

/// Result of an audited call. Equal on all ranks.
struct Audited {
  std::uint64_t times = 0;        // how often `finding` has been made; 1: report it in full
  std::optional<Status> finding;  // nullopt: all ranks run the same
};

/// The program that the caller compiled.
struct Built {
  /// Fingerprint of the program, compared between ranks; if zero, only decisions are compared.
  shapes::Fingerprint program;
  /// Conditions on the decision's symbols that the program relies on; read_guard() parses them.
  /// They are tested with every rank's sizes before the entry is created (BranchDivergence if one
  /// is false), and the entry fits only inputs for which all are true. Under same_graph they must
  /// be equal on all ranks.
  std::vector<shapes::Guard> guards;
  /// Sizes over the decision's symbols that must be equal on all ranks; read_uniform() parses them.
  /// Compared before the entry is created (ConstraintViolation if they differ) and in each call
  /// that the entry fits (a miss if they differ).
  std::vector<UniformSize> uniform{};
  /// If set: the joint error of a round that the build itself made with all ranks of the group;
  /// nothing was built.
  std::optional<Status> ended{};
};

/// The agreement of one group of ranks. Not thread-safe. The communicator must outlive it. Every
/// rank makes the same calls in the same order; else all get FrameMismatch.
class Agreement {
 public:
  /// Compiles version `entry` for `decision`. An error becomes the joint error of the call.
  using Build = std::function<Result<Built>(int entry, const Decision& decision)>;

  /// `name`: the group's, the same on all its ranks.
  Agreement(collectives::Communicator& group, std::string name, DecisionConfig config);
  /// Makes one of several agreements over a communicator. `rounds` must outlive the agreement. The
  /// agreement must outlive every vote in flight for its frames. `number`: CodeCache::agreement,
  /// the same on all ranks.
  Agreement(GroupRounds& rounds, std::string name, DecisionConfig config, int number = 0);

  /// Collective, before each call of `frame`. `build` runs if no entry fits on every rank; the new
  /// entry exists only if `build` succeeded on all ranks. Errors are the same on all ranks: those
  /// about inputs (exchange/rules.md), BranchDivergence, GraphDivergence, the error of `build`, and
  /// those of Communicator::poll. The next call works after any error but those of
  /// Communicator::poll.
  [[nodiscard]] Result<Agreed> agree(std::string_view frame, Observation observation,
                                     const Build& build, RankStatus rank_status = {});
  /// agree() for a compiler whose steps make rounds of their own, over driver() and with keys
  /// derived from key().
  [[nodiscard]] Result<Agreed> agree(std::string_view frame, Observation observation,
                                     CallSteps& steps, RankStatus rank_status = {});
  /// Collective, outside of a call: a local error becomes the error of every rank. `kind`
  /// distinguishes the program's rounds: Settle, or Finish for the last one. Errors: as agree().
  [[nodiscard]] Result<void> settle(RankStatus rank_status = {},
                                    RoundKey::Kind kind = RoundKey::Kind::Settle);

  using Words = GroupRounds::Words;
  using AgreedWords = GroupRounds::AgreedWords;
  /// Collective, outside of a call: up to eight words of each rank become those of the group
  /// (collectives/words.h). `name`: of these words, the same on all ranks, as are the ops. `where`:
  /// the user's line, for reports; may be empty. Errors are the same on all ranks: FrameMismatch
  /// (other names, ops or calls, with the lines of all ranks), ConstantMismatch (words that have to
  /// be equal are not), BadInput (see collectives::check(); other words were promised), the local
  /// error of a rank, and those of Communicator::poll.
  [[nodiscard]] Result<AgreedWords> agree_words(std::string_view name, const Words& words,
                                                std::string_view where = {},
                                                RankStatus rank_status = {});
  /// Promises agree_words() with this name and these words, on every rank or none, so that their
  /// votes run while the program does something else (poke()). Never blocks. At most one such
  /// promise. Errors, of this rank: BadInput. A rank that then calls agree_words() with other words
  /// gets BadInput alone; its peers have gone on, and get the error in their next round.
  [[nodiscard]] Result<void> agree_words_ahead(std::string_view name, Words words,
                                               std::string_view where = {});

  /// Promises a call of `frame` with these inputs, after the calls already promised, so that its
  /// vote runs while the program does something else. Either every rank prefetches a call or none
  /// does. Never blocks. agree() then fails with BadInput if it is called with other sizes, ints,
  /// bools, marks or fields, or while RankStatus::pending is not 0. On a miss all ranks fail. On a
  /// hit only this rank fails: its peers run the entry as promised and get the error in their next
  /// round; the program should end. A local error in `rank_status` becomes the error of that call
  /// on all ranks.
  void prefetch(std::string_view frame, Observation observation, RankStatus rank_status = {});
  /// Returns and clears the error that only this rank has so far, for a caller that reports it to
  /// the peers by other means than the next round.
  [[nodiscard]] std::optional<Status> take_unreported_error() {
    return std::exchange(local_error_, std::nullopt);
  }
  /// True if the vote of the next call of `frame` has been cast.
  [[nodiscard]] bool is_ahead(std::string_view frame) const;
  /// Drops all prefetches. Requires that no rank makes another call. Returns true if a vote may be
  /// in flight; the Agreement must then stay in place until the driver has no call ahead.
  [[nodiscard]] bool abandon();
  /// Advances a prefetched vote; to be called now and then while the program works. Never blocks.
  void poke() { driver().poke(); }
  /// Collective. Returns true on all ranks if any rank has data (`have`), else false. Errors: as
  /// agree().
  [[nodiscard]] Result<bool> more(bool have);
  /// Collective, after an error that all ranks have: brings ranks that made different numbers of
  /// calls back in step. Keeps entries, drops prefetches. Errors: FrameMismatch, which names the
  /// rounds of ranks that are not in the resync.
  [[nodiscard]] Result<void> resync();

  /// Collective, before each call of `frame`, in place of agree(): every rank has decided for
  /// itself, and the ranks compare what they are about to run. Changes no decision. The caller
  /// reports a finding (in full if it is the first of its kind), and the call goes on. Errors are
  /// the same on all ranks and occur before anything runs: GraphDivergence (collectives that would
  /// not match), FrameMismatch, the local error of a rank, and those of Communicator::poll.
  [[nodiscard]] Result<Audited> audit(std::string_view frame, AuditedCall own);
  /// The findings so far, for a summary.
  [[nodiscard]] const AuditLedger& findings() const { return ledger_; }

  /// Makes each frame start, at its first call, from its profile in `store`, which outlives the
  /// agreement. `keeps`: this rank stores commits there; true on one of the ranks that see the same
  /// directory. Ranks may have different stores, or none. `report` (may be empty) receives errors
  /// of the disk. `restored` (may be empty) is called for each frame that got a state.
  using Restored = std::function<void(const CodeCache& frame, const FrameState& state)>;
  void use_profiles(coordinator::ProfileStore& store, bool keeps, FrameProfile::Report report,
                    Restored restored = {});
  /// Sets the name that distinguishes this agreement's profiles from those of the job's other
  /// agreements; if empty, the profiles are shared.
  void profiles_as(std::string name) { profiles_as_ = std::move(name); }
  /// Sets the hash of the text of a frame's function, before the frame's first call: a profile of
  /// another function with the same name is not used.
  void identify(std::string_view frame, const shapes::Fingerprint& content);

  [[nodiscard]] CallDriver& driver() const { return rounds_.driver(); }
  /// Key of the current or last round.
  [[nodiscard]] const RoundKey& key() const { return rounds_.key(); }
  /// The cache of a frame on this rank: entries, state to store, explanations of a miss.
  [[nodiscard]] CodeCache& frame(std::string_view name) { return known(name).calls.cache(); }
  /// Times of all calls.
  [[nodiscard]] const CallTimes& times() const { return driver().times(); }

 private:
  struct Known {
    FrameAgreement calls;
    shapes::Fingerprint content{};       // hash of the function's text
    std::optional<Decision> past_limit;  // decision of the last call, if it fell back
    bool profiled = false;               // true from the first call on, if there is a store
  };
  [[nodiscard]] Known& known(std::string_view frame);
  [[nodiscard]] RoundKey round(RoundKey::Kind kind, std::string_view frame = {},
                               std::string_view where = {}) const {
    return {.group = name_, .frame = std::string(frame), .kind = kind, .where = std::string(where)};
  }
  void restore(Known& frame, const Observation& observation);
  /// Error of a call that breaks its promise; nullopt: the promise is kept, or there was none.
  [[nodiscard]] std::optional<Status> broken(const FrameAgreement& calls,
                                             const Observation& observation,
                                             const RankStatus& rank_status) const;
  [[nodiscard]] Result<Agreed> agreed(const CallOutcome& outcome, const Known& frame);

  std::unique_ptr<GroupRounds> own_rounds_;  // null: rounds_ is shared
  GroupRounds& rounds_;
  std::string name_;
  DecisionConfig config_;
  int number_ = 0;
  std::optional<Status> local_error_;  // error of a promise broken here, until all ranks have it
  std::map<std::string, Known, std::less<>> frames_;
  coordinator::ProfileStore* store_ = nullptr;
  bool keeps_ = false;
  FrameProfile::Report report_;
  Restored restored_;
  std::string profiles_as_;
  AuditLedger ledger_;
};

}  // namespace lockstep::worker
