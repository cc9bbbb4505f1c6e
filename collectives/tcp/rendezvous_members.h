// The processes that have joined the rendezvous of a job without a launcher. A pure state machine:
// no socket, no clock. Used by rank 0 and by every other parent (tcp_rendezvous_parent.cpp).
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/tcp/tcp_message.h>

namespace lockstep::collectives {

/// The tree by which ranks get the list of all ranks: over hosts in their order of arrival, with
/// rank 0's host at the root. The first rank of a host is a child of the first rank of another
/// host, which has at most kHosts such children. The other ranks of a host are children of the
/// host's first rank. Used by one thread.
class RendezvousTree {
 public:
  static constexpr std::size_t kHosts = 4;

  /// `host` is that of rank 0.
  explicit RendezvousTree(std::uint64_t host) : hosts_{host}, firsts_{{host, Rank{0}}} {}

  /// Adds a rank that has arrived; returns the rank with which it is to wait.
  [[nodiscard]] Rank parent(Rank rank, std::uint64_t host);
  /// Removes a rank that is gone: no other rank is sent to it any more.
  void left(Rank rank);

 private:
  std::vector<std::uint64_t> hosts_;      // in order of arrival
  std::map<std::uint64_t, Rank> firsts_;  // the first rank of each host, unless it has left
};

/// The ranks that have joined the process `root`: all ranks that have joined if that process is
/// rank 0, else the ranks that wait with it. Used by one thread.
class RendezvousMembers {
 public:
  /// Requires that `root` names a rank of its job: 0 to size-1.
  explicit RendezvousMembers(JoinRequest root) : root_(std::move(root)), tree_(root_.host_id) {}

  struct Answer {
    std::optional<Status> refusal;    // nullopt: the rank has joined
    bool ends_all = false;            // the refusal ends the rendezvous for all
    std::optional<Endpoint> wait_at;  // where the rank is to wait; nullopt: here
  };
  /// Handles a request from the address `at`. Refuses with BadInput a process of another job, a
  /// number that is no rank of this job, and a rank that another process has taken; with Version
  /// another message version. If a rank of this job has another build (Version) or another world
  /// size (BadInput), the refusal ends the rendezvous for all. A process that joins again, because
  /// its connection broke, waits here.
  [[nodiscard]] Answer join(const JoinRequest& request, const std::string& at);
  /// Notes that a rank that was sent on has arrived at its parent. Until this call the rank counts
  /// as missing.
  void arrived(Rank rank);
  /// Notes that the rank's connection ended before all had joined. No other rank is sent to it any
  /// more, and another process may join in its place. If it had arrived, it counts as present until
  /// forget_gone(): so not all ranks need to be connected at one moment.
  void left(Rank rank, Instant now);
  /// Forgets ranks that left before `before` and have not joined again.
  void forget_gone(Instant before);
  /// The ranks that have left and still count as present.
  [[nodiscard]] RankSet gone() const;

  /// At rank 0: whether all ranks are present, and which are missing.
  [[nodiscard]] bool complete() const { return here_ == root_.size - 1; }
  [[nodiscard]] RankSet missing() const;
  /// The addresses of all ranks, in rank order. Requires complete().
  [[nodiscard]] std::vector<Peer> roster() const;

 private:
  struct Member {
    JoinRequest request;
    std::string address;
    bool on_its_way = true;
    std::optional<Instant> gone = {};  // when its connection broke; nullopt: it is connected
  };
  void is_here(Member& member);
  void erase(std::map<std::int32_t, Member>::iterator member);
  JoinRequest root_;
  RendezvousTree tree_;                    // used at rank 0
  std::map<std::int32_t, Member> joined_;  // by rank, without the root
  std::deque<std::pair<Instant, Rank>> gone_;
  int here_ = 0;  // number of joined_ that are not on their way
};

}  // namespace lockstep::collectives
