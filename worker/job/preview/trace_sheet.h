// What one rank reports to `lockstep trace` about its calls: a file of JSON lines in the folder
// that the command names (LOCKSTEP_TRACE). Only the command reads it (cli/trace_report.h). A sheet
// also ends its rank when the program needs a value that only a run can give.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/shapes/expr/fingerprint.h>
#include <lockstep/worker/agree/agreement/action.h>
#include <lockstep/worker/agree/agreement/code_cache.h>
#include <lockstep/worker/agree/process/settings.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// One rank's file. Used by the thread that makes calls and rounds. The watchdog's thread may also
/// call stop() and stop_if_peer_stopped().
class TraceSheet {
 public:
  /// Makes the file. Errors: BadInput (it exists already), Environment (it cannot be written).
  [[nodiscard]] static Result<std::unique_ptr<TraceSheet>> open(const TraceMode& mode, Rank rank,
                                                                int size, bool mirrors);
  ~TraceSheet();
  TraceSheet(const TraceSheet&) = delete;
  TraceSheet& operator=(const TraceSheet&) = delete;

  /// Sets how stop() takes leave of the peers before the process ends.
  void leave_by(std::function<void()> leave) { leave_ = std::move(leave); }
  /// Writes a remark on this rank for readers, each text once only.
  void note(const std::string& text);

  struct Call {
    std::string_view frame, group;
    const CallOutcome& outcome;
    const Entry* entry = nullptr;  // compiled or reused by the call; null: none
    const Graph* graph = nullptr;  // traced or reused by the call; null: none
    shapes::Fingerprint fingerprint;
  };
  void call(const Call& call);
  /// True if as many calls as requested have been made.
  [[nodiscard]] bool full() const { return mode_.calls != 0 && made_ >= mode_.calls; }
  /// Writes a failure outside of calls. `what`: "finish", "the start".
  void failed(std::string_view what, const Status& status);
  /// Writes that the job has ended.
  void finished();
  /// Ends this process at once, successfully: flushes its output, runs nothing else of the program.
  /// `why` continues "rank 0 stopped after call 2: ".
  [[noreturn]] void stop(const std::string& why);
  /// Called with the verdict that is about to end this process. If the verdict's cause is a peer
  /// that has stopped, stops this rank, too; else returns.
  void stop_if_peer_stopped(const Status& verdict);

 private:
  class Line;
  TraceSheet(int fd, TraceMode mode, Rank rank, int size);
  void write(const Line& line);
  void know(const Graph& graph, const shapes::Fingerprint& fingerprint);
  [[noreturn]] void stop(const std::string& why, bool for_a_peer);

  int fd_;
  TraceMode mode_;
  Rank rank_;
  int size_;
  std::uint64_t made_ = 0;  // calls so far
  std::set<shapes::Fingerprint> known_;
  std::set<std::string> noted_;
  std::function<void()> leave_;
  std::mutex stopping_;  // locked once, never unlocked
};

}  // namespace lockstep::worker
