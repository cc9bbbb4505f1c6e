// The rendezvous as one process goes through it: rank 0 listens until all have come (tcp_host.cpp),
// the others come and then connect with each other (tcp_guest.cpp). Used by tcp_meeting.cpp only.
#pragma once

#include <deque>
#include <map>
#include <optional>

#include <lockstep/collectives/tcp/arrivals.h>
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
  [[nodiscard]] Result<TcpMeeting> run();

 private:
  [[nodiscard]] Arrival own_arrival() const;
  [[nodiscard]] bool host() const { return options_.rank.value == 0; }
  [[nodiscard]] bool complete() const;
  [[nodiscard]] Result<void> listen(const Endpoint& at);
  [[nodiscard]] std::string place() const;
  void accept();
  void welcome(TcpLink::Socket socket);
  // As rank 0:
  [[nodiscard]] Result<void> open();
  void came(const TcpLinkPtr& link, const Arrival& arrival);
  void tell_who_is_missing();
  void turn_away_all();
  void hand_out_roster();
  // As another rank:
  void seek();
  void seek_later();
  [[nodiscard]] bool read_place();
  void found();
  void host_said(TcpMessage message);
  void host_ended(const Status& why);
  void took(const RosterPart& part);
  void reach(Rank peer);
  void introduced(const TcpLinkPtr& link, const Introduction& word);
  void keep(Rank peer, const TcpLinkPtr& link);
  void fail(Status status);
  [[nodiscard]] Status too_late() const;

  TcpOptions options_;
  SystemClock clock_;
  TcpMeeting made_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  Instant until_;
  Arrivals arrivals_;
  std::deque<TcpLinkPtr> strangers_;           // by age
  std::map<std::int32_t, TcpLinkPtr> guests_;  // of rank 0: who waits for the others
  TcpLinkPtr to_host_;                         // of the others
  std::map<std::int32_t, TcpLinkPtr> reaching_;
  MeetingId meeting_{};
  RankSet missing_;
  RankSet told_;  // by rank 0: that the job cannot start
  std::string last_trouble_;
  bool published_ = false;  // by rank 0: the file says where it listens
  bool met_ = false;        // all have come, and it is known where they are
  std::optional<Status> failure_;
};

}  // namespace lockstep::collectives
