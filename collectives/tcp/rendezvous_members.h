// The processes that have joined the rendezvous of a job without a launcher, as a pure state
// machine: no socket, no clock. Driven by rank 0, and by those who pass the list on
// (tcp_rendezvous_parent.cpp).
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/tcp/rendezvous_tree.h>
#include <lockstep/collectives/tcp/tcp_message.h>

namespace lockstep::collectives {

/// A process at the rendezvous, `root`, and the ranks that have joined it: at rank 0 all, at
/// another those that wait with it. One thread.
class RendezvousMembers {
 public:
  /// Requires that `root` is a rank of its job.
  explicit RendezvousMembers(JoinRequest root) : root_(std::move(root)), tree_(root_.host_id) {}

  struct Answer {
    std::optional<Status> refusal;    // none: the rank has joined
    bool ends_all = false;            // no process of this job can be started like that
    std::optional<Endpoint> wait_at;  // where, if not here
  };
  /// `at` is the address that the request came from. Refused with BadInput: another job, no rank of
  /// this job, a rank that another process has joined as; with Version: other messages. A process
  /// that comes again, since its connection broke, has joined, and waits here. The refusal ends the
  /// rendezvous for all where a rank of this job has another build (Version) or another world size
  /// (BadInput).
  [[nodiscard]] Answer join(const JoinRequest& request, const std::string& at);
  /// It was sent on, and is where it was sent to; until then it is missing.
  void arrived(Rank rank);
  /// Its connection has ended before all had joined: nobody is sent to it any more, and another
  /// process may come in its place. If it had arrived it counts as here until forget_gone(), so
  /// that all need not be connected at one moment.
  void left(Rank rank, Instant now);
  /// Those that left before that and have not come again.
  void forget_gone(Instant before);
  /// Those that have left and count as here.
  [[nodiscard]] RankSet gone() const;

  /// At rank 0: nobody is missing; and who is.
  [[nodiscard]] bool complete() const { return here_ == root_.size - 1; }
  [[nodiscard]] RankSet missing() const;
  /// By rank. Requires complete().
  [[nodiscard]] std::vector<Peer> roster() const;

 private:
  struct Member {
    JoinRequest request;
    std::string address;
    bool on_its_way = true;
    std::optional<Instant> gone = {};  // since when
  };
  void is_here(Member& member);
  void erase(std::map<std::int32_t, Member>::iterator member);
  JoinRequest root_;
  RendezvousTree tree_;                    // at rank 0
  std::map<std::int32_t, Member> joined_;  // without the root
  std::deque<std::pair<Instant, Rank>> gone_;
  int here_ = 0;  // of those, who are not on their way
};

}  // namespace lockstep::collectives
