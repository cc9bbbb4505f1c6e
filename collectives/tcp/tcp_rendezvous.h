// The rendezvous on one process: rank 0, the root, listens until all have joined
// (tcp_rendezvous_root.cpp); the others join (tcp_rendezvous_peer.cpp). All learn where each
// listens. Used by these files and tcp_rendezvous.cpp only.
#pragma once

#include <map>
#include <optional>

#include <lockstep/collectives/tcp/rendezvous_members.h>
#include <lockstep/collectives/tcp/tcp.h>
#include <lockstep/collectives/tcp/tcp_mesh.h>

namespace lockstep::collectives {

/// What the ranks prove to each other that they know, of the secret that their job was given.
[[nodiscard]] Secret secret_of_ranks(const Secret& shared);

/// One process at the rendezvous, up to when it knows where all others listen.
class TcpRendezvous {
 public:
  explicit TcpRendezvous(const TcpOptions& options);
  ~TcpRendezvous();
  [[nodiscard]] Result<TcpMeshParts> run();

 private:
  [[nodiscard]] JoinRequest own_request() const;
  [[nodiscard]] bool is_root() const { return options_.rank.value == 0; }
  [[nodiscard]] bool complete() const;
  [[nodiscard]] Result<void> listen(TcpDoor& door, const Endpoint& at);
  [[nodiscard]] std::string place() const;
  // As rank 0:
  [[nodiscard]] Result<void> open();
  void came(const TcpLinkPtr& link, const JoinRequest& request);
  void tell_who_is_missing();
  void turn_away_all();
  void hand_out_roster();
  // As another rank:
  void seek();
  void seek_later();
  [[nodiscard]] bool read_place();
  void found();
  void root_said(TcpMessage message);
  void root_ended(const Status& why);
  void took(const RosterPart& part);
  void fail(Status status);
  [[nodiscard]] Status too_late() const;

  TcpOptions options_;
  SystemClock clock_;
  TcpMeshParts made_;
  std::unique_ptr<TcpDoor> here_;  // on rank 0: the rendezvous
  boost::asio::steady_timer pause_;
  Instant until_;
  RendezvousMembers members_;
  std::map<std::int32_t, TcpLinkPtr> waiting_;  // on rank 0: the ranks that have joined
  TcpLinkPtr to_root_;                          // on the others
  RankSet missing_;
  RankSet told_;  // by rank 0: that the job cannot start
  std::string last_trouble_;
  bool published_ = false;      // by rank 0: the file says where it listens
  std::optional<Instant> met_;  // all have come, and it is known where they are
  std::optional<Status> failure_;
};

}  // namespace lockstep::collectives
