#include <system_error>
#include <utility>

#include <signal.h>
#include <unistd.h>

#include <lockstep/collectives/call_deadline.h>

namespace lockstep::collectives {

CallDeadline::CallDeadline(Duration deadline, std::function<Status()> verdict,
                           std::function<void()> written)
    : verdict_(std::move(verdict)), written_(std::move(written)) {
  // Blocks all signals in the new thread: the program's own threads handle them.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this, deadline] { wait_and_fire(deadline); });
  } catch (const std::system_error&) {
    // Goes on without a deadline: in every healthy job the call returns.
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

CallDeadline::~CallDeadline() {
  {
    const std::lock_guard lock(mutex_);
    disarmed_ = true;
  }
  disarm_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CallDeadline::wait_and_fire(Duration deadline) {
  std::unique_lock lock(mutex_);
  if (disarm_.wait_for(lock, deadline, [this] { return disarmed_; })) return;
  const Status verdict = verdict_();
  const std::string text = "lockstep: " + verdict.text() + "\n";
  [[maybe_unused]] const auto n = ::write(2, text.data(), text.size());
  if (written_) written_();
  ::_exit(exit_code(verdict.code));
}

}  // namespace lockstep::collectives
