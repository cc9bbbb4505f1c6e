// A job over all ranks of an MPI test program, with a folder that its ranks share.
#pragma once

#include <filesystem>
#include <string>

#include "job_ranks.h"

namespace lockstep::worker {

/// The folder is new for each test, and removed after it.
class JobFolder : public JobRanks {
 protected:
  void SetUp() override {
    JobRanks::SetUp();
    std::string name = (std::filesystem::temp_directory_path() / "job-XXXXXX").string();
    if (rank == 0) {
      ASSERT_NE(::mkdtemp(name.data()), nullptr);
    }
    MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
    folder = name;
  }
  void TearDown() override {
    job.reset();
    meet();
    if (rank == 0) std::filesystem::remove_all(folder);
  }
  static void meet() { MPI_Barrier(MPI_COMM_WORLD); }

  std::string folder;
};

}  // namespace lockstep::worker
