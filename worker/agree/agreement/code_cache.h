// The code cache of one frame on one rank: its entries and the state of its sources. All ranks hold
// the same entries at the same indices (under shared_sizes and same_collectives each rank has its
// own version of an entry).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/shapes/expr/dynamism.h>
#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/guard_set.h>
#include <lockstep/worker/agree/exchange/decision.h>
#include <lockstep/worker/agree/exchange/dictionary.h>
#include <lockstep/worker/agree/exchange/group_guard.h>
#include <lockstep/worker/agree/exchange/host_value.h>
#include <lockstep/worker/agree/exchange/uniform_size.h>

namespace lockstep::worker {

/// Maximum number of a frame's entries that are not superseded: a look-up returns one bit for each.
inline constexpr int kMaxEntries = 64;

/// One compiled entry. Immutable except for `superseded`.
struct Entry {
  Decision decision;                  // what this rank compiled
  Decision reported;                  // what the group reports; may differ under shared_sizes
  std::vector<shapes::Guard> guards;  // of the trace, over the symbols
  std::vector<GroupGuard> group_guards;
  std::vector<HostValue> host_values;
  std::vector<UniformSize> uniform;  // over the symbols; equal on all ranks in calls of the entry
  shapes::Fingerprint graph;
  shapes::Fingerprint reported_digest;
  bool superseded = false;

  /// `list` is the source list that the decision was made for. Requires that guards and uniform
  /// sizes mention backed symbols of the decision and host values only, and that all host values
  /// are well formed.
  [[nodiscard]] static Entry make(Decision decision, Decision reported,
                                  std::shared_ptr<const SourceList> list,
                                  std::vector<shapes::Guard> guards, shapes::Fingerprint graph,
                                  std::vector<GroupGuard> group_guards = {},
                                  std::vector<HostValue> host_values = {},
                                  std::vector<UniformSize> uniform = {});
  [[nodiscard]] const SourceList& list() const { return *list_; }
  /// True if the decision was made for the same sources.
  [[nodiscard]] bool same_sources(const SourceList& list) const {
    return &list == list_.get() || list.digest() == list_->digest();
  }
  /// True if the sources, bools, fields and values of "equal" fields are the same.
  [[nodiscard]] bool same_structure(const Observation& observation) const;
  /// True if the entry can serve this call on this rank: the sources are the same, values are
  /// within bounds, the call's marks are honoured, guards hold, and this rank contradicts no group
  /// guard (GroupGuardProgram::admits()). The fields must be the same, and each joined value must
  /// absorb this rank's.
  [[nodiscard]] bool fits(const Observation& observation) const;
  /// Index of the first guard that is false for this call. Requires the entry's sources.
  [[nodiscard]] std::optional<std::size_t> failed_guard(const Observation& observation) const;
  /// questions(): number of group guards that need some rank as a witness. witnesses(): true if
  /// this rank is a witness for one of them. Requires the entry's sources.
  [[nodiscard]] std::size_t questions() const { return group_program_.questions(); }
  [[nodiscard]] bool witnesses(std::size_t question, const Observation& observation) const;
  /// Mixes the values of the uniform sizes into `digest`. Requires the entry's sources.
  [[nodiscard]] std::uint64_t uniform_into(std::uint64_t digest,
                                           const Observation& observation) const;
  /// The values of the uniform sizes, in order. Requires the entry's sources.
  [[nodiscard]] std::vector<std::int64_t> uniform_values(const Observation& observation) const;
  /// The first host value that differs between the two calls, if any.
  [[nodiscard]] std::optional<HostValue> changed_host_value(const Observation& a,
                                                            const Observation& b) const;
  /// The entry's conditions on its symbols: ranges and guards.
  [[nodiscard]] shapes::GuardSet guard_set() const;
  /// Names the symbols of guards by their source.
  [[nodiscard]] shapes::Namer namer() const;
  /// True if the entry serves every call that `older` serves, so that `older` can go.
  [[nodiscard]] bool replaces(const Entry& older) const;

