// Real processes under scripts/mpirun: what they print, how they end and how long they take.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::worker {

struct Launched {
  int exit_code = -1;
  double seconds = 0;
  std::string output;  // stdout and stderr of all ranks
  /// How often `text` is in the output.
  [[nodiscard]] int count(const std::string& text) const;
};

/// Runs a shell command to its end.
[[nodiscard]] Launched launch(const std::string& command);
/// `environment`: "NAME=value NAME=value"; the artifact cache is that of the build tree unless
/// given. The command is ended after 60 seconds.
[[nodiscard]] Launched launch_ranks(int ranks, const std::string& program,
                                    const std::string& environment = {});

/// The same without a launcher: plain processes that meet over TCP, each of which ends the output
/// with "rank 3 left with 0"; killed after 40 seconds. One thread each for products: on a busy
/// machine threads of OpenBLAS that wait for each other take a hundred times as long. `without`: a
/// rank that is not started.
[[nodiscard]] Launched launch_met(int ranks, const std::string& program,
                                  const std::string& environment = {}, int without = -1);

/// The command lines of processes that have `variable`, "NAME=value", in their environment. Those
/// that have been killed and have not ended yet are given five seconds.
[[nodiscard]] std::vector<std::string> processes_with(const std::string& variable);

/// A fresh directory that goes with the object.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const {
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

[[nodiscard]] std::string contents(const std::string& file);

}  // namespace lockstep::worker
