// Gives the list of all ranks to ranks that have joined this process. Used on rank 0 and on every
// parent in the rendezvous. Used by the TCP backend only.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include <lockstep/collectives/tcp/rendezvous_members.h>
#include <lockstep/collectives/tcp/tcp_door.h>

namespace lockstep::collectives {

/// Gives the list until all ranks below this rank are known to have it. After kPatience it goes on
/// only until the ranks that get the list from this process have it, for at most kMostTimes *
/// kPatience in all. So a rank whose connection broke on the way can ask again. The loop must
/// outlive the object. Used by one thread at a time.
class TcpRoster {
 public:
  static constexpr std::chrono::seconds kPatience{10};
  static constexpr int kMostTimes = 6;

  /// `door` is that of the rendezvous; null on ranks other than 0. `members` have joined this
  /// process. `peers` is the list. `below` are all ranks that are to get the list from this process
  /// or through it.
  TcpRoster(TcpLoop& loop, std::unique_ptr<TcpDoor> door, RendezvousMembers members,
            const RendezvousId& id, const std::vector<Peer>& peers, RankSet below);
  ~TcpRoster();
  TcpRoster(const TcpRoster&) = delete;
  TcpRoster& operator=(const TcpRoster&) = delete;

  /// Event: a process asks to join.
  void came(const TcpLinkPtr& link, const JoinRequest& request);
  /// Sends the list to a rank that has joined.
  void give(Rank rank, const TcpLinkPtr& link);
  /// Event: the rank has shown that it has the list.
  void has(Rank rank);
  /// The job has ended: from now on a process that asks to join is sent `verdict`.
  void end(const Status& verdict) { ended_ = verdict; }
  /// Expects that these ranks, whose connections broke before they had the list, ask for it here.
  void expect(const RankSet& ranks) { expected_.insert(ranks); }
  /// True if all ranks that get the list from this process have it.
  [[nodiscard]] bool done() const { return expected_.empty(); }

 private:
  void stop();
  void stop_later();

  std::unique_ptr<TcpDoor> door_;
  RendezvousMembers members_;
  std::vector<RosterPart> parts_;
  RankSet without_, expected_;
  std::map<std::int32_t, TcpLinkPtr> reading_;
  boost::asio::steady_timer limit_;
  std::optional<Status> ended_;
  int times_ = 0;  // number of periods kPatience that have passed
  bool over_ = false;
};

}  // namespace lockstep::collectives
