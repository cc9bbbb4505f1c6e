#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <lockstep/coordinator/documents/headline.h>

namespace lockstep::coordinator {
namespace {

using Word = Headline::Word;

/// Shorter waits are not shown.
constexpr std::chrono::seconds kLong{1};
/// Time for which an error stays the headline of a job that goes on.
constexpr std::chrono::minutes kNews{1};

Word word_of(Code code) {
  if (code == Code::Stuck) return Word::Stuck;
  if (code == Code::RankLost) return Word::Lost;
  const bool one_failed = code == Code::TraceError || code == Code::CompileError ||
                          code == Code::RuntimeAssert || code == Code::Gone;
  return !one_failed && exit_code(code) == 3 ? Word::Diverged : Word::Failed;
}

std::optional<Headline> told_error(const WatchedJob& job, Instant now) {
  if (job.call_log.calls().empty()) return std::nullopt;
  const ReportedCall& last = job.call_log.calls().back();
  if (last.event.outcome != CallEvent::Outcome::Error) return std::nullopt;
  if (job.membership.anyone_live() && now - last.last > kNews) return std::nullopt;
  return Headline{word_of(last.event.code),
                  fmt::format("{} in call {} of {}{}: {}", code_name(last.event.code),
                              last.event.call, last.event.frame,
                              last.event.group.empty() ? "" : " (group " + last.event.group + ")",
                              last.event.reason)};
}

std::optional<Headline> found(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    switch (finding.kind) {
      case Finding::Kind::Lost:
        return Headline{Word::Lost, finding.message};
      case Finding::Kind::Silent:
      case Finding::Kind::Stuck:
      case Finding::Kind::Ring:
      case Finding::Kind::Hung:
        return Headline{Word::Stuck, finding.message};
      case Finding::Kind::Absent:
      case Finding::Kind::Lags:
        break;
    }
  }
  return std::nullopt;
}

bool all_busy(const WatchedJob& job, const RankSet& ranks, Instant now) {
  for (const Rank rank : ranks)
    if (const Seen* seen = job.progress.seen(rank); seen == nullptr || seen->state.lease < now)
      return false;
  return true;
}

std::optional<Headline> waited(const WatchedJob& job, const std::vector<Finding>& findings,
                               const std::vector<Operation>& operations, Instant now) {
  for (const Operation& operation : operations) {
    if (operation.not_in.empty() || now - operation.since < kLong) continue;
    return Headline{
        Word::Waiting,
        fmt::format("Waiting for {} in {}, for {:.0f} s; in it: {}.{}",
                    job.membership.text(operation.not_in), operation.text(),
                    std::chrono::duration<double>(now - operation.since).count(),
                    operation.in.phrase(),
                    all_busy(job, operation.not_in, now) ? " They are busy and say so." : "")};
  }
  for (const Finding& finding : findings)
    if (finding.kind == Finding::Kind::Absent) return Headline{Word::Waiting, finding.message};
  return std::nullopt;
}

}  // namespace

std::string_view word_text(Word word) {
  constexpr std::string_view kTexts[] = {"OK",     "ENDED", "WAITING", "DIVERGED",
                                         "FAILED", "STUCK", "LOST"};
  return kTexts[static_cast<std::size_t>(word)];
}

Headline headline(const WatchedJob& job, const std::vector<Finding>& findings,
                  const std::vector<Operation>& operations, Instant now) {
  if (job.ending) return {word_of(job.ending->code), job.ending->message};
  if (auto error = told_error(job, now)) return *std::move(error);
  if (auto wrong = found(findings)) return *std::move(wrong);
  const std::int64_t finished = job.membership.finished().size();
  if (finished == job.membership.size())
    return {Word::Ended, fmt::format("All {} ranks have finished.", finished)};
  if (auto wait = waited(job, findings, operations, now)) return *std::move(wait);
  return {Word::Ok, fmt::format("{} of {} ranks are connected, and nobody waits for long.",
                                job.membership.live().size(), job.membership.size())};
}

}  // namespace lockstep::coordinator
