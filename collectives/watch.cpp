#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <lockstep/collectives/base/private_folder.h>
#include <lockstep/collectives/base/whole_file.h>
#include <lockstep/collectives/processes.h>
#include <lockstep/collectives/ring.h>
#include <lockstep/collectives/wait_verdict.h>
#include <lockstep/collectives/watch.h>

namespace lockstep::collectives {
namespace {

// Globals for the signal handler, which can use nothing else. Used by one watch at a time.
std::atomic<int> signal_event{-1};
std::atomic<int> signal_seen{0};

extern "C" void lockstep_on_signal(int number) {
  const int error = errno;
  signal_seen.store(number);
  const std::uint64_t one = 1;
  if (::write(signal_event.load(), &one, sizeof one) < 0) signal_seen.store(number);
  errno = error;
}

/// Age at which a ring is reported.
constexpr std::chrono::milliseconds kRingAge{300};

/// Writes the report without flushing it to disk.
DraftFile write_report(const std::string& name, std::string_view text) {
  make_private_folder(std::filesystem::path(name).parent_path());
  DraftFile file(name, {.mode = 0644});
  if (!file.write(text) || !file.name())
    (void)write_all(2, fmt::format("lockstep: cannot write the report to {}: {}.\n", name,
                                   file.fault()->reason()));
  return file;
}

std::string report_text(const Status& verdict, Rank self, int code) {
  std::string out = fmt::format("lockstep: {}: {}\n", code_name(verdict.code), verdict.message);
  for (const RankValue& group : verdict.groups)
    out += fmt::format("lockstep:   {}: {}\n", group.ranks.phrase(), group.value);
  out += fmt::format(
      "lockstep: reported by rank {} (process {}); all ranks leave with exit code {}.\n",
      self.value, ::getpid(), code);
  return out;
}

}  // namespace

/// Everything below runs on the watchdog's thread, except for its start and stop, and end().
struct Watch::Thread {
  Thread(Board& the_board, Rank rank, WatchOptions the_options)
      : board(the_board),
        self(rank),
        options(std::move(the_options)),
        processes(the_board.size()) {}
  ~Thread() {
    if (event >= 0) ::close(event);
  }

  void wake() const {
    const std::uint64_t one = 1;
    if (::write(event, &one, sizeof one) < 0) return;  // Full: the thread is awake already.
  }
  void take_signals();
  void give_signals_back();
  void run();
  void watch_new_processes();
  [[nodiscard]] Duration deadline() const {
    const Duration::rep own = within.load();
    return own == 0 ? options.deadline : Duration(own);
  }
  [[nodiscard]] BoardSnapshot look() const;
  [[nodiscard]] Wait own_wait(const RankState& me, Instant now);
  [[nodiscard]] std::optional<Status> ring_that_stays(const BoardSnapshot& seen, Instant now);
  [[nodiscard]] bool anyone_lost() const;
  void on_signal(int number, const BoardSnapshot& seen, Instant now);
  void end(const Status& verdict, int code) const;

