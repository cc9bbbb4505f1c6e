#include <fmt/format.h>

#include <lockstep/coordinator/documents/finding_log.h>

namespace lockstep::coordinator {

void FindingLog::refused(const std::string& line) {
  if (left_-- > 0)
    say_(line);
  else
    ++kept_;
}

std::map<std::string, RankSet> FindingLog::look(const Service& service, Instant now) {
  std::map<std::string, RankSet> named;
  std::set<std::string> hold;
  for (const auto& [id, job] : service.jobs())
    for (const Finding& finding : service.diagnose(job, now)) {
      named[id].insert(finding.ranks);
      const char* severity = finding.act ? "ACT" : "WARN";
      // The lagging ranks may change at every look, so there is one line as long as any rank lags.
      const bool lags = finding.kind == Finding::Kind::Lags;
      const std::string key = fmt::format("{} {} {} {}", severity, kind_name(finding.kind),
                                          lags ? "" : finding.ranks.text(), id);
      if (!said_.contains(key) && !silenced_kinds_.contains(finding.kind))
        say_(fmt::format("{} {} job={}: {}", severity, kind_name(finding.kind), id,
                         finding.message));
      hold.insert(key);
    }
  said_ = std::move(hold);
  if (kept_ > 0) say_(fmt::format("{} more connections were refused or dropped", kept_));
  left_ = kMostRefusals;
  kept_ = 0;
  return named;
}

}  // namespace lockstep::coordinator
