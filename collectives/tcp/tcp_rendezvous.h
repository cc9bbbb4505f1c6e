// The rendezvous on one process. Every rank asks rank 0, the root. Rank 0 keeps some ranks and
// sends each other rank on, to wait with a rank that has joined earlier (RendezvousTree). At the
// end every rank knows the addresses at which all listen. tcp_rendezvous_parent.cpp has what a
// process does for its children, tcp_rendezvous_child.cpp what it does as a child. Used by these
// files and tcp_rendezvous.cpp only.
#pragma once

#include <map>
#include <optional>

#include <lockstep/collectives/tcp/rendezvous_members.h>
#include <lockstep/collectives/tcp/tcp.h>
#include <lockstep/collectives/tcp/tcp_mesh.h>

namespace lockstep::collectives {

/// The secret that ranks prove to each other, derived from the job's secret.
[[nodiscard]] Secret secret_of_ranks(const Secret& shared);

/// One process at the rendezvous, until it knows the addresses of all others.
class TcpRendezvous {
 public:
  explicit TcpRendezvous(const TcpOptions& options);
  ~TcpRendezvous();
  [[nodiscard]] Result<TcpMeshParts> run();

 private:
  struct Child {
    TcpLinkPtr link;
    RankSet below;         // ranks that wait with the child, or below it
    bool sent_on = false;  // the child was sent on to another parent and has not arrived there
  };
  [[nodiscard]] JoinRequest own_request() const;
  [[nodiscard]] bool is_root() const { return options_.rank.value == 0; }
  [[nodiscard]] bool complete() const;
  [[nodiscard]] Result<void> listen(TcpDoor& door, const Endpoint& at);
  [[nodiscard]] std::string place() const;
  // As a parent:
  [[nodiscard]] Result<void> open();
  [[nodiscard]] TcpDoor::Events at_the_door();
  void came(const TcpLinkPtr& link, const JoinRequest& request);
  void refuse_join(const TcpLinkPtr& link, Rank rank, const RendezvousMembers::Answer& answer);
  void keep(const TcpLinkPtr& link, Rank rank, bool sent_on);
  void forget(const RankSet& gone);
  void no_longer_below(Rank rank);
  void on_presence(Rank child, const Presence& told);
  void tell_parent(Rank rank, bool here);
  void look_at_children();
  void refuse_all();
  void end_for_all();
  void drop_children();
  void on_complete();
  void hand_out_roster(std::unique_ptr<TcpDoor> door);
  // As a child:
  void seek();
  void seek_later();
  [[nodiscard]] bool read_place();
  void found_root();
  void ask(TcpLink& link);
  void go_to(const Endpoint& parent);
  void lost_parent();
  void look_at_parent();
  void said(TcpMessage message);
  void root_ended(const Status& why);
  void took(const RosterPart& part);
  void fail(Status status);
  [[nodiscard]] Status too_late() const;

  TcpOptions options_;
  SystemClock clock_;
  TcpMeshParts made_;
  std::unique_ptr<TcpDoor> here_;  // on rank 0: listens at the rendezvous
  boost::asio::steady_timer pause_;
  Instant until_, latest_;
  RendezvousMembers members_;
  std::map<std::int32_t, Child> children_;
  TcpLinkPtr to_root_;    // kept until rank 0 knows that this rank waits elsewhere; null on rank 0
  TcpLinkPtr to_parent_;  // null if the parent is rank 0
  TcpLinkPtr giver_;      // to_root_ or to_parent_, whichever sent the list
  Instant heard_{0};      // time of the last message from the parent
  Instant asked_{0};      // time of the last request to the parent
  RankSet missing_;
  Instant told_at_{0};  // when the children were last sent the missing ranks
  RankSet told_;        // on rank 0: ranks that know that the job cannot start
  std::string last_trouble_;
  bool published_ = false;      // on rank 0: the rendezvous file is written
  std::optional<Instant> met_;  // when this process got the list of all ranks
  std::optional<Status> failure_;
};

}  // namespace lockstep::collectives
