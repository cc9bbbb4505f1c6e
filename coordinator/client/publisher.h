// The thread of a rank that reports to the coordinator. It reads the rank's slot of the progress
// board and sends a report about once a second, or sooner when the rank begins or ends a long wait,
// changes its phase or finishes. It also sends the events of calls, and receives the coordinator's
// verdict. It shares no lock with the job, and nothing in the job waits for it: without a
// coordinator the job runs the same way.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <lockstep/collectives/base/board.h>
#include <lockstep/coordinator/client/feed.h>
#include <lockstep/coordinator/messages/port_file.h>
#include <lockstep/coordinator/messages/slot_report.h>

namespace lockstep::coordinator {

struct PublisherOptions {
  Endpoint coordinator;
  Secret secret;
  Identity identity;
  /// Receives one line when the coordinator cannot be reached or refuses this rank, and one line
  /// when the coordinator is back. Called on the publisher's thread.
  std::function<void(const std::string& line)> say;
  /// Events of the program; may be null. The publisher keeps it alive.
  std::shared_ptr<Feed> feed;
  /// Receives the coordinator's verdict on the job, if this rank has waited in one operation for a
  /// second or more. Called repeatedly while the verdict and the wait last. Called on the
  /// publisher's thread.
  std::function<void(const Status& verdict)> obey;
  Duration look = std::chrono::milliseconds(50);
  Duration every = std::chrono::seconds(1);
  /// Pause between attempts to connect: doubled after each attempt, from `first_pause` to
  /// `last_pause`.
  Duration first_pause = std::chrono::milliseconds(100), last_pause = std::chrono::seconds(10);
  /// Time without an answer after which the coordinator counts as gone.
  Duration patience = std::chrono::seconds(5);
  /// Longest wait for the last report to go out when the publisher ends.
  Duration goodbye = std::chrono::milliseconds(200);
};

/// One rank's publisher. Requires that the thread that made it destroys it, after the rank's last
/// write to the board. Destruction takes at most `goodbye` and two looks.
class Publisher {
 public:
  /// Requires that `board` outlives the publisher. Errors: Environment (no thread).
  [[nodiscard]] static Result<std::unique_ptr<Publisher>> start(const Board& board,
                                                                PublisherOptions options);
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  /// True if the coordinator has accepted this rank as a member and the connection is open. From
  /// any thread.
  [[nodiscard]] bool joined() const;

  /// Reports that this process is about to end the job with `verdict`. Returns once the coordinator
  /// has recorded it, or after 2 s. From any thread, but without effect on the publisher's own
  /// thread, on which `obey` runs.
  void last_word(const Status& verdict);

 private:
  struct Thread;
  explicit Publisher(std::unique_ptr<Thread> thread);
  std::unique_ptr<Thread> thread_;
};

/// The report of a rank from its slot of the board, without the looks and the counters.
[[nodiscard]] SlotReport report_of(const Board& board, Rank rank, Instant now);

}  // namespace lockstep::coordinator
