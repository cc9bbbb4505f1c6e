// The coordinator without its sockets: jobs, their members and their state. The server passes
// messages of connections to it and asks it for findings. The service has no clock: `now` is a
// parameter that never goes back.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/coordinator/service/call_log.h>
#include <lockstep/coordinator/service/diagnosis.h>
#include <lockstep/coordinator/service/job_verdict.h>
#include <lockstep/coordinator/service/timeline.h>

namespace lockstep::coordinator {

/// One job, with the ranks that have joined. A job id may have several runs in turn: once no rank
/// of a run is left, the next process that joins begins another run.
struct WatchedJob {
  explicit WatchedJob(const Identity& first, Instant now)
      : membership(first), progress(membership.size()), timeline(membership.size()), began(now) {}
  Membership membership;
  Progress progress;
  CallLog call_log;
  Timeline timeline;
  Instant began;
  int run = 1;
  std::optional<JobVerdict> ending;  // the verdict with which the job's own ranks ended it
};

/// The jobs of one coordinator. The numbers of jobs and ranks, and the memory per rank, are
/// bounded. Single-threaded.
class Service {
 public:
  /// Maximum number of jobs watched at one time. A job without connected ranks is removed to make
  /// room.
  static constexpr std::size_t kMostJobs = 64;

  explicit Service(Rules rules = {}) : rules_(rules) {}

  /// Assigns the connection to this rank. The caller must close the connection `replaced` of the
  /// result, which no longer belongs to a rank. Errors: BadInput (no such rank or job, or the
  /// connection has joined before), Version (Membership::join), Environment (too many jobs).
  [[nodiscard]] Result<Membership::Admission> join(const Identity& identity,
                                                   ConnectionId connection, Instant now);
  /// Takes a rank's report. This function and those below have no effect if the connection belongs
  /// to no rank.
  void report(ConnectionId connection, const SlotReport& report, Instant now);
  /// Takes a rank's report of a call. Returns the graph whose text the rank should be asked for.
  [[nodiscard]] std::optional<shapes::Fingerprint> told(ConnectionId connection,
                                                        const CallEvent& event, Instant now);
  void graph(ConnectionId connection, GraphText graph);
  void configure(ConnectionId connection, Configuration configuration);
  /// Takes a rank's message that its own watchdog ends the job. The first such message of a run
  /// counts. It is dropped when a rank of the run restarts as a new process.
  void ending(ConnectionId connection, const Ending& ending);
  void closed(ConnectionId connection, Instant now);
  /// Keeps the spans of these ranks for traces from here on, because findings name them.
  void follow(const std::string& job, const RankSet& ranks);

  [[nodiscard]] const std::map<std::string, WatchedJob>& jobs() const { return jobs_; }
  [[nodiscard]] std::vector<Finding> diagnose(const WatchedJob& job, Instant now) const;
  /// The verdict that ends the job: the verdict that its own ranks sent, else one made from the
  /// findings. The server sends it to all ranks while it holds.
  [[nodiscard]] std::optional<JobVerdict> verdict(const WatchedJob& job, Instant now) const;
  [[nodiscard]] Rules rules_of(const WatchedJob& job) const;
  /// The number of connected ranks of all jobs.
  [[nodiscard]] std::size_t speakers() const { return speakers_.size(); }
  /// The connections of the ranks of a job.
  [[nodiscard]] std::vector<ConnectionId> connections(const std::string& job) const;

 private:
  struct Speaker {
    std::string job;
    Rank rank{};
  };
  [[nodiscard]] Result<WatchedJob*> job_of(const Identity& identity, Instant now);
  [[nodiscard]] bool make_room();
  /// The job and the rank to which the connection belongs; nullptr: it belongs to no rank.
  [[nodiscard]] WatchedJob* job_of_connection(ConnectionId connection, Rank& rank);
  Rules rules_;
  std::map<std::string, WatchedJob> jobs_;  // by id
  std::map<ConnectionId, Speaker> speakers_;
};

}  // namespace lockstep::coordinator
