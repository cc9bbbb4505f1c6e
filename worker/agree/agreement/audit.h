// Audit: every rank decides for itself, with a compiler and a cache of its own, and the ranks only
// compare what each is about to run. The caller's programs and caches stay as they are. Programs
// that differ are a finding, and the call goes on; collectives that would not match are an error on
// all ranks before any collective runs. Meant for existing jobs, which need not be rewritten.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/agree/agreement/action.h>
#include <lockstep/worker/agree/agreement/audit_evidence.h>
#include <lockstep/worker/agree/agreement/diagnosis.h>
#include <lockstep/worker/agree/agreement/round_key.h>
#include <lockstep/worker/agree/exchange/observation.h>

namespace lockstep::worker {

/// The program that one rank is about to run, and its inputs.
struct AuditedCall {
  Observation observation;
  shapes::Fingerprint program;
  /// Fingerprint of the ordered list of the program's collectives. All zero: it has none.
  /// nullopt: not known.
  std::optional<shapes::Fingerprint> collectives;
  /// True: `collectives` are those that the rank has issued since its last audited call; those of
  /// the program are not known.
  bool issued = false;
  /// True: compiled for this call, not taken from the rank's cache. For reports only.
  bool is_new = false;
  /// Texts for reports; may be empty. `program_text`: a line of a few words, then the program;
  /// reports show the first line of the program that differs. `collectives_text`: one collective
  /// per line. The part of a line after a tab is shown but not compared.
  std::string program_text, collectives_text;
  /// If set, this rank has nothing to run (its compile failed).
  std::optional<Status> local_error;
};

/// Result of an audited call; the same on all ranks.
struct AuditOutcome {
  /// A difference between the ranks, in which no collective is known to mismatch: the call goes on.
  std::optional<Status> finding;
  /// Number of times that this finding has been made; 1: to be reported in full.
  std::uint64_t times = 0;
  /// If set, the call must not run; a finding, in contrast, is only reported.
  std::optional<Status> error;
};

/// The audit's findings so far; equal on all ranks. Two findings are the same if they have the same
/// kind, frame, ranks and input, whatever the sizes.
class AuditLedger {
 public:
  /// Different findings beyond this number are counted together and not reported in full.
  static constexpr std::size_t kMost = 64;

  struct Line {
    Status first;  // of the first occurrence, reported in full
    std::uint64_t times = 0;
  };
  void call() { ++calls_; }
  void error() { ++errors_; }
  /// Counts a finding. Returns how often `content` has been found, this time included.
  std::uint64_t note(const Status& finding, const std::string& content);

  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  [[nodiscard]] std::uint64_t errors() const { return errors_; }
  /// In order of their first occurrence.
  [[nodiscard]] const std::vector<Line>& findings() const { return findings_; }
  /// Number of findings beyond kMost.
  [[nodiscard]] std::uint64_t uncounted() const { return uncounted_; }
  /// A few lines for the end of the job.
  [[nodiscard]] std::string summary() const;

 private:
  std::uint64_t calls_ = 0, errors_ = 0, uncounted_ = 0;
  std::map<std::string, std::size_t> known_;  // content to index
  std::vector<Line> findings_;
};

/// The first line in which the texts of ranks differ.
struct FirstDifference {
  bool of_collectives = false;  // else of programs
  std::size_t line = 0;
  std::vector<RankValue> texts;  // that line on each rank
};

/// One audited call on one rank, as a pure state machine. Makes one vote. If the ranks do not all
/// run the same, it collects a rank table of what each runs. If all ranks are in audited calls, it
/// then joins the evidence of their inputs, and the first line in which their texts differ, if any.
/// Single-threaded; `ledger` must outlive it.
class AuditMachine {
 public:
  AuditMachine(Rank self, RoundKey key, AuditLedger& ledger, AuditedCall own);

  /// nullptr while next() has something to do.
  [[nodiscard]] const AuditOutcome* outcome() const { return outcome_ ? &*outcome_ : nullptr; }
  /// The next action: a Vote or a TreeJoin. Requires that there is no outcome yet.
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
  std::vector<RankValue> rank_table_;  // empty until collected
  std::vector<Evidence> evidence_;     // empty until joined
  std::optional<FirstDifference> parting_;
  Action action_;
  std::optional<AuditOutcome> outcome_;
};

}  // namespace lockstep::worker
