#include "workers_process.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::worker::test {
namespace {

/// Polls until `there`, for a minute.
template <class There>
bool becomes(const There& there) {
  for (int i = 0; i < 6000; ++i) {
    if (there()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace

WorkersProcess::WorkersProcess(int workers, const Options& options) {
  const std::string launcher =
      options.met ? std::string(RUN_RANKS " -n ") : std::string(MPIRUN " -t 100 -n ");
  const std::string command = fmt::format(
      "exec env LOCKSTEP_CACHE_DIR={} LOCKSTEP_COORDINATOR=off {} {}{} {} --address-file {} {} >{} "
      "2>&1 </dev/null",
      TEST_CACHE, options.environment, launcher, workers, LOCKSTEP_WORKER_PROGRAM,
      folder_ / "address", options.arguments, folder_ / "output");
  launcher_ = ::fork();
  if (launcher_ != 0) return;
  ::setpgid(0, 0);
  ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  ::_exit(127);
}

WorkersProcess::~WorkersProcess() {
  if (launcher_ <= 0) return;
  ::kill(launcher_, SIGCONT);
  ::kill(launcher_, SIGTERM);
  const bool ended = becomes([&] { return ::waitpid(launcher_, nullptr, WNOHANG) == launcher_; });
  if (!ended) ::kill(-launcher_, SIGKILL);
}

std::string WorkersProcess::address_file() const {
  const std::string file = folder_ / "address";
  EXPECT_TRUE(becomes([&] { return std::filesystem::exists(file); })) << output();
  return file;
}

std::unique_ptr<Controller> WorkersProcess::connect(const ControllerOptions& options) const {
  auto made = Controller::connect(address_file(), options);
  if (!made) ADD_FAILURE() << made.error().text() << output();
  return made ? *std::move(made) : nullptr;
}

int WorkersProcess::wait() {
  int status = 0;
  const bool ended = becomes([&] { return ::waitpid(launcher_, &status, WNOHANG) == launcher_; });
  if (!ended) return -1;
  launcher_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string WorkersProcess::output() const { return contents(folder_ / "output"); }

/// Its environment names the address file, and says which rank it is.
pid_t WorkersProcess::pid(int worker) const {
  const std::string file = address_file();
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string words = contents(entry.path() / "cmdline");
    if (words.find(file) == words.npos || !words.starts_with(LOCKSTEP_WORKER_PROGRAM)) continue;
    const std::string environment = contents(entry.path() / "environ");
    for (const char* name : {"OMPI_COMM_WORLD_RANK=", "LOCKSTEP_RANK="})
      if (environment.find(std::string(1, '\0') + name + std::to_string(worker) + '\0') !=
          environment.npos)
        return static_cast<pid_t>(std::stoi(entry.path().filename()));
  }
  ADD_FAILURE() << "there is no worker " << worker << ": " << output();
  return -1;
}

}  // namespace lockstep::worker::test
