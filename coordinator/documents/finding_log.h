// What a coordinator says, line by line: each finding once, when it begins to hold, and of refused
// connections no more than a person reads.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <lockstep/coordinator/service/service.h>

namespace lockstep::coordinator {

/// One thread.
class Announcer {
 public:
  /// Lines about refused connections from one look to the next; further ones are counted.
  static constexpr int kComplaints = 5;

  /// Findings of the kinds in `unsaid` are not said.
  Announcer(std::function<void(const std::string& line)> say, std::set<Finding::Kind> unsaid)
      : say_(std::move(say)), unsaid_(std::move(unsaid)) {}

  void complain(const std::string& line);
  /// Says what is new, and how many complaints were not said. Returns the ranks that findings name,
  /// by job.
  std::map<std::string, RankSet> look(const Service& service, Instant now);

 private:
  std::function<void(const std::string& line)> say_;
  std::set<Finding::Kind> unsaid_;
  std::set<std::string> said_;  // findings that hold
  int left_ = kComplaints, kept_ = 0;
};

}  // namespace lockstep::coordinator
