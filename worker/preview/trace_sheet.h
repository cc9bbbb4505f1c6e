// What one rank tells `lockstep trace` of the calls that it made: a file of JSON lines in the
// folder that the command names (LOCKSTEP_TRACE), internal to the two (cli/trace_report.h reads
// it). And the end of such a rank, which comes where its program needs what only a run can give.
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
#include <lockstep/worker/agreement/action.h>
#include <lockstep/worker/agreement/code_cache.h>
#include <lockstep/worker/graph/graph.h>
#include <lockstep/worker/process/settings.h>

namespace lockstep::worker {

/// One rank's file. Calls and rounds are told by the thread that makes them; stop() and excuse()
/// may come from the watchdog's, too.
class TraceSheet {
 public:
  /// Makes the file. Errors: Environment (it cannot be written, or is there already).
  [[nodiscard]] static Result<std::unique_ptr<TraceSheet>> open(const TraceMode& mode, Rank rank,
                                                                int size, bool mirrors);
  ~TraceSheet();
  TraceSheet(const TraceSheet&) = delete;
  TraceSheet& operator=(const TraceSheet&) = delete;

  /// What stop() does before the process ends, once: the rank takes leave of its peers.
  void leave_by(std::function<void()> leave) { leave_ = std::move(leave); }
  /// What a reader should know of this rank; said once each.
  void note(const std::string& text);

  struct Call {
    std::string_view frame, group;
    const CallOutcome& outcome;
    const Entry* entry = nullptr;  // that it compiled or reused
    const Graph* graph = nullptr;  // that was traced for it or is reused; null: none
    shapes::Fingerprint fingerprint;
  };
  void call(const Call& call);
  /// As many calls as were asked for have been made.
  [[nodiscard]] bool full() const { return mode_.calls != 0 && made_ >= mode_.calls; }
  /// A failure outside of calls. `what`: "finish", "the start".
  void failed(std::string_view what, const Status& status);
  /// The job came to its end.
  void finished();
  /// Ends this process, successfully, right here: what was printed goes out, nothing else of the
  /// program runs. `why` goes on from "rank 0 stopped after call 2: ".
  [[noreturn]] void stop(const std::string& why);
  /// The verdict with which the process is about to leave. Where it came about because a peer has
  /// stopped, this rank stops, too; otherwise it returns.
  void excuse(const Status& verdict);

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
  std::mutex stopping_;  // taken once
};

}  // namespace lockstep::worker