  Board& board;
  Rank self;
  WatchOptions options;
  SystemClock clock;
  Processes processes;
  const std::uint64_t host = host_id();
  int event = -1;
  std::atomic<bool> stopping{false};
  std::atomic<bool> ends_at_loss{true};
  std::atomic<Duration::rep> within{0};  // deadline of the wait under way; 0: that of the options
  bool ended = false;  // the watch has ended; the process goes on if on_verdict is set
  std::uint64_t seen_begun = 0;
  std::optional<Instant> since;
  std::optional<Ring> ring;  // ring at the last look, seen since ring_since
  Instant ring_since{0};
  bool has_term = false, has_int = false;
  std::thread thread;
};

void Watch::Thread::take_signals() {
  int nobody = -1;
  if (!options.signals || !signal_event.compare_exchange_strong(nobody, event)) return;
  const auto take = [](int number) {
    struct sigaction old {};
    if (::sigaction(number, nullptr, &old) != 0 || (old.sa_flags & SA_SIGINFO) != 0 ||
        old.sa_handler != SIG_DFL)
      return false;
    struct sigaction ours {};
    ours.sa_handler = lockstep_on_signal;
    ours.sa_flags = SA_RESTART;
    return ::sigaction(number, &ours, nullptr) == 0;
  };
  has_term = take(SIGTERM);
  has_int = take(SIGINT);
}

void Watch::Thread::give_signals_back() {
  if (signal_event.load() != event) return;
  if (has_term) ::signal(SIGTERM, SIG_DFL);
  if (has_int) ::signal(SIGINT, SIG_DFL);
  signal_event.store(-1);
}

void Watch::Thread::watch_new_processes() {
  for (int r = 0; r < board.size(); ++r) {
    if (r == self.value || processes.watched(r)) continue;
    const auto [pid, its_host] = board.process(Rank{r});
    if (pid != 0 && its_host == host && pid != ::getpid()) processes.watch(r, pid);
  }
}

BoardSnapshot Watch::Thread::look() const {
  BoardSnapshot seen = board.snapshot();
  for (int r = 0; r < board.size(); ++r) {
    RankState& state = seen.ranks[static_cast<std::size_t>(r)];
    state.lost = processes.ended(r) && !state.finished;
    state.stopped = processes.stopped(r);
  }
  return seen;
}

/// This rank's wait, which counts from the look that first saw it.
Wait Watch::Thread::own_wait(const RankState& me, Instant now) {
  if (!me.waiting)
    since.reset();
  else if (!since || me.begun != seen_begun)
    since = now;
  seen_begun = me.begun;
  return {self, since};
}

/// The verdict on a ring that has been seen for kRingAge. Two snapshots of the same ring are the
/// proof. The time between them avoids a report just when another error ends the job.
std::optional<Status> Watch::Thread::ring_that_stays(const BoardSnapshot& seen, Instant now) {
  auto found = find_ring(seen);
  if (found != ring) {
    ring = std::move(found);
    ring_since = now;
    return std::nullopt;
  }
  if (!ring || now - ring_since < kRingAge) return std::nullopt;
  return ring_verdict(seen, *ring, now);
}

bool Watch::Thread::anyone_lost() const {
  for (int r = 0; r < board.size(); ++r)
    if (processes.ended(r) && !board.finished(Rank{r})) return true;
  return false;
}

void Watch::Thread::end(const Status& verdict, int code) const {
  if (options.before_end) options.before_end(verdict);
  if (options.on_verdict) return options.on_verdict(verdict, code);
  if (options.tell) options.tell(verdict);
  if (const auto earlier = board.claim_report(code)) {
    // Waits for the report, because mpirun ends all ranks once one has left, and this process may
    // host the coordinator.
    board.await_report();
    ::_exit(*earlier);
  }
  const std::string text = report_text(verdict, self, code);
  (void)write_all(2, text);
  std::optional<DraftFile> report;
  if (!options.report_file.empty()) report.emplace(write_report(options.report_file, text));
  if (options.final_report) options.final_report(verdict);
  board.end_report();
  if (report) {
    report->flush();
    report.reset();  // deletes a draft that was not renamed, which _exit would leave
  }
  ::_exit(code);
}

/// If a rank is lost, mpirun ends the others by SIGTERM, so the verdict names the lost rank.
/// Otherwise the signal is from outside the job, and no rank is to blame.
void Watch::Thread::on_signal(int number, const BoardSnapshot& seen, Instant now) {
  ended = true;
  const auto verdict = judge(seen, {self, std::nullopt}, now, options.deadline);
  if (verdict && number == SIGTERM) return end(verdict->status, exit_code(verdict->status.code));
  Status told{Code::Gone, ""};
  told.message = fmt::format("Rank {} was told to end ({}) while it {}.", self.value,
                             number == SIGINT ? "SIGINT" : "SIGTERM",
                             describe(seen.ranks[static_cast<std::size_t>(self.value)], now));
  if (number == SIGTERM) {
    told.message +=
        " Whoever sent the signal (mpirun, the scheduler at its time limit, a user) knows why.";
    told.groups = last_seen(seen, now);
  }
  end(told, 128 + number);
}

void Watch::Thread::run() {
  using std::chrono::milliseconds;
  const auto tick = std::clamp(std::chrono::duration_cast<milliseconds>(options.deadline / 20),
                               milliseconds(2), milliseconds(50));
  Instant before = clock.now();
  while (!stopping.load() && !ended) {
    watch_new_processes();
    processes.wait(event, static_cast<int>(tick.count()));
    std::uint64_t count = 0;
    if (::read(event, &count, sizeof count) > 0 && stopping.load()) return;
    const Instant now = clock.now();
    auto known = options.look ? options.look(now) : std::nullopt;
    if (now - before > std::max<Duration>(deadline() / 2, 2 * tick))
      since.reset();  // this process was suspended
    before = now;
    const int signal = has_term || has_int ? signal_seen.exchange(0) : 0;
    const bool lost = ends_at_loss.load() && anyone_lost();
    const bool waited = since.has_value();
    const Wait wait = own_wait(board.state(self), now);
    if (signal != 0) {
      on_signal(signal, look(), now);
    } else if (lost || (waited && wait.since)) {
      const BoardSnapshot seen = look();
      std::optional<Status> verdict;
      if (known && wait.since) {
        if (known->groups.empty()) known->groups = last_seen(seen, now);
        verdict = std::move(known);
      } else if (auto judged = judge(seen, wait, now, deadline())) {
        verdict = std::move(judged->status);
      } else if (wait.since) {
        verdict = ring_that_stays(seen, now);
      }
      if (!verdict) continue;
      ended = true;
      end(*verdict, exit_code(verdict->code));
    }
  }
}

Watch::Watch(Board& board, Rank self) : board_(board), self_(self), seat_(board.seat(self)) {}

Result<std::unique_ptr<Watch>> Watch::start(Board& board, Rank self, WatchOptions options) {
  std::unique_ptr<Watch> watch(new Watch(board, self));
  watch->thread_ = std::make_unique<Thread>(board, self, std::move(options));
  Thread& thread = *watch->thread_;
  thread.event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (thread.event < 0)
    return environment_error(
        fmt::format("The watchdog cannot start: no event descriptor ({}). Raise the limit of "
                    "open files (ulimit -n).",
                    std::strerror(errno)));
  watch->seat_.register_process(::getpid(), host_id(), thread.clock.now());
  thread.take_signals();
  // Blocks all signals in the new thread: the program's own threads handle them.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread.thread = std::thread([&thread] { thread.run(); });
  } catch (const std::system_error& error) {
    thread.give_signals_back();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return environment_error(fmt::format("The watchdog cannot start: {}.", error.what()));
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return watch;
}

Watch::~Watch() {
  seat_.finish();
  if (!thread_->thread.joinable()) return;
  thread_->stopping.store(true);
  thread_->wake();
  thread_->thread.join();
  thread_->give_signals_back();
}

Duration Watch::deadline() const { return thread_->options.deadline; }

Watch::Within::Within(Watch* watch, std::optional<Duration> deadline)
    : watch_(deadline ? watch : nullptr) {
  if (watch_ != nullptr) watch_->thread_->within.store(deadline->count());
}

Watch::Within::~Within() {
  if (watch_ != nullptr) watch_->thread_->within.store(0);
}

void Watch::ends_at_loss(bool ends) { thread_->ends_at_loss.store(ends); }

void Watch::end_job(const Status& verdict) { thread_->end(verdict, exit_code(verdict.code)); }

}  // namespace lockstep::collectives
