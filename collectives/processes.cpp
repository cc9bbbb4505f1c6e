#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <lockstep/collectives/processes.h>

namespace lockstep::collectives {
namespace {

/// The state letter of /proc/PID/stat; 0 if there is no such process.
char process_state(std::int32_t pid) {
  const int file = ::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[512];
  const ssize_t n = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (n <= 0) return 0;
  text[n] = '\0';
  // The process's name, before the state, is in parentheses and may contain any character.
  const char* end = std::strrchr(text, ')');
  return end != nullptr && end[1] == ' ' ? end[2] : '\0';
}

bool is_gone(std::int32_t pid) {
  if (::kill(pid, 0) != 0 && errno == ESRCH) return true;
  const char state = process_state(pid);
  return state == 'Z' || state == 'X';
}

}  // namespace

Processes::~Processes() {
  for (const Process& process : of_rank_)
    if (process.descriptor >= 0) ::close(process.descriptor);
}

void Processes::watch(int rank, std::int32_t pid) {
  Process& process = of_rank_[static_cast<std::size_t>(rank)];
  if (process.pid != 0) return;
  process.pid = pid;
  process.descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  process.ended = process.descriptor < 0 && is_gone(pid);
}

bool Processes::stopped(int rank) const {
  const Process& process = at(rank);
  if (process.pid == 0 || process.ended) return false;
  const char state = process_state(process.pid);
  return state == 'T' || state == 't';
}

void Processes::wait(int event, int milliseconds) {
  polled_.clear();
  polled_.push_back({event, POLLIN, 0});
  for (const Process& process : of_rank_)
    if (process.descriptor >= 0 && !process.ended)
      polled_.push_back({process.descriptor, POLLIN, 0});
  ::poll(polled_.data(), polled_.size(), milliseconds);
  std::size_t next = 1;
  for (Process& process : of_rank_) {
    if (process.ended || process.pid == 0) continue;
    process.ended =
        process.descriptor >= 0 ? (polled_[next++].revents & POLLIN) != 0 : is_gone(process.pid);
  }
}

}  // namespace lockstep::collectives
