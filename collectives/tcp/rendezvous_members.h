// The processes that have joined the rendezvous of a job without a launcher. A pure state machine:
// no socket, no clock. Driven by rank 0 and by every other parent (tcp_rendezvous_parent.cpp).
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/tcp/rendezvous_tree.h>
#include <lockstep/collectives/tcp/tcp_message.h>

namespace lockstep::collectives {

/// The ranks that have joined the process `root`: all if it is rank 0, else those that wait with
/// it. One thread.
class RendezvousMembers {
 public:
  /// Requires that `root` is a rank of its job.
  explicit RendezvousMembers(JoinRequest root) : root_(std::move(root)), tree_(root_.host_id) {}

  struct Answer {
    std::optional<Status> refusal;    // nullopt: the rank has joined
    bool ends_all = false;            // the refusal ends the rendezvous for all
    std::optional<Endpoint> wait_at;  // where the rank is to wait; nullopt: here
  };
  /// Handles a request from the address `at`. Refuses with BadInput: another job, a number that is
  /// no rank of this job, a rank that another process has joined as; with Version: another message
  /// version. A process that joins again, because its connection broke, waits here. The refusal
  /// ends the rendezvous for all if a rank of this job has another build (Version) or another world
  /// size (BadInput).
  [[nodiscard]] Answer join(const JoinRequest& request, const std::string& at);
  /// A rank that was sent on waits where it was sent to; until then it is missing.
  void arrived(Rank rank);
  /// The rank's connection ended before all had joined: no other is sent to it any more, and
  /// another process may join in its place. If it had arrived it counts as present until
  /// forget_gone(), so that all need not be connected at one moment.
  void left(Rank rank, Instant now);
  /// Forgets ranks that left before `before` and have not joined again.
  void forget_gone(Instant before);
  /// Ranks that have left and still count as present.
  [[nodiscard]] RankSet gone() const;

  /// At rank 0: whether all ranks are present, and which are missing.
  [[nodiscard]] bool complete() const { return here_ == root_.size - 1; }
  [[nodiscard]] RankSet missing() const;
  /// All peers, in rank order. Requires complete().
  [[nodiscard]] std::vector<Peer> roster() const;

 private:
  struct Member {
    JoinRequest request;
    std::string address;
    bool on_its_way = true;
    std::optional<Instant> gone = {};  // since when its connection is broken
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
