// The Work of a gloo operation, for torch_lines.cpp: its wait and its future end with an error if
// the operation's group is dead.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "torch_python.h"
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace lockstep::torch_lines {

/// Time between two checks whether a wait can end.
inline constexpr std::chrono::milliseconds kLook(20);
/// A wait for other ranks polls continuously until kYield after its begin, then at growing
/// intervals until kNear.
inline constexpr std::chrono::microseconds kYield(200), kNear(100'000);

/// Time for which a failure of the transport is held back until the lines know its reason: the
/// transport may detect a rank's end before the lines do.
inline constexpr std::chrono::milliseconds kReason(300);

/// If the group of a failed operation is dead, raises the group's error; returns otherwise.
inline void raise_reason(int group, uint64_t number) {
  if (!is_on) return;
  const auto end = std::chrono::steady_clock::now() + kReason;
  do {
    if (given.in_flight(given.lines, group, number) != LOCKSTEP_OK) {
      if (!only_told()) raise_last();
      return;
    }
    std::this_thread::sleep_for(kLook / 2);
  } while (std::chrono::steady_clock::now() < end);
}

/// The moment at which the time that a program gives an operation is up.
struct TimeUp {
  std::chrono::steady_clock::time_point when;
  std::chrono::milliseconds own;  // the program's time-out
  /// Time of the next check whether a peer compiles; 0: no check so far.
  std::chrono::steady_clock::time_point asks{};

  /// Raises gloo's time-out error if the time is up. But if no rank is missing (the transfer is in
  /// progress), or a peer compiles, the time starts anew: after its compile a peer has the whole
  /// time-out.
  void look(int group, uint64_t number) {
    constexpr std::chrono::milliseconds kAsks{250};
    const auto now = std::chrono::steady_clock::now();
    if (now >= asks) {
      const bool is_first = asks == std::chrono::steady_clock::time_point{};
      asks = now + std::min(kAsks, own / 8);
      if (!is_first && peer_compiles()) when = now + own;
    }
    if (now < when) return;
    if (given.arrived(given.lines, group, number) != LOCKSTEP_ARRIVED_ALL && !peer_compiles())
      throw std::runtime_error("Timed out waiting " + std::to_string(own.count()) +
                               "ms for the operation to complete");
    when = now + own;
  }
};

/// Futures for which C++ code (DDP's reducer) may wait without any check. A thread of this class
/// checks them, and ends those whose operation cannot complete.
class Futures {
 public:
  static Futures& of_process() {
    static auto* futures = new Futures;
    return *futures;
  }

  /// Returns a future that completes like `inner`, or earlier with the group's error if the group
  /// is dead.
  c10::intrusive_ptr<c10::ivalue::Future> freed(
      const c10::intrusive_ptr<c10::ivalue::Future>& inner, int group, uint64_t number,
      const std::optional<TimeUp>& up) {
    auto flight =
        std::make_shared<Flight>(inner->createInstance(inner->elementType()), group, number, up);
    inner->addCallback([this, flight](c10::ivalue::Future& done) {
      const Completing within(completing_);
      if (done.hasError()) {
        const std::lock_guard lock(flight->failing);
        if (!flight->is_left) {
          flight->failure = done.exception_ptr();  // end_dead() looks for the reason
          flight->failed_at = Clock::now();
          return;
        }
      }
      if (flight->is_over.exchange(true)) return;
      if (done.hasError())
        flight->future->setError(done.exception_ptr());
      else
        flight->future->markCompleted(done.value(), done.storages());
    });
    if (!flight->is_over) {
      const std::lock_guard lock(mutex_);
      flights_.push_back(flight);
      if (!thread_.joinable()) {
        is_over_ = false;
        thread_ = std::thread([this] { look(); });
      }
      changed_.notify_all();
    }
    return flight->future;
  }

  /// Ends the thread. Call it without the GIL, and before Python ends, because tensors of futures
  /// may need Python.
  void end() {
    std::thread ending;
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
      changed_.notify_all();
      ending.swap(thread_);
    }
    if (ending.joinable()) ending.join();
    std::vector<std::shared_ptr<Flight>> left;
    {
      const std::lock_guard lock(mutex_);
      left.swap(flights_);
    }
    for (const auto& flight : left) flight->leave();
    // A backend's thread that is completing a future may run and release Python functions.
    const auto until = Clock::now() + kCompleting;
    while (completing_ > 0 && Clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kCompleting{2};

  /// Counts a future as being completed for its lifetime.
  class Completing {
   public:
    explicit Completing(std::atomic<int>& count) : count_(count) { ++count_; }
    ~Completing() { --count_; }
    Completing(const Completing&) = delete;
    Completing& operator=(const Completing&) = delete;

   private:
    std::atomic<int>& count_;
  };

  struct Flight {
    Flight(c10::intrusive_ptr<c10::ivalue::Future> to_end, int of_group, uint64_t of_number,
           const std::optional<TimeUp>& its_up)
        : future(std::move(to_end)), group(of_group), number(of_number), up(its_up) {}
    const c10::intrusive_ptr<c10::ivalue::Future> future;
    const int group;
    const uint64_t number;
    std::optional<TimeUp> up;
    std::atomic<bool> is_over{false};
    std::mutex failing;    // guards the members below
    bool is_left = false;  // the thread no longer checks it
    std::exception_ptr failure;
    Clock::time_point failed_at;

    /// Ends the thread's checks of this future: from now on it completes like the backend's.
    void leave() {
      std::exception_ptr error;
      {
        const std::lock_guard lock(failing);
        is_left = true;
        error = failure;
      }
      if (error && !is_over.exchange(true)) future->setError(error);
    }
  };

  void look() {
    for (;;) {
      std::vector<std::shared_ptr<Flight>> under_way, over;  // destruction may need the GIL
      {
        std::unique_lock lock(mutex_);
        // Not wait(): older C++ libraries lack its symbol.
        while (!changed_.wait_for(lock, std::chrono::hours(1),
                                  [&] { return is_over_ || !flights_.empty(); })) {
        }
        changed_.wait_for(lock, kLook, [&] { return is_over_; });
        if (is_over_) return;
        for (auto& flight : flights_)
          (flight->is_over ? over : under_way).push_back(std::move(flight));
        flights_ = under_way;
      }
      for (const auto& flight : under_way) end_dead(*flight);
    }
  }

  static void end_dead(Flight& flight) {
    std::exception_ptr error;
    Clock::time_point failed_at;
    {
      const std::lock_guard failed(flight.failing);
      error = flight.failure;
      failed_at = flight.failed_at;
    }
    try {
      if (!error && flight.up) flight.up->look(flight.group, flight.number);
      const bool is_dead =
          is_on && given.in_flight(given.lines, flight.group, flight.number) != LOCKSTEP_OK;
      if (is_dead && !only_told()) raise_last();
      if (!error || (!is_dead && is_on && Clock::now() - failed_at < kReason)) return;
    } catch (...) {
      error = std::current_exception();
    }
    if (!flight.is_over.exchange(true)) flight.future->setError(error);
  }

  std::atomic<int> completing_{0};
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Flight>> flights_;
  std::thread thread_;
  bool is_over_ = false;
};

/// Posts that this thread waits for an operation, from the first can_end() on, and checks whether
/// the wait can end.
class Looks {
 public:
  Looks(int group, uint64_t number) : group_(group), number_(number) {}
  ~Looks() {
    if (is_watched_) marks.waits = 0;
    if (wait_ != nullptr) given.wait_end(wait_);
  }
  Looks(const Looks&) = delete;
  Looks& operator=(const Looks&) = delete;

  [[nodiscard]] bool can_end() {
    if (is_watched_) marks.waits = 1;
    if (wait_ == nullptr && given.wait_begin(given.lines, group_, number_, &wait_) != LOCKSTEP_OK)
      return false;
    // given.threads needs the GIL: no lock may be held here that the operation needs to complete.
    call(given.threads, nullptr);
    return given.wait_look(wait_) == LOCKSTEP_OK || only_told();
  }

 private:
  int group_;
  uint64_t number_;
  bool is_watched_ = std::this_thread::get_id() == watched_thread.load();
  lockstep_wait* wait_ = nullptr;
};

/// Runs `call` on a thread of its own. Meanwhile checks whether the operation can complete and
/// whether its time is up. If the group is dead, raises the group's error and abandons the thread,
/// with all that `call` holds. The thread releases no object that may belong to Python: if it asked
/// for the GIL while Python ends, it would be unwound, which ends the process.
template <class Call>
void run_beside(Call call, int group, uint64_t number, std::optional<TimeUp> up = std::nullopt) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_done = false;
  };
  struct Beside {
    Call call;
    std::exception_ptr error;
  };
  auto shared = std::make_shared<Shared>();
  auto beside = std::make_unique<Beside>(Beside{std::move(call), nullptr});
  std::thread([shared, made = beside.get()] {
    try {
      made->call();
    } catch (...) {
      made->error = std::current_exception();
    }
    const std::lock_guard lock(shared->mutex);
    shared->is_done = true;
    shared->changed.notify_all();
  }).detach();
  // Unless the thread is done, `beside` is leaked, because the thread may still use it.
  struct Held {
    std::unique_ptr<Beside> beside;
    bool is_done = false;
    ~Held() {
      if (!is_done) static_cast<void>(beside.release());
    }
  } held{std::move(beside)};
  Looks looks(group, number);
  std::unique_lock lock(shared->mutex);
  while (!shared->changed.wait_for(lock, kLook, [&] { return shared->is_done; })) {
    lock.unlock();
    if (!looks.can_end()) raise_last();
    if (up) up->look(group, number);
    lock.lock();
  }
  lock.unlock();
  held.is_done = true;
  if (!held.beside->error) return;
  raise_reason(group, number);
  std::rethrow_exception(held.beside->error);
}

/// A Work that forwards to another.
class WorkAround : public c10d::Work {
 public:
  explicit WorkAround(c10::intrusive_ptr<c10d::Work> inner) : inner_(std::move(inner)) {}
  bool isCompleted() override { return inner_->isCompleted(); }
  bool isSuccess() const override { return inner_->isSuccess(); }
  std::exception_ptr exception() const override { return inner_->exception(); }
  int sourceRank() const override { return inner_->sourceRank(); }
  std::vector<at::Tensor> result() override { return inner_->result(); }
  void synchronize() override { inner_->synchronize(); }
  void abort() override { inner_->abort(); }
  float getDuration() const override { return inner_->getDuration(); }
  uint64_t getSequencenumber() const override { return inner_->getSequencenumber(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return inner_->getFuture(); }
  bool wait(std::chrono::milliseconds timeout) override { return inner_->wait(timeout); }

 protected:
  c10::intrusive_ptr<c10d::Work> inner_;
};

/// A gloo Work whose wait ends with an error when its group is dead.
class WatchedWork final : public WorkAround {
  using Inner = c10::intrusive_ptr<c10d::Work>;

 public:
  /// `needs_others`: the operation cannot complete before other ranks have issued it. `has_future`:
  /// shared by all Works of the operator; false once one of them had no future. A Work with a
  /// future completes by itself. A send, a receive and some reductions complete only within their
  /// wait, which must not be interrupted and resumed. `up`: set if the backend's time-out was
  /// extended beyond the program's (with_patience()).
  WatchedWork(Inner inner, int group, uint64_t number, bool needs_others,
              std::atomic<bool>& has_future, const std::optional<TimeUp>& up)
      : WorkAround(std::move(inner)),
        group_(group),
        number_(number),
        needs_others_(needs_others),
        has_future_(has_future),
        up_(up) {}

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto inner = inner_->getFuture();
    if (!is_on || !inner || inner->completed()) return inner;
    const std::lock_guard lock(getting_);
    if (!future_) future_ = Futures::of_process().freed(inner, group_, number_, up_);
    return future_;
  }

  bool wait(std::chrono::milliseconds timeout) override {
    if (!is_on || inner_->isCompleted()) return ends(timeout);
    if (completes_by_itself()) return wait_in_slices(timeout);
    return needs_others_ ? wait_for_others(timeout) : wait_beside(timeout);
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool completes_by_itself() {
    if (!has_future_) return false;
    try {
      if (inner_->getFuture()) return true;
    } catch (const std::exception&) {
    }
    has_future_ = false;
    return false;
  }

  /// Runs gloo's own wait in slices of kLook, since a wait that timed out may be repeated. A
  /// failure at the end of a slice looks like a time-out; the next slice raises it at once.
  bool wait_in_slices(std::chrono::milliseconds timeout) {
    Looks looks(group_, number_);
    std::optional<TimeUp> up = timeout == kNoTimeout ? up_ : std::nullopt;
    const auto begin = Clock::now();
    for (;;) {
      const auto now = Clock::now();
      const bool is_last = timeout != kNoTimeout && now - begin + kLook >= timeout;
      if (is_last) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(timeout - (now - begin));
        return inner_->wait(std::max(left, std::chrono::milliseconds(1)));
      }
      try {
        return inner_->wait(kLook);
      } catch (const std::exception&) {
        if (Clock::now() - now < kLook) {
          raise_reason(group_, number_);
          throw;
        }
      }
      if (!looks.can_end()) leave();
      if (up) look_at_time(*up);
    }
  }

  /// Polls until all needed ranks have issued the operation, and then runs the backend's wait. If
  /// that takes longer than kNear, or if only ranks of other hosts are missing, waits on another
  /// thread: peers may have issued the operation unseen, or be seen late.
  bool wait_for_others(std::chrono::milliseconds timeout) {
    const auto begin = Clock::now();
    for (int who = 0;
         (who = given.arrived(given.lines, group_, number_)) != LOCKSTEP_ARRIVED_ALL;) {
      const auto waited = Clock::now() - begin;
      if (who == LOCKSTEP_ARRIVED_HERE || waited > kNear) return wait_beside(timeout);
      if (waited < kYield)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(
            std::clamp<Clock::duration>(waited / 16, kYield / 4, kLook / 10));
    }
    return ends(timeout);
  }

  /// Runs the backend's wait. If it fails because the group is dead, raises the group's error.
  bool ends(std::chrono::milliseconds timeout) {
    try {
      return inner_->wait(timeout);
    } catch (const std::exception&) {
      raise_reason(group_, number_);
      throw;
    }
  }

  /// Waits on a thread of its own, which is abandoned if the group is dead.
  bool wait_beside(std::chrono::milliseconds timeout) {
    auto result = std::make_shared<bool>(true);
    run_beside([result, inner = inner_, timeout] { *result = inner->wait(timeout); }, group_,
               number_, timeout == kNoTimeout ? up_ : std::nullopt);
    return *result;
  }

  /// Keeps the abandoned operation alive for ever: it holds the memory that the transport may still
  /// read and write.
  void keep() {
    static auto* kept = new std::vector<Inner>;
    static std::mutex keeping;
    const std::lock_guard lock(keeping);
    kept->push_back(inner_);
  }
  [[noreturn]] void leave() {
    keep();
    raise_last();
  }

  void look_at_time(TimeUp& up) {
    try {
      up.look(group_, number_);
    } catch (...) {
      keep();
      throw;
    }
  }

  int group_;
  uint64_t number_;
  bool needs_others_;
  std::atomic<bool>& has_future_;
  const std::optional<TimeUp> up_;
  std::mutex getting_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace lockstep::torch_lines
