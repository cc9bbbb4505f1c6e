// The processes that have joined the rendezvous of a job without a launcher, as a pure state
// machine: no socket, no clock. Driven by rank 0 (tcp_rendezvous_root.cpp).
#pragma once

#include <map>
#include <optional>

#include <lockstep/collectives/tcp/tcp_message.h>

namespace lockstep::collectives {

/// Rank 0, the root of the rendezvous, and the ranks that have joined it. One thread.
class RendezvousMembers {
 public:
  /// Requires that `root`, rank 0, is a rank of its job.
  explicit RendezvousMembers(JoinRequest root) : root_(std::move(root)) {}

  struct Answer {
    std::optional<Status> refusal;  // none: the rank has joined
    bool ends_all = false;          // no process of this job can be started like that
  };
  /// `at` is the address that the request came from. Refused with BadInput: another job, no rank of
  /// this job, a rank that another process has joined as; with Version: other messages. A process
  /// that comes again, since its connection broke, has joined. The refusal ends the
  /// rendezvous for all where a rank of this job has another build (Version) or another world size
  /// (BadInput).
  [[nodiscard]] Answer join(const JoinRequest& request, const std::string& at);
  /// Its connection has ended before all had joined: it may join again.
  void left(Rank rank) { joined_.erase(rank.value); }

  [[nodiscard]] RankSet missing() const;
  /// By rank. Requires that nobody is missing.
  [[nodiscard]] std::vector<Peer> roster() const;

 private:
  struct Member {
    JoinRequest request;
    std::string address;
  };
  JoinRequest root_;
  std::map<std::int32_t, Member> joined_;  // without the root
};

}  // namespace lockstep::collectives
