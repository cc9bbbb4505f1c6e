// A `lockstep coordinator` of a test's own.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace lockstep::worker::cli {

[[nodiscard]] std::string contents(const std::string& file);

/// Killed at the end if it still lives.
class CoordinatorProcess {
 public:
  /// `words` follow `lockstep coordinator`; what it says is kept in `folder`.
  CoordinatorProcess(std::vector<std::string> words, const std::string& folder);
  ~CoordinatorProcess();
  CoordinatorProcess(const CoordinatorProcess&) = delete;
  CoordinatorProcess& operator=(const CoordinatorProcess&) = delete;

  void signal(int number) const;
  /// Its exit code, or minus the signal that ended it.
  int wait();
  /// It has written `part`, or does within twenty seconds.
  [[nodiscard]] bool says(const std::string& part) const;
  [[nodiscard]] std::string said() const { return contents(out_); }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  std::string out_;
};

}  // namespace lockstep::worker::cli
