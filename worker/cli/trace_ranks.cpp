#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/worker/agree/process/settings.h>
#include <lockstep/worker/agree/process/world.h>
#include <lockstep/worker/cli/trace_ranks.h>

extern char** environ;

namespace lockstep::worker::cli {
namespace {

using namespace std::chrono_literals;

constexpr Duration kGrace = 10s, kTick = 200ms;
/// Number of ticks after which the ranks are killed, if some rank has ended and all others are
/// stopped (by SIGSTOP, say).
constexpr int kStoppedTicks = 5;

Status cannot(const char* what) {
  return environment_error(fmt::format("cannot {}: {}.", what, std::strerror(errno)));
}

/// Returns the environment of one rank, without variables that would make it join another job.
std::vector<std::string> environment_of(const TraceRun& run, int rank) {
  std::map<std::string, std::string> own{
      {"LOCKSTEP_TRACE", run.folder},
      {"LOCKSTEP_TRACE_CALLS", std::to_string(run.calls)},
      {"LOCKSTEP_WORLD_SIZE", std::to_string(run.size)},
      {"LOCKSTEP_RANK", std::to_string(rank)},
      {"LOCKSTEP_RENDEZVOUS", run.alone ? "" : run.folder + "/rendezvous"},
      // A program that starts MPI runs as an MPI job of one rank, with MPI's files in the folder.
      {"OMPI_MCA_ess_singleton_isolated", "1"},
      {"OMPI_MCA_orte_tmpdir_base", run.folder}};
  if (run.saves) own["LOCKSTEP_TRACE_SAVE"] = "on";
  own.insert(run.variables.begin(), run.variables.end());
  if (std::getenv("LOCKSTEP_LOG") == nullptr) own["LOCKSTEP_LOG"] = "off";
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!own.contains(text.substr(0, text.find('=')))) out.push_back(text);
  }
  for (const auto& [name, value] : own) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

/// The output of a rank, printed on stderr by whole lines.
class Lines {
 public:
  Lines(int from, std::string prefix) : from_(from), prefix_(std::move(prefix)) {}

  [[nodiscard]] int from() const { return from_; }
  /// Reads more output and prints its whole lines. False at the end of the output.
  [[nodiscard]] bool take() {
    std::array<char, 16384> chunk;
    const ssize_t n = ::read(from_, chunk.data(), chunk.size());
    if (n < 0) return errno == EINTR || errno == EAGAIN;
    if (n == 0) return false;
    rest_.append(chunk.data(), static_cast<std::size_t>(n));
    put(rest_.rfind('\n') + 1);
    return true;
  }
  /// Prints all remaining output, including a last line without an end.
  void close() {
    if (from_ < 0) return;
    pollfd more{from_, POLLIN, 0};
    while (::poll(&more, 1, 0) > 0 && take()) {
    }
    if (!rest_.empty()) {
      rest_ += '\n';
      put(rest_.size());
    }
    ::close(std::exchange(from_, -1));
  }

 private:
  void put(std::size_t bytes) {
    std::string out;
    for (std::size_t at = 0; at < bytes;) {
      const std::size_t end = rest_.find('\n', at) + 1;
      out += prefix_ + rest_.substr(at, end - at);
      at = end;
    }
    rest_.erase(0, bytes);
    std::fwrite(out.data(), 1, out.size(), stderr);
  }
  int from_;
  std::string prefix_, rest_;
};

struct RankProcess {
  pid_t pid = 0;
  Lines lines;
  std::optional<RankEnd> end;
};

/// Receives this process's signals by a descriptor, while this object lives.
class Signals {
 public:
  Signals() {
    sigset_t ours;
    sigemptyset(&ours);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&ours, signal);
    sigprocmask(SIG_BLOCK, &ours, &before_);
    file_ = ::signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Signals() {
    if (file_ >= 0) ::close(file_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  [[nodiscard]] int file() const { return file_; }
  [[nodiscard]] const sigset_t& before() const { return before_; }
  /// Returns the next pending signal; 0: none.
  [[nodiscard]] int next() const {
    signalfd_siginfo what{};
    return ::read(file_, &what, sizeof what) == sizeof what ? static_cast<int>(what.ssi_signo) : 0;
  }

 private:
  sigset_t before_;
  int file_ = -1;
};

class Ranks {
 public:
  explicit Ranks(const TraceRun& run) : run_(run) {}
  ~Ranks() {
    tell(SIGKILL);
    for (RankProcess& rank : ranks_)
      if (!rank.end) ::waitpid(rank.pid, nullptr, 0);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  Result<void> start(int rank);
  Result<RanksEnd> watch();
  [[nodiscard]] const Signals& signals() const { return signals_; }

 private:
  void tell(int signal);
  void on_signal(int signal);
  void reap();
  void press();
  [[nodiscard]] bool all_left_are_stopped() const;
  [[nodiscard]] bool made_job(std::size_t i) const {
    return ::access(TraceMode{run_.folder}.sheet(number(i)).c_str(), F_OK) == 0;
  }
  [[nodiscard]] int number(std::size_t i) const { return run_.alone.value_or(static_cast<int>(i)); }
  void say_that_it_waits();
  [[nodiscard]] bool running() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& r) { return !r.end; });
  }

