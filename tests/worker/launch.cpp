#include "launch.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include <sys/wait.h>

namespace lockstep::worker {

int Launched::count(const std::string& text) const {
  int n = 0;
  for (std::size_t at = output.find(text); at != std::string::npos; at = output.find(text, at + 1))
    ++n;
  return n;
}

Launched launch(const std::string& command) {
  Launched result;
  const auto begin = std::chrono::steady_clock::now();
  FILE* pipe = ::popen(("{ " + command + "; } 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  char chunk[4096];
  while (const std::size_t n = std::fread(chunk, 1, sizeof chunk, pipe))
    result.output.append(chunk, n);
  const int status = ::pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

Launched launch_ranks(int ranks, const std::string& program, const std::string& environment) {
  return launch("env LOCKSTEP_CACHE_DIR=" TEST_CACHE " " + environment + " " MPIRUN " -t 60 -n " +
                std::to_string(ranks) + " " + program);
}

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "lockstep_test_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string contents(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace lockstep::worker
