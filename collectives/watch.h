// The watchdog: a thread that looks at the progress board while this process waits, distinguishes a
// lost or stuck rank from a slow rank, writes the report and ends the process. It never calls MPI
// and takes no lock that another thread holds across a long wait, so the waits that it watches
// cannot block it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <lockstep/collectives/base/board.h>
#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::collectives {

struct WatchOptions {
  /// Time for which a rank that others wait for may show neither progress nor a lease.
  Duration deadline = std::chrono::seconds(60);
  /// If not empty, the report goes to this file as well as to stderr. The file is written whole or
  /// not at all. A missing folder is made, for this user only.
  std::string report_file;
  /// True: on SIGTERM and SIGINT, unless the program handles them itself, the watchdog writes a
  /// report and exits with 128 plus the signal's number. On SIGTERM after the loss of a rank it
  /// reports RankLost.
  bool signals = true;
  /// Called by the watchdog on its thread every 2 to 50 ms. If the function returns a verdict while
  /// this rank is in a watched wait, the verdict ends the job. Null: not called.
  std::function<std::optional<Status>(Instant now)> look;
  /// Called by every process before it leaves with a verdict: sends the verdict to connected ranks,
  /// so that none of them reports this process as lost. Runs on the watchdog's thread or the thread
  /// that calls end_job(). Null: not called.
  std::function<void(const Status& verdict)> tell;
  /// Called with the verdict by the one process of the host that reports, once the report is
  /// written. May take 2 s; the other processes wait for it. Null: not called.
  std::function<void(const Status& verdict)> final_report;
  /// Called before everything else by every process that is about to leave with a verdict. May end
  /// the process in its own way. Runs on the watchdog's thread or the thread that calls end_job().
  /// Null: not called.
  std::function<void(const Status& verdict)> before_end;
  /// For tests: called with the verdict in place of `tell`, the report, `final_report` and
  /// _exit(exit_code). Runs on the watchdog's thread or the thread that calls end_job(). Null: not
  /// called.
  std::function<void(const Status& verdict, int exit_code)> on_verdict;
};

/// The watchdog of one process of the job. Created once, by the thread that also destroys it; one
/// thread makes Armed objects. The destructor notes a clean exit on the board, so that other
/// processes do not report the end of this process as a loss.
class Watch {
 public:
  /// `board` must outlive the watch. The watch takes the seat of `self`. Errors: Environment (no
  /// thread, no event descriptor).
  [[nodiscard]] static Result<std::unique_ptr<Watch>> start(Board& board, Rank self,
                                                            WatchOptions options);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// This process's slot on the board, for notes, phases and leases.
  [[nodiscard]] Seat& seat() { return seat_; }
  [[nodiscard]] Board& board() { return board_; }
  [[nodiscard]] Rank self() const { return self_; }
  [[nodiscard]] Duration deadline() const;

  /// While an object exists, the blocking wait of its thread is watched. Costs three stores and one
  /// reading of the clock.
  class Armed {
   public:
    explicit Armed(Watch* watch) : watch_(watch) {
      if (watch_ != nullptr) watch_->seat_.wait(true);
    }
    ~Armed() {
      if (watch_ != nullptr) watch_->seat_.wait_over(SystemClock().now());
    }
    Armed(const Armed&) = delete;
    Armed& operator=(const Armed&) = delete;

   private:
    Watch* watch_;
  };

  /// While an object exists, the waits of this process have this deadline; nullopt: that of the
  /// watch. One object at a time.
  class Within {
   public:
    Within(Watch* watch, std::optional<Duration> deadline);
    ~Within();
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

   private:
    Watch* watch_;
  };

  /// Sets whether a lost rank ends the job while this process does not wait; true at first.
  void ends_at_loss(bool ends);

  /// Ends the job with `verdict` as the watchdog would: writes the report, then calls _exit. For
  /// failures that other ranks may never learn about, such as a failure of the transport.
  void end_job(const Status& verdict);

 private:
  struct Thread;
  Watch(Board& board, Rank self);
  Board& board_;
  Rank self_;
  Seat seat_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace lockstep::collectives