  const TraceRun& run_;
  Signals signals_;
  SystemClock clock_;
  Instant started_ = clock_.now();
  std::vector<RankProcess> ranks_;
  bool killed_ = false;
  int told_ = 0;
  Instant told_at_{0};
  const Instant began_ = clock_.now();
  std::optional<Instant> bad_since_, jobless_since_;
  bool told_of_waiting_ = false;
  int stopped_ticks_ = 0;
};

[[noreturn]] void become(const TraceRun& run, int rank, int output, const sigset_t& mask,
                         pid_t parent) {
  std::vector<std::string> words = run.command, variables = environment_of(run, rank);
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent has ended already
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  const bool there = run.directory.empty() || ::chdir(run.directory.c_str()) == 0;
  if (there) ::execve(words[0].c_str(), pointers(words).data(), pointers(variables).data());
  const std::string failed =
      fmt::format("lockstep: cannot start {}: {}.\n", words[0], std::strerror(errno));
  (void)!::write(STDERR_FILENO, failed.data(), failed.size());
  ::_exit(126);
}

Result<void> Ranks::start(int rank) {
  int ends[2];
  if (signals_.file() < 0) return cannot("listen for signals");
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return cannot("listen to that many ranks (see ulimit -n, or take fewer)");
  const pid_t self = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(run_, rank, ends[1], signals_.before(), self);
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    return cannot("start that many ranks (see ulimit -u, or take fewer)");
  }
  ::setpgid(pid, pid);  // the child calls setpgid, too: either call may be first
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  ranks_.push_back(
      {pid, Lines(ends[0], run_.alone ? "" : fmt::format("[rank {}] ", rank)), std::nullopt});
  return {};
}

/// Sends a signal to the ranks and to the processes that they have started.
void Ranks::tell(int signal) {
  killed_ = killed_ || signal == SIGKILL;
  for (const RankProcess& rank : ranks_)
    if (!rank.end) ::kill(-rank.pid, signal);
}

void Ranks::on_signal(int signal) {
  if (signal == SIGCHLD) return reap();
  if (told_ != 0) return clock_.now() - told_at_ >= 1s ? tell(SIGKILL) : void();
  told_ = signal;
  told_at_ = clock_.now();
  tell(signal);
}

void Ranks::reap() {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    int status = 0;
    RankProcess& rank = ranks_[i];
    if (rank.end || ::waitpid(rank.pid, &status, WNOHANG) != rank.pid) continue;
    RankEnd end{.rank = number(i)};
    end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    end.by_us = end.signal != 0 && (killed_ || end.signal == told_);
    if (!end.well() && !bad_since_) bad_since_ = clock_.now();
    if (!made_job(i) && !jobless_since_) jobless_since_ = clock_.now();
    ::kill(-rank.pid, SIGKILL);  // ends processes that the rank has left behind
    rank.end = end;
    rank.lines.close();
  }
}

bool Ranks::all_left_are_stopped() const {
  for (const RankProcess& rank : ranks_) {
    if (rank.end) continue;
    std::string line;
    std::getline(std::ifstream(fmt::format("/proc/{}/stat", rank.pid)), line);
    const std::size_t state = line.rfind(") ");
    if (state == std::string::npos || std::strchr("tT", line[state + 2]) == nullptr) return false;
  }
  return true;
}

void Ranks::say_that_it_waits() {
  if (told_of_waiting_ || clock_.now() - began_ < run_.deadline) return;
  told_of_waiting_ = true;
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    if (made_job(i)) return;
  fmt::print(stderr, "lockstep: after {:g} s no rank has made a job; Ctrl-C ends the trace.\n",
             std::chrono::duration<double>(run_.deadline).count());
}

/// Kills the ranks if they will not end by themselves: for example, because they wait for a rank
/// that has ended without making a job.
void Ranks::press() {
  say_that_it_waits();
  const Instant now = clock_.now();
  const bool some_ended =
      std::any_of(ranks_.begin(), ranks_.end(), [](const auto& r) { return r.end.has_value(); });
  stopped_ticks_ = some_ended && all_left_are_stopped() ? stopped_ticks_ + 1 : 0;
  const bool late = run_.limit && now - started_ >= *run_.limit;
  const bool over = late || (told_ != 0 && now - told_at_ >= kGrace) ||
                    stopped_ticks_ >= kStoppedTicks ||
                    (jobless_since_ && now - *jobless_since_ >= 1s) ||
                    (bad_since_ && now - *bad_since_ >= kEdgeDeadlines * run_.deadline + 15s);
  if (over) tell(SIGKILL);
}

Result<RanksEnd> Ranks::watch() {
  Instant pressed = clock_.now();
  while (running()) {
    std::vector<pollfd> awaited{{signals_.file(), POLLIN, 0}};
    for (const RankProcess& rank : ranks_) awaited.push_back({rank.lines.from(), POLLIN, 0});
    ::poll(awaited.data(), awaited.size(),
           static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(kTick).count()));
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      if (awaited[i + 1].revents != 0 && !ranks_[i].lines.take()) ranks_[i].lines.close();
    while (const int signal = signals_.next()) on_signal(signal);
    if (clock_.now() - pressed < kTick) continue;
    pressed = clock_.now();
    reap();
    press();
  }
  RanksEnd out{{}, told_};
  for (const RankProcess& rank : ranks_) out.ranks.push_back(*rank.end);
  return out;
}

}  // namespace

Result<RanksEnd> run_traced_ranks(const TraceRun& run) {
  std::fflush(nullptr);
  Ranks ranks(run);
  const int first = run.alone.value_or(0), last = run.alone.value_or(run.size - 1);
  for (int rank = first; rank <= last; ++rank)
    if (auto started = ranks.start(rank); !started) return started.error();
  return ranks.watch();
}

}  // namespace lockstep::worker::cli
