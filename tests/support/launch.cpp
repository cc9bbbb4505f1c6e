#include "launch.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

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

#ifdef MPIRUN
Launched launch_ranks(int ranks, const std::string& program, const std::string& environment) {
  return launch("env LOCKSTEP_CACHE_DIR=" TEST_CACHE " " + environment + " " MPIRUN " -t 150 -n " +
                std::to_string(ranks) + " " + program);
}
#endif

Launched launch_met(int ranks, const std::string& program, const std::string& environment,
                    int without) {
  static int next_port = 0;  // per process; each test runs in its own
  const int port = 20'000 + (::getpid() * 7 + next_port++ * 1'009) % 12'000;
  const std::string number = std::to_string(ranks);
  std::string script =
      "cd /; for r in $(seq 0 " + std::to_string(ranks - 1) +
      "); do [ $r = " + std::to_string(without) +
      " ] && continue; (export LOCKSTEP_RANK=$r; "
      "env OPENBLAS_NUM_THREADS=1 LOCKSTEP_CACHE_DIR=" TEST_CACHE " LOCKSTEP_WORLD_SIZE=" +
      number + " LOCKSTEP_RENDEZVOUS=127.0.0.1:" + std::to_string(port) + " " + environment +
      " timeout -s KILL 40 " + program + "; echo rank $r left with $?) & done; wait";
  return launch(script);
}

std::vector<std::string> processes_with(const std::string& variable) {
  std::vector<std::string> out;
  for (int tries = 0; tries < 500; ++tries) {
    out.clear();
    for (const auto& process : std::filesystem::directory_iterator("/proc")) {
      const std::string at = process.path().string();
      if (('\0' + contents(at + "/environ")).find('\0' + variable + '\0') != std::string::npos)
        out.push_back(contents(at + "/cmdline"));
    }
    if (out.empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return out;
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
