#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/worker/compile/toolchain/child_process.h>

namespace lockstep::worker {
namespace {

constexpr std::chrono::milliseconds kGrace{2000};

/// Arguments of posix_spawn, freed by the destructor.
class SpawnPlan {
 public:
  explicit SpawnPlan(const ChildRun& run) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    connect(run.input, 0, O_RDONLY);
    connect(run.errors, 1, O_WRONLY);
    connect(run.errors, 2, O_WRONLY);
    if (run.output >= 0) posix_spawn_file_actions_adddup2(&actions_, run.output, 3);
    // A fixed folder, so that the output does not depend on where the job was started.
    posix_spawn_file_actions_addchdir_np(&actions_, "/");
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  int spawn(pid_t& pid, std::vector<std::string> arguments) {
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    std::vector<char*> environment = english();
    return posix_spawnp(&pid, pointers[0], &actions_, &attributes_, pointers.data(),
                        environment.data());
  }

 private:
  /// Returns this process's environment, with messages in English.
  std::vector<char*> english() {
    std::vector<char*> out;
    for (char** entry = environ; *entry != nullptr; ++entry)
      if (std::strncmp(*entry, "LC_ALL=", 7) != 0) out.push_back(*entry);
    out.push_back(language_);
    out.push_back(nullptr);
    return out;
  }
  void connect(int from, int to, int mode) {
    if (from >= 0)
      posix_spawn_file_actions_adddup2(&actions_, from, to);
    else
      posix_spawn_file_actions_addopen(&actions_, to, "/dev/null", mode, 0);
  }
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  char language_[9] = "LC_ALL=C";
};

/// True if the process has ended, or if it cannot be watched: then the caller can only wait for it.
bool ends_within(int pid_descriptor, std::chrono::milliseconds limit) {
  if (pid_descriptor < 0) return true;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd watched{pid_descriptor, POLLIN, 0};
    const int ready = ::poll(&watched, 1, left.count() > 0 ? static_cast<int>(left.count()) : 0);
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

std::chrono::microseconds duration(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

}  // namespace

Result<ChildEnd> run_child(const ChildRun& run) {
  pid_t pid = 0;
  if (const int error = SpawnPlan(run).spawn(pid, run.arguments); error != 0)
    return environment_error(
        fmt::format("cannot start {}: {}", run.arguments[0], std::strerror(error)));
  const int watched = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  ChildEnd end;
  if (!ends_within(watched, run.limit)) {
    end.timed_out = true;
    ::kill(-pid, SIGTERM);  // the compiler driver then removes its temporary files
    if (!ends_within(watched, kGrace)) ::kill(-pid, SIGKILL);
  }
  if (watched >= 0) ::close(watched);
  int status = 0;
  rusage used{};
  pid_t waited = 0;
  do waited = ::wait4(pid, &status, 0, &used);
  while (waited < 0 && errno == EINTR);
  if (waited != pid)
    return environment_error(fmt::format(
        "cannot wait for {}: {}; does something else in this process reap its children?",
        run.arguments[0], std::strerror(errno)));
  end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  end.status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  end.cpu = duration(used.ru_utime) + duration(used.ru_stime);
  return end;
}

}  // namespace lockstep::worker
