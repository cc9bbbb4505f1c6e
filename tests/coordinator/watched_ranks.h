// Ranks of one job that a Service watches, moved by hand: no sockets, no time.
#pragma once

#include <string>
#include <vector>

#include <lockstep/coordinator/service/service.h>

namespace lockstep::coordinator {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class WatchedRanks {
 public:
  explicit WatchedRanks(int size, Rules rules = {}) : service(rules) {
    for (int r = 0; r < size; ++r) {
      identities.push_back({.job = "train",
                            .rank = {r},
                            .size = size,
                            .incarnation = Incarnation(static_cast<std::uint64_t>(r) + 1),
                            .host = std::string("n").append(std::to_string(r / 8)),
                            .host_id = static_cast<std::uint64_t>(r / 8),
                            .pid = 1000 + r,
                            .build = "b1"});
      reports.push_back({.phase = Phase::Running});
      progress.push_back(Instant{0});
      lease.push_back(Instant{0});
    }
  }

  void join_all() {
    for (std::size_t r = 0; r < identities.size(); ++r) (void)join(static_cast<int>(r)).value();
  }
  Result<Membership::Admission> join(int rank) {
    connections[rank] = ConnectionId(++last_connection);
    return service.join(identities[at(rank)], connections[rank], now);
  }
  void close(int rank) { service.closed(connections.at(rank), now); }
  /// Begins its next operation of the group and waits in it.
  void wait(int rank, std::uint64_t group = kWorldGroup, std::string name = {}) {
    SlotReport& report = reports[at(rank)];
    auto count = std::find_if(report.groups.begin(), report.groups.end(),
                              [&](const GroupCount& g) { return g.group == group; });
    if (count == report.groups.end()) count = report.groups.insert(count, {group, 0});
    report.ordinal = ++count->begun;
    report.group = group;
    report.group_name = std::move(name);
    report.operation = OperationKind::Vote;
    ++report.begun;
    report.waiting = true;
    progress[at(rank)] = now;
  }
  void leave(int rank) { reports[at(rank)].waiting = false; }
  void note(int rank, std::string event) {
    reports[at(rank)].event = std::move(event);
    progress[at(rank)] = now;
  }
  void tell(int rank) {
    SlotReport report = reports[at(rank)];
    report.since_progress = now - progress[at(rank)];
    report.lease_left = std::max(lease[at(rank)] - now, Instant{0});
    service.report(connections.at(rank), report, now);
  }
  void tell_all() {
    for (std::size_t r = 0; r < identities.size(); ++r)
      if (!quiet.contains(Rank{static_cast<std::int32_t>(r)})) tell(static_cast<int>(r));
  }
  /// Second by second, each with a report of all that are not quiet.
  void pass(seconds time) {
    for (seconds passed{0}; passed < time; ++passed) {
      now += seconds(1);
      tell_all();
    }
  }
  [[nodiscard]] const WatchedJob& job() const { return service.jobs().at("train"); }
  [[nodiscard]] std::vector<Finding> findings() const { return service.diagnose(job(), now); }
  [[nodiscard]] std::vector<Operation> operations() const {
    return awaited_operations(job().membership, job().progress);
  }

  Service service;
  Instant now = seconds(1000);
  std::vector<Identity> identities;
  std::vector<SlotReport> reports;
  std::vector<Instant> progress, lease;
  std::map<int, ConnectionId> connections;
  RankSet quiet;  // do not report in tell_all()

 private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  std::uint64_t last_connection = 0;
};

}  // namespace lockstep::coordinator
