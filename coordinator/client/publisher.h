// A rank's word to the coordinator: a thread that looks at the rank's slot of the progress board
// and reports it, about once a second and where something changed that others may wait for, and
// passes on what the program tells of its calls. It hears the coordinator's verdict. It
// shares no lock with the job, and nothing in the job waits for it: without a coordinator the job
// is the same.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <lockstep/collectives/base/board.h>
#include <lockstep/coordinator/client/feed.h>
#include <lockstep/coordinator/speech/port_file.h>
#include <lockstep/coordinator/speech/report.h>

namespace lockstep::coordinator {

struct PublisherOptions {
  Endpoint coordinator;
  Secret secret;
  Identity identity;
  /// Told on the publisher's thread: that the coordinator cannot be reached or refuses this rank,
  /// once until it can be, and that it can be again.
  std::function<void(const std::string& line)> say;
  /// What the program tells; may be null. Kept as long as the publisher.
  std::shared_ptr<Feed> feed;
  /// The coordinator's verdict on the job, where this rank has waited in one operation for a second
  /// or more; said again while both hold. On the publisher's thread.
  std::function<void(const Status& verdict)> obey;
  Duration look = std::chrono::milliseconds(50);
  Duration every = std::chrono::seconds(1);
  /// Between attempts to connect: doubled each time, from the first to the last of these.
  Duration first_pause = std::chrono::milliseconds(100), last_pause = std::chrono::seconds(10);
  /// A coordinator that does not answer for so long is not there.
  Duration patience = std::chrono::seconds(5);
  /// How long the end of the publisher may wait for the last report to go out.
  Duration goodbye = std::chrono::milliseconds(200);
};

/// One rank's publisher. Destroyed by the thread that made it, after the rank's last word on the
/// board; that takes `goodbye` and two looks at most.
class Publisher {
 public:
  /// `board` outlives it. Errors: Environment (no thread).
  [[nodiscard]] static Result<std::unique_ptr<Publisher>> start(const Board& board,
                                                                PublisherOptions options);
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  /// The coordinator has taken this rank as a member and not gone since. From any thread.
  [[nodiscard]] bool joined() const;

  /// This process is about to end the job with `verdict`: returns once the coordinator has written
  /// that down, or after a tenth of a second. From any thread; nothing where the verdict is the
  /// coordinator's own.
  void last_word(const Status& verdict);

 private:
  struct Thread;
  explicit Publisher(std::unique_ptr<Thread> thread);
  std::unique_ptr<Thread> thread_;
};

/// The report of this rank from its slot, less the looks.
[[nodiscard]] Report report_of(const Board& board, Rank rank, Instant now);

}  // namespace lockstep::coordinator
