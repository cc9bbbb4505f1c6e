// Writes history on a thread of its own: a disk that is slow, or hangs, holds up neither what ranks
// report nor who asks. Used by the server.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <lockstep/coordinator/store/history_store.h>

namespace lockstep::coordinator {

/// Takes one batch at a time; what comes meanwhile stays where it is (the service's own history is
/// bounded), so nothing queues up. A batch that cannot be written is tried again every second.
/// One thread, and its own.
class HistoryWriter {
 public:
  /// The directory of HistoryStore. Opens nothing yet: that may wait, too.
  explicit HistoryWriter(std::string directory);
  /// Leaves what is not written by then; waits a second at most.
  ~HistoryWriter();
  HistoryWriter(const HistoryWriter&) = delete;
  HistoryWriter& operator=(const HistoryWriter&) = delete;

  /// All that was given is written, and more can be.
  [[nodiscard]] bool idle() const;
  /// Waits until it is; false: it was not in time.
  [[nodiscard]] bool wait_idle(Duration patience) const;
  /// Requires idle().
  void give(std::vector<RunNews> news);
  /// What went wrong since the last time, each thing once while it lasts.
  [[nodiscard]] std::vector<std::string> complaints();

 private:
  struct Shared;
  static void work(Shared& shared);
  std::shared_ptr<Shared> shared_;  // outlives this where a write hangs
};

}  // namespace lockstep::coordinator