 private:
  enum class Use : std::uint8_t { Static, Symbol, Unbacked };
  [[nodiscard]] bool honours(const std::vector<Mark>& marks) const;
  /// Arguments of the guard programs: the values, then the host values. If there are host values,
  /// `room` stores the arguments. nullopt: the scalars were not read.
  [[nodiscard]] std::optional<std::span<const std::int64_t>> operands(
      const Observation& observation, std::vector<std::int64_t>& room) const;
  std::shared_ptr<const SourceList> list_;
  shapes::GuardProgram program_;
  GroupGuardProgram group_program_;
  UniformValues uniform_values_;
  std::vector<std::int64_t> lower_, upper_;  // bounds, parallel to values; equal if static
  std::vector<Use> uses_;                    // parallel to values
};

/// Why an entry does not fit a call. Shown to the user at a miss.
struct Misfit {
  int entry = 0;
  std::string reason;  // "tokens.size(0) is 7, the entry has 5"; a guard's text with its line
};

/// The compiled entries of one frame on one rank, and the state of its sources. Both change, with
/// their digests, in adopt() and commit() only. The digests do not cover the dictionary.
struct CodeCache {
  std::string name;
  std::optional<DecisionConfig> own_config;  // nullopt: the driver's
  int agreement = 0;  // number of the agreement, for records; 0: a job's frame
  std::vector<Entry> entries;
  FrameState state;

  explicit CodeCache(std::string frame_name = {});

  /// Mask of the entries that fit this observation: bit i is for the i-th entry that is not
  /// superseded. The hot path of every call: only entries with host values allocate.
  [[nodiscard]] std::uint64_t lookup(const Observation& observation) const;
  /// Digest of the values that must be equal on all ranks in this call: the uniform sizes of
  /// entries with the call's sources, and the dims that the call marks uniform. 0: there are none.
  [[nodiscard]] std::uint64_t uniform_digest(const Observation& observation) const;
  /// One line per entry that is not superseded and does not fit.
  [[nodiscard]] std::vector<Misfit> explain(const Observation& observation) const;
  /// The entry to run among those that fit on every rank: fewest symbols, then lowest index.
  /// Requires a mask of lookup() that is not empty.
  [[nodiscard]] int pick(std::uint64_t mask) const;
  /// Number of entries that are not superseded.
  [[nodiscard]] int live() const;
  /// True if a call that no entry fits falls back. Equal on all ranks.
  [[nodiscard]] bool at_limit(const DecisionConfig& config) const;
  /// Mask, in the format of lookup(), of the entries with the same structure as this call.
  [[nodiscard]] std::uint64_t alike(const Observation& observation) const;
  /// True if the next entry of a structure settles the frame (DecisionConfig::settle). `alike`: the
  /// entries that have that structure on every rank. Equal on all ranks.
  [[nodiscard]] bool settles_next(const DecisionConfig& config, std::uint64_t alike) const;
  /// Mask, in the format of lookup(), of the entries that `entry` replaces.
  [[nodiscard]] std::uint64_t replaced_by(const Entry& entry) const;

  /// Replaces the state by a stored one (a profile).
  void adopt(FrameState stored);
  /// Adds an entry, marks the entries in the mask `replaced` superseded and replaces the state.
  /// Returns the index of the new entry.
  int commit(Entry entry, FrameState joined, std::uint64_t replaced);

  /// Digest of entries and state; equal on ranks with the same past. adopt() and commit() keep it
  /// up to date, so that a vote costs no hashing.
  [[nodiscard]] std::uint64_t digest() const { return digest_; }
  /// Digest of the entries' reported decisions and of which entries are superseded.
  [[nodiscard]] const shapes::Fingerprint& entries_digest() const { return entries_; }
  [[nodiscard]] const shapes::Fingerprint& state_digest() const { return state_; }

  /// The names that all ranks know: the layout of the exchange if source lists or states differ.
  [[nodiscard]] const std::shared_ptr<const Dictionary>& dictionary() const { return dictionary_; }
  /// Adds names to the dictionary. Requires that every rank adds the same names.
  void learn_names(const KnownNames& names);
  void forget_names();

 private:
  template <class Holds>
  [[nodiscard]] std::uint64_t mask_of(const Holds& holds) const;
  void renew_digest();
  std::uint64_t digest_ = 0;
  // Sums over entries and sources, so that a commit hashes only what it changes.
  shapes::Fingerprint entries_, state_;
  std::shared_ptr<const Dictionary> dictionary_;
};

}  // namespace lockstep::worker
