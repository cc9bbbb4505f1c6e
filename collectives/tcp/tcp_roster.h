// The list of all ranks, as it is given to those who have joined: by rank 0, and by those with whom
// others wait. Used by the TCP backend only.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include <lockstep/collectives/tcp/rendezvous_members.h>
#include <lockstep/collectives/tcp/tcp_door.h>

namespace lockstep::collectives {

/// Gives it until all that are to have it from here, or from those, are known to have it, or
/// kPatience have gone by and all have it that come here for it (or kPatience have gone by
/// kMostTimes), so that a rank whose connection broke while it came may come again. Outlived by the
/// loop. One thread at a time.
class TcpRoster {
 public:
  static constexpr std::chrono::seconds kPatience{10};
  static constexpr int kMostTimes = 6;

  /// `door` is that of the rendezvous, null on others than rank 0; `members` have joined here;
  /// `peers` is the list, `below` those that are to have it.
  TcpRoster(TcpLoop& loop, std::unique_ptr<TcpDoor> door, RendezvousMembers members,
            const RendezvousId& id, const std::vector<Peer>& peers, RankSet below);
  ~TcpRoster();
  TcpRoster(const TcpRoster&) = delete;
  TcpRoster& operator=(const TcpRoster&) = delete;

  /// One asks to join.
  void came(const TcpLinkPtr& link, const JoinRequest& request);
  /// To one that has joined.
  void give(Rank rank, const TcpLinkPtr& link);
  /// It has shown that it has the list.
  void has(Rank rank);
  /// The job has ended: who comes now is told why.
  void end(const Status& verdict) { ended_ = verdict; }
  /// Whose connections broke before they had it: they come here for it.
  void expect(const RankSet& ranks) { expected_.insert(ranks); }
  /// All that get it here have it.
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
  int times_ = 0;  // that kPatience have gone by
  bool over_ = false;
};

}  // namespace lockstep::collectives
