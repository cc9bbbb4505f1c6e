// Writes the history on its own thread, so that a slow or hanging disk delays neither reports of
// ranks nor answers. Used by the server.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <lockstep/coordinator/store/history_store.h>

namespace lockstep::coordinator {

/// Takes one batch at a time. Later news stays in the service, whose call log is bounded, so
/// nothing queues up. A batch that cannot be written is tried again every second. One calling
/// thread.
class HistoryWriter {
 public:
  /// `directory` is that of the HistoryStore. The thread opens the store, because opening may wait,
  /// too.
  explicit HistoryWriter(std::string directory);
  /// Waits at most a second; news that is not written by then is lost.
  ~HistoryWriter();
  HistoryWriter(const HistoryWriter&) = delete;
  HistoryWriter& operator=(const HistoryWriter&) = delete;

  /// True if the last batch is written, so that the next may be given.
  [[nodiscard]] bool idle() const;
  /// True unless the last write failed, so that a batch given now will probably be written soon.
  [[nodiscard]] bool writes() const;
  /// Waits until idle(); false: not within `patience`.
  [[nodiscard]] bool wait_idle(Duration patience) const;
  /// Requires idle().
  void give(std::vector<RunNews> news);
  /// The errors since the last call; an error that lasts is returned once.
  [[nodiscard]] std::vector<std::string> errors();

 private:
  struct Shared;
  static void work(Shared& shared);
  std::shared_ptr<Shared> shared_;  // lives on after the writer if a write hangs
};

}  // namespace lockstep::coordinator
