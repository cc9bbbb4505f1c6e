// Audit: every rank decides for itself, with a compiler and a cache of its own, and the ranks only
// compare what each is about to run. Nothing of the caller's is changed. Programs that differ are
// a finding, and the call goes on; collectives that would not match are an error on all ranks
// before any of them runs. The way into an existing job without rewriting it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/agreement/action.h>
#include <lockstep/worker/agreement/audit_evidence.h>
#include <lockstep/worker/agreement/diagnosis.h>
#include <lockstep/worker/agreement/round_key.h>
#include <lockstep/worker/exchange/observation.h>

namespace lockstep::worker {

/// What one rank is about to run, and what it sees of its inputs.
struct AuditedCall {
  Observation observation;
  shapes::Fingerprint program;
  /// Of the ordered list of the program's collectives. All zero: it has none. nullopt: not known.
  std::optional<shapes::Fingerprint> collectives;
  /// The collectives are those that the rank has issued since its last audited call; what the
  /// program will issue is not known.
  bool issued = false;
  /// Compiled for this call, not taken from the rank's cache. Only reported.
  bool is_new = false;
  /// Shown in reports, may be empty. The program: a line of a few words, then its text, of which
  /// the first line that differs is shown. Its collectives, one per line. What follows a tab in a
  /// line is shown and makes no difference.
  std::string program_text, collectives_text;
  /// This rank has nothing to run (its compile failed).
  std::optional<Status> local_error;
};

/// What a call came to; the same on all ranks.
struct AuditOutcome {
  /// The ranks do not do the same, but no collective is known to suffer: the call goes on.
  std::optional<Status> finding;
  /// How often the same has been found by now; 1: to be reported in full.
  std::uint64_t times = 0;
  /// The call must not run. Unlike a finding it is never a matter of reports only.
  std::optional<Status> error;
};

/// What an audit has found so far, on one rank; equal on all ranks. Findings are the same if they
/// are about the same frame, the same ranks and the same input, whatever its sizes.
class AuditLedger {
 public:
  /// Findings beyond this many are counted together, and reported as if they had been seen before.
  static constexpr std::size_t kMost = 64;

  struct Line {
    Status first;  // as reported in full
    std::uint64_t times = 0;
  };
  void call() { ++calls_; }
  void error() { ++errors_; }
  /// Returns how often `content` has been found, this time included.
  std::uint64_t note(const Status& finding, const std::string& content);

  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  [[nodiscard]] std::uint64_t errors() const { return errors_; }
  /// In order of their first time.
  [[nodiscard]] const std::vector<Line>& findings() const { return findings_; }
  /// Findings beyond kMost.
  [[nodiscard]] std::uint64_t uncounted() const { return uncounted_; }
  /// A few lines for the end of the job.
  [[nodiscard]] std::string summary() const;

 private:
  std::uint64_t calls_ = 0, errors_ = 0, uncounted_ = 0;
  std::map<std::string, std::size_t> known_;  // content to index
  std::vector<Line> findings_;
};

/// The line at which the texts of ranks part.
struct Parting {
  bool of_collectives = false;  // else of programs
  std::size_t line = 0;
  std::vector<RankValue> texts;  // of that line
};

/// One audited call on one rank, as a pure state machine: one vote where all ranks do the same;
/// else a rank table of what each does and, unless a rank is in no audited call at all, a tree join
/// of what their inputs have in common, and one of the line at which their texts part.
/// Single-threaded; `ledger` outlives it.
class AuditMachine {
 public:
  AuditMachine(Rank self, RoundKey key, AuditLedger& ledger, AuditedCall own);

  /// nullptr while there is something to do.
  [[nodiscard]] const AuditOutcome* outcome() const { return outcome_ ? &*outcome_ : nullptr; }
  /// A Vote or a TreeJoin. Requires that there is no outcome yet.
  [[nodiscard]] const Action& next() const { return action_; }
  void voted(const collectives::Vote& result);
  void joined(const Bytes& result);
  /// The transport gave up: the call ends with that error.
  void failed(Status status);

 private:
  void collected(std::vector<RankValue> rank_table);
  void evident(std::vector<Evidence> evidence);
  void judged();
  void finish(AuditOutcome outcome);
  Rank self_;
  RoundKey key_;
  AuditLedger& ledger_;
  AuditedCall own_;
  std::vector<RankValue> rank_table_;  // once taken
  std::vector<Evidence> evidence_;     // once taken
  std::optional<Parting> parting_;
  Action action_;
  std::optional<AuditOutcome> outcome_;
};

}  // namespace lockstep::worker
