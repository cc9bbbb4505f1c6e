// A job over all ranks of an MPI test program whose compiler notes which rank compiles, and is slow
// on request.
#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "job_ranks.h"
#include "launch.h"

namespace lockstep::worker {

/// A directory that all ranks share, made and removed by rank 0.
class SharedFolder {
 public:
  SharedFolder() {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) own_.emplace();
    std::string name = own_ ? *own_ / "" : "";
    name.resize(256);
    MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
    path_ = name.c_str();
  }
  ~SharedFolder() { MPI_Barrier(MPI_COMM_WORLD); }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + name; }

 private:
  std::optional<Folder> own_;
  std::string path_;
};

class CompilerRanks : public JobRanks {
 protected:
  /// Starts a job whose compiler notes which rank compiles, and takes `seconds` longer on rank 0
  /// once the file "slow" exists.
  void start_with_compiler(const std::string& cache, std::chrono::seconds deadline, int seconds) {
    Settings settings = quiet();
    settings.cache_dir = cache;
    settings.compiler = folder / "compiler";
    settings.deadline = deadline;
    if (rank == 0) {
      std::ofstream script(settings.compiler);
      script << "#!/bin/sh\ncase \" $* \" in *\" -o \"*)\n  echo $OMPI_COMM_WORLD_RANK >> "
             << folder / "built"
             << "\n  if [ \"$OMPI_COMM_WORLD_RANK\" = 0 ] && [ -e " << folder / "slow"
             << " ]; then sleep " << seconds << "; fi;;\nesac\nexec c++ \"$@\"\n";
      script.close();
      std::filesystem::permissions(settings.compiler, std::filesystem::perms::owner_all);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    start({}, settings);
  }
  /// The ranks that have compiled so far, once per compilation.
  [[nodiscard]] std::vector<int> built() const {
    MPI_Barrier(MPI_COMM_WORLD);
    std::istringstream lines(contents(folder / "built"));
    std::vector<int> out;
    for (int who = 0; lines >> who;) out.push_back(who);
    MPI_Barrier(MPI_COMM_WORLD);
    return out;
  }
  void be_slow() const {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) std::ofstream(folder / "slow") << "";
    MPI_Barrier(MPI_COMM_WORLD);
  }
  [[nodiscard]] static int files_in(const std::string& directory) {
    int n = 0;
    for (const auto& file : std::filesystem::directory_iterator(directory))
      n += file.is_regular_file();
    return n;
  }

  SharedFolder folder;
};

}  // namespace lockstep::worker
