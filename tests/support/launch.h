// Real processes under scripts/mpirun: their output, exit code and duration.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::worker {

struct Launched {
  int exit_code = -1;
  double seconds = 0;
  std::string output;  // stdout and stderr of all ranks
  /// Number of times that `text` is in the output.
  [[nodiscard]] int count(const std::string& text) const;
};

/// Runs a shell command to its end.
[[nodiscard]] Launched launch(const std::string& command);
/// `environment`: "NAME=value NAME=value"; the artifact cache is that of the build tree unless
/// given. The command is ended after 150 seconds.
[[nodiscard]] Launched launch_ranks(int ranks, const std::string& program,
                                    const std::string& environment = {});

/// Runs ranks without a launcher: plain processes that meet over TCP, killed after 40 seconds. The
/// output has a line "rank 3 left with 0" per rank at its end. Products run on one thread each: on
/// a busy machine, threads of OpenBLAS that wait for each other take a hundred times as long.
/// `without`: a rank that is not started.
[[nodiscard]] Launched launch_met(int ranks, const std::string& program,
                                  const std::string& environment = {}, int without = -1);

/// The command lines of processes with `variable` ("NAME=value") in their environment. Processes
/// that were killed but have not ended yet get five seconds to end.
[[nodiscard]] std::vector<std::string> processes_with(const std::string& variable);

/// A fresh directory, removed with the object.
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
