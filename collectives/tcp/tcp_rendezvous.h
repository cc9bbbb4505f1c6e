// The rendezvous on one process: rank 0, the root, listens until all have joined
// (tcp_rendezvous_root.cpp); the others join and then connect with each other
// (tcp_rendezvous_peer.cpp). Used by these files and tcp_rendezvous.cpp only.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include <lockstep/collectives/tcp/rendezvous_members.h>
#include <lockstep/collectives/tcp/tcp.h>
#include <lockstep/collectives/tcp/tcp_mesh.h>

namespace lockstep::collectives {

using TcpLinkPtr = std::shared_ptr<TcpLink>;

/// What the ranks prove to each other that they know, of the secret that their job was given.
[[nodiscard]] Secret secret_of_ranks(const Secret& shared);

/// One process at the rendezvous, up to when it is connected with all others.
class TcpRendezvous {
 public:
  explicit TcpRendezvous(const TcpOptions& options);
  ~TcpRendezvous();
  [[nodiscard]] Result<TcpMeshParts> run();

 private:
  [[nodiscard]] JoinRequest own_request() const;
  [[nodiscard]] bool is_root() const { return options_.rank.value == 0; }
  [[nodiscard]] bool complete() const;
  [[nodiscard]] Result<void> listen(const Endpoint& at);
  [[nodiscard]] std::string place() const;
  void accept();
  void welcome(TcpLink::Socket socket);
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
  void reach(Rank peer);
  void introduced(const TcpLinkPtr& link, const Introduction& word);
  void keep(Rank peer, const TcpLinkPtr& link);
  void fail(Status status);
  [[nodiscard]] Status too_late() const;

  TcpOptions options_;
  SystemClock clock_;
  TcpMeshParts made_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  Instant until_;
  RendezvousMembers members_;
  std::deque<TcpLinkPtr> strangers_;            // by age
  std::map<std::int32_t, TcpLinkPtr> waiting_;  // on rank 0: the ranks that have joined
  TcpLinkPtr to_root_;                          // on the others
  std::map<std::int32_t, TcpLinkPtr> reaching_;
  RendezvousId id_{};
  RankSet missing_;
  RankSet told_;  // by rank 0: that the job cannot start
  std::string last_trouble_;
  bool published_ = false;  // by rank 0: the file says where it listens
  bool met_ = false;        // all have come, and it is known where they are
  std::optional<Status> failure_;
};

}  // namespace lockstep::collectives
