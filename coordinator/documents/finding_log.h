// The log lines of a coordinator: one for each finding, when it begins, and a few about refused
// connections.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <lockstep/coordinator/service/service.h>

namespace lockstep::coordinator {

/// Single-threaded.
class FindingLog {
 public:
  /// Maximum number of lines about refused connections from one look to the next; further refusals
  /// are only counted.
  static constexpr int kMostRefusals = 5;

  /// `say` receives each line. Findings of the kinds in `silenced_kinds` get no line.
  FindingLog(std::function<void(const std::string& line)> say,
             std::set<Finding::Kind> silenced_kinds)
      : say_(std::move(say)), silenced_kinds_(std::move(silenced_kinds)) {}

  void refused(const std::string& line);
  /// Logs new findings, and the number of refusals that got no line. Returns, by job, the ranks
  /// that findings name.
  std::map<std::string, RankSet> look(const Service& service, Instant now);

 private:
  std::function<void(const std::string& line)> say_;
  std::set<Finding::Kind> silenced_kinds_;
  std::set<std::string> said_;  // findings that hold: severity, kind, ranks and job as one text
  int left_ = kMostRefusals, kept_ = 0;
};

}  // namespace lockstep::coordinator
