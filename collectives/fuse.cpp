#include <system_error>
#include <utility>

#include <signal.h>
#include <unistd.h>

#include <lockstep/collectives/fuse.h>

namespace lockstep::collectives {

Fuse::Fuse(Duration deadline, std::function<Status()> verdict) : verdict_(std::move(verdict)) {
  // Signals are for the program's own threads.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this, deadline] { burn(deadline); });
  } catch (const std::system_error&) {
    // The call is made all the same: it returns in every healthy job.
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Fuse::~Fuse() {
  {
    const std::lock_guard lock(mutex_);
    out_ = true;
  }
  put_out_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Fuse::burn(Duration deadline) {
  std::unique_lock lock(mutex_);
  if (put_out_.wait_for(lock, deadline, [this] { return out_; })) return;
  const Status verdict = verdict_();
  const std::string text = "lockstep: " + verdict.text() + "\n";
  if (::write(2, text.data(), text.size()) < 0) ::_exit(exit_code(verdict.code));
  ::_exit(exit_code(verdict.code));
}

}  // namespace lockstep::collectives
