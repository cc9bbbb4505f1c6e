#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <lockstep/coordinator/service/service.h>

namespace lockstep::coordinator {

/// Of the jobs without live ranks, removes the one that began first, if there are too many jobs.
/// False: every job has live ranks.
bool Service::make_room() {
  if (jobs_.size() < kMostJobs) return true;
  auto oldest = jobs_.end();
  for (auto it = jobs_.begin(); it != jobs_.end(); ++it)
    if (!it->second.membership.anyone_live() &&
        (oldest == jobs_.end() || it->second.began < oldest->second.began))
      oldest = it;
  if (oldest == jobs_.end()) return false;
  std::erase_if(speakers_, [&](const auto& entry) { return entry.second.job == oldest->first; });
  jobs_.erase(oldest);
  return true;
}

Result<WatchedJob*> Service::job_of(const Identity& identity, Instant now) {
  if (identity.size < 1 || identity.size > kMostRanks)
    return bad_input(
        fmt::format("The job {} says that it has {} ranks; the coordinator watches jobs "
                    "of 1 to {}.",
                    identity.job, identity.size, kMostRanks));
  if (identity.rank.value < 0 || identity.rank.value >= identity.size)
    return bad_input(fmt::format("There is no rank {} in the job {} of {} ranks.",
                                 identity.rank.value, identity.job, identity.size));
  const auto it = jobs_.find(identity.job);
  if (it == jobs_.end()) {
    if (!make_room())
      return environment_error(
          fmt::format("The coordinator watches {} jobs and none of them has ended; start "
                      "another coordinator for the job {}.",
                      kMostJobs, identity.job));
    return &jobs_.try_emplace(identity.job, identity, now).first->second;
  }
  WatchedJob& job = it->second;
  if (!job.membership.anyone_live() && !job.membership.knows(identity)) {
    const int run = job.run + 1;
    std::erase_if(speakers_, [&](const auto& entry) { return entry.second.job == it->first; });
    job = WatchedJob(identity, now);
    job.run = run;
  }
  return &job;
}

Result<Membership::Admission> Service::join(const Identity& identity, ConnectionId connection,
                                            Instant now) {
  if (speakers_.contains(connection))
    return bad_input("A connection speaks for one rank; this one has joined already.");
  const auto job = job_of(identity, now);
  if (!job) return job.error();
  auto admission = (*job)->membership.join(identity, connection, now, rules_.silent_warn);
  if (!admission) return admission;
  if (admission->restarted) {
    (*job)->progress.forget(identity.rank);
    (*job)->ending.reset();
  }
  if (admission->replaced) speakers_.erase(*admission->replaced);
  speakers_[connection] = {identity.job, identity.rank};
  return admission;
}

WatchedJob* Service::job_of_connection(ConnectionId connection, Rank& rank) {
  const auto speaker = speakers_.find(connection);
  if (speaker == speakers_.end()) return nullptr;
  rank = speaker->second.rank;
  return &jobs_.at(speaker->second.job);
}

void Service::report(ConnectionId connection, const SlotReport& report, Instant now) {
  Rank rank{};
  WatchedJob* job = job_of_connection(connection, rank);
  if (job == nullptr) return;
  job->progress.take(job->membership.member(rank)->identity, report, now);
  job->timeline.report(rank, report, now);
  job->membership.heard(rank, report.finished, now);
}

std::optional<shapes::Fingerprint> Service::told(ConnectionId connection, const CallEvent& event,
                                                 Instant now) {
  Rank rank{};
  WatchedJob* job = job_of_connection(connection, rank);
  if (job == nullptr) return std::nullopt;
  job->call_log.take(rank, event, now);
  job->timeline.told(rank, event, now);
  return job->call_log.wanted(event, now);
}

void Service::graph(ConnectionId connection, GraphText graph) {
  Rank rank{};
  if (WatchedJob* job = job_of_connection(connection, rank))
    job->call_log.take_graph(graph.graph, std::move(graph.text));
}

void Service::follow(const std::string& job, const RankSet& ranks) {
  if (const auto known = jobs_.find(job); known != jobs_.end())
    known->second.timeline.follow(ranks);
}

void Service::configure(ConnectionId connection, Configuration configuration) {
  Rank rank{};
  if (WatchedJob* job = job_of_connection(connection, rank))
    job->call_log.configure(std::move(configuration.text));
}

void Service::ending(ConnectionId connection, const Ending& ending) {
  Rank rank{};
  WatchedJob* job = job_of_connection(connection, rank);
  if (job == nullptr || job->ending) return;
  job->ending = JobVerdict{ending.code, ending.message};
  if (ending.message.empty()) job->ending->message = code_name(ending.code);
}

void Service::closed(ConnectionId connection, Instant now) {
  const auto speaker = speakers_.find(connection);
  if (speaker == speakers_.end()) return;
  jobs_.at(speaker->second.job).membership.closed(speaker->second.rank, connection, now);
  speakers_.erase(speaker);
}

Rules Service::rules_of(const WatchedJob& job) const {
  return rules_.within(job.membership.deadline(), job.membership.several_hosts());
}

std::vector<Finding> Service::diagnose(const WatchedJob& job, Instant now) const {
  return coordinator::diagnose(job.membership, job.progress,
                               awaited_operations(job.membership, job.progress), rules_of(job),
                               job.began, now);
}

std::optional<JobVerdict> Service::verdict(const WatchedJob& job, Instant now) const {
  if (job.ending) return job.ending;
  const auto operations = awaited_operations(job.membership, job.progress);
  const Rules rules = rules_of(job);
  return job_verdict(
      coordinator::diagnose(job.membership, job.progress, operations, rules, job.began, now),
      operations, job.progress, rules, now);
}

std::vector<ConnectionId> Service::connections(const std::string& job) const {
  std::vector<ConnectionId> out;
  for (const auto& [connection, speaker] : speakers_)
    if (speaker.job == job) out.push_back(connection);
  return out;
}

}  // namespace lockstep::coordinator
