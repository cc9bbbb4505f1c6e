// The watchdog: a thread that looks at the progress board while this process waits, tells a lost or
// stuck rank from a slow one, writes the report and ends the process. It never calls MPI and takes
// no lock that another thread holds across a long wait, so what it watches cannot hold it up.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <lockstep/collectives/base/board.h>
#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::collectives {

struct WatchOptions {
  /// Time for which a rank that is waited for may show neither progress nor a lease.
  Duration deadline = std::chrono::seconds(60);
  /// The report goes to stderr and, where not empty, to this file, as a whole or not at all; a
  /// missing folder is made, for this user only.
  std::string report_file;
  /// On SIGTERM and SIGINT: writes a report and exits with 128 plus the number (SIGTERM after a
  /// lost rank: with RankLost), unless the program handles them itself.
  bool signals = true;
  /// Called by the watchdog on its thread every 2 to 50 ms. A verdict that it returns ends this
  /// rank's wait, whatever it waits in. Null: not called.
  std::function<std::optional<Status>(Instant now)> look;
  /// Called with the verdict by every process before it leaves with one: sends it to connected
  /// ranks, so that none of them takes this process for lost. On the watchdog's thread, or the one
  /// that calls end_job(). Null: not called.
  std::function<void(const Status& verdict)> tell;
  /// Called with the verdict by the one process of the host that reports, once the report is
  /// written; may take 2 s, for which the others stay. Null: not called.
  std::function<void(const Status& verdict)> final_report;
  /// Called first with the verdict, by every process that is about to leave with one; may end the
  /// process in its own way. On the watchdog's thread, or the one that calls end_job(). Null: not
  /// called.
  std::function<void(const Status& verdict)> before_end;
  /// Called with the verdict instead of writing a report and leaving with _exit(exit code); for
  /// tests. On the watchdog's thread.
  std::function<void(const Status& verdict, int exit_code)> on_verdict;
};

/// The watchdog of one process of the job. Created once, by the thread that also destroys it; one
/// thread makes Armed objects. Destruction enters a clean exit on the board: the end of this
/// process after that is no loss to the others.
class Watch {
 public:
  /// `board` outlives the watch. Takes the seat of `self`.
  /// Errors: Environment (no thread, no event descriptor).
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

  /// Lives around a blocking wait. Costs three stores, and reading the clock at the end.
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

  /// Sets whether a lost rank ends the job while this process does not wait; at first it does.
  void ends_at_loss(bool ends);

  /// Ends the job with `verdict` as the watchdog would: report, then _exit. For failures that other
  /// ranks may never learn of (the transport failed).
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
