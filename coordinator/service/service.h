// The coordinator without its sockets: jobs, who is in them and what they are doing. The server
// hands in what connections say; whoever asks gets findings. It knows no clock: `now` never goes
// back.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/coordinator/service/diagnosis.h>
#include <lockstep/coordinator/service/history.h>
#include <lockstep/coordinator/service/timeline.h>
#include <lockstep/coordinator/service/verdict.h>

namespace lockstep::coordinator {

/// One job, as far as its ranks have come. Several runs of a job with one id follow each other:
/// once no rank of a run is left, the next process that comes begins another.
struct WatchedJob {
  explicit WatchedJob(const Identity& first, Instant now)
      : membership(first), progress(membership.size()), timeline(membership.size()), began(now) {}
  Membership membership;
  Progress progress;
  History history;
  Timeline timeline;
  Instant began;
  int run = 1;
  std::optional<Verdict> ending;  // with which its ranks ended it themselves
};

/// The jobs of one coordinator. Memory is bounded: by jobs, by ranks, and per rank. One thread.
class Service {
 public:
  /// Most jobs watched at one time; a job of which no rank is left makes room.
  static constexpr std::size_t kMostJobs = 64;

  explicit Service(Rules rules = {}) : rules_(rules) {}

  /// The connection speaks for this rank from here on. `replaced` in the answer is to be closed: it
  /// is no longer known. Errors: BadInput (no such rank or job, or the
  /// connection has joined before), Version (Membership::join),
  /// Environment (too many jobs).
  [[nodiscard]] Result<Membership::Admission> join(const Identity& identity,
                                                   ConnectionId connection, Instant now);
  /// No effect where the connection speaks for no rank.
  void report(ConnectionId connection, const Report& report, Instant now);
  /// A call that the rank told of. Whose text the coordinator lacks: to be asked of this rank.
  [[nodiscard]] std::optional<shapes::Fingerprint> told(ConnectionId connection,
                                                        const CallEvent& event, Instant now);
  void graph(ConnectionId connection, GraphText graph);
  void configure(ConnectionId connection, Configuration configuration);
  /// The first of a run counts; it is over where a process takes the place of one of its ranks.
  void ending(ConnectionId connection, const Ending& ending);
  void closed(ConnectionId connection, Instant now);
  /// Findings have named them: what they do is kept for traces from here on.
  void follow(const std::string& job, const RankSet& ranks);

  [[nodiscard]] const std::map<std::string, WatchedJob>& jobs() const { return jobs_; }
  [[nodiscard]] std::vector<Finding> diagnose(const WatchedJob& job, Instant now) const;
  /// What ends the job, said to all its ranks for as long as it holds: what some of them end it with
  /// themselves, or what is wrong with it.
  [[nodiscard]] std::optional<Verdict> verdict(const WatchedJob& job, Instant now) const;
  [[nodiscard]] Rules rules_of(const WatchedJob& job) const;
  /// Ranks of all jobs that are connected.
  [[nodiscard]] std::size_t speakers() const { return speakers_.size(); }
  /// Through which the ranks of a job speak.
  [[nodiscard]] std::vector<ConnectionId> connections(const std::string& job) const;

 private:
  struct Speaker {
    std::string job;
    Rank rank{};
  };
  [[nodiscard]] Result<WatchedJob*> job_of(const Identity& identity, Instant now);
  [[nodiscard]] bool make_room();
  /// nullptr: it speaks for no rank.
  [[nodiscard]] WatchedJob* spoken_for(ConnectionId connection, Rank& rank);
  Rules rules_;
  std::map<std::string, WatchedJob> jobs_;  // by id
  std::map<ConnectionId, Speaker> speakers_;
};

}  // namespace lockstep::coordinator
