#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/audit.h>
#include <lockstep/worker/agree/agreement/audit_report.h>
#include <lockstep/worker/agree/agreement/rank_table.h>

namespace lockstep::worker {
namespace {

using collectives::Vote;
using collectives::VoteFlag;

/// Fingerprint of what must be the same on all ranks.
shapes::Fingerprint compared(const AuditedCall& own) {
  shapes::FingerprintBuilder builder;
  builder.add(own.program).add(std::int64_t{own.collectives.has_value()} + 2 * own.issued);
  if (own.collectives) builder.add(*own.collectives);
  return builder.finish();
}

}  // namespace

std::uint64_t AuditLedger::note(const Status& finding, const std::string& content) {
  const auto known = known_.find(content);
  if (known != known_.end()) return ++findings_[known->second].times;
  if (findings_.size() == kMost) return 1 + ++uncounted_;
  known_.emplace(content, findings_.size());
  findings_.push_back({finding, 1});
  return 1;
}

std::string AuditLedger::summary() const {
  std::uint64_t found = uncounted_;
  for (const Line& line : findings_) found += line.times;
  std::string out =
      fmt::format("lockstep audit: {} calls, {} with a finding ({} different), {} stopped\n",
                  calls_, found, findings_.size(), errors_);
  for (const Line& line : findings_)
    out += fmt::format("  {} time{}, first: {}\n", line.times, line.times == 1 ? "" : "s",
                       line.first.text());
  if (uncounted_ > 0) out += fmt::format("  {} more, not told apart\n", uncounted_);
  return out;
}

AuditMachine::AuditMachine(Rank self, RoundKey key, AuditLedger& ledger, AuditedCall own)
    : self_(self), key_(std::move(key)), ledger_(ledger), own_(std::move(own)) {
  key_.kind = RoundKey::Kind::Audit;
  const shapes::Fingerprint same = compared(own_);
  Vote mine = Vote::of(0, key_.hash(), same.high, same.low);
  if (own_.local_error) mine.raise(VoteFlag::Error);
  action_ = action::Vote{mine, collectives::Combine::And};
}

void AuditMachine::voted(const Vote& result) {
  if (result.same_key() && result.same_state() && result.same_pending() && !result.any_flag())
    return finish({});
  action_ = action::TreeJoin{rank_table_payload(self_, audit_line(key_, own_)), join_rank_tables};
}

void AuditMachine::joined(const Bytes& result) {
  if (rank_table_.empty()) return collected(rank_table_values(result));
  if (evidence_.empty()) return evident(read_evidence(result));
  parting_->texts = rank_table_values(result);
  judged();
}

void AuditMachine::evident(std::vector<Evidence> evidence) {
  evidence_ = std::move(evidence);
  parting_ = find_parting(rank_table_, evidence_);
  if (!parting_) return judged();
  action_ =
      action::TreeJoin{rank_table_payload(self_, parting_line(*parting_, own_)), join_rank_tables};
}

void AuditMachine::judged() {
  std::optional<AuditVerdict> verdict = judge(rank_table_, evidence_, parting_);
  AuditOutcome out;
  if (verdict && verdict->stops) {
    out.error = std::move(verdict->status);
  } else if (verdict) {
    out.times = ledger_.note(verdict->status, verdict->content);
    out.finding = std::move(verdict->status);
  }
  finish(std::move(out));
}

void AuditMachine::collected(std::vector<RankValue> rank_table) {
  rank_table_ = std::move(rank_table);
  AuditOutcome out;
  if (rank_table_.empty() || !all_audited(rank_table_)) {
    out.error = diagnose(rank_table_);
    return finish(std::move(out));
  }
  std::uint32_t line = 0;
  while (line < rank_table_.size() && !rank_table_[line].ranks.contains(self_)) ++line;
  Evidence own = evidence_of(line, own_.observation);
  describe(own, own_);
  action_ = action::TreeJoin{evidence_payload(own), join_evidence};
}

void AuditMachine::failed(Status status) {
  AuditOutcome out;
  out.error = std::move(status);
  finish(std::move(out));
}

void AuditMachine::finish(AuditOutcome outcome) {
  ledger_.call();
  if (outcome.error) ledger_.error();
  outcome_ = std::move(outcome);
}

}  // namespace lockstep::worker
