// Where a test has records written.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include <lockstep/worker/agree/agreement/record.h>

namespace lockstep::worker::simulator {

/// A directory that is empty at first and gone afterwards.
class Directory {
 public:
  Directory() {
    std::string name = testing::TempDir() + "lockstep-record-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }
  [[nodiscard]] std::string file(int rank) const {
    return (path_ / record_file_name(Rank{rank})).string();
  }

 private:
  std::filesystem::path path_;
};

inline std::string contents(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

}  // namespace lockstep::worker::simulator
