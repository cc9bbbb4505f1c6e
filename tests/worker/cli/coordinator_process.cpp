#include "coordinator_process.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace lockstep::worker::cli {

std::string contents(const std::string& file) {
  std::ostringstream out;
  out << std::ifstream(file).rdbuf();
  return out.str();
}

CoordinatorProcess::CoordinatorProcess(std::vector<std::string> words, const std::string& folder)
    : out_(folder + "/said") {
  words.insert(words.begin(), {LOCKSTEP_BINARY, "coordinator"});
  if (std::find(words.begin(), words.end(), "--store") == words.end())
    words.insert(words.end(), {"--store", folder + "/stores"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out_.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  ::posix_spawn(&pid_, LOCKSTEP_BINARY, &files, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
}

CoordinatorProcess::~CoordinatorProcess() {
  if (pid_ <= 0) return;
  signal(SIGKILL);
  (void)wait();
}

void CoordinatorProcess::signal(int number) const { ::kill(pid_, number); }

int CoordinatorProcess::wait() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool CoordinatorProcess::says(const std::string& part) const {
  for (int tries = 0; tries < 2000; ++tries) {
    if (said().find(part) != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace lockstep::worker::cli
