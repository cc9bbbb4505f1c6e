// The progress board between the hosts of a job over TCP: what each host knows goes along a tree of
// hosts. Used by the job's watchdog.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include <lockstep/collectives/base/board.h>
#include <lockstep/collectives/tcp/tcp_message.h>

namespace lockstep::collectives {

class TcpMesh;

/// One rank's part. Of each host the lowest rank that is not suspended speaks: it tells the
/// speakers of at most three other hosts what the ranks on its side of them do, and puts what it
/// hears onto the board of its host. A host of which no rank is heard of as running is passed over:
/// its neighbours speak with each other. Where all ranks are on one host it does nothing. One
/// thread.
class TcpCarrier {
 public:
  /// How often a rank says on its board that it is not suspended.
  static constexpr std::chrono::milliseconds kEvery{200};
  /// How often a speaker speaks: kEvery, and less often in jobs of more than 2,000 ranks, so that
  /// no neighbour is told of more than 10,000 ranks a second.
  [[nodiscard]] static Duration every(int ranks);
  /// After so long without that another rank of the host speaks in its place.
  static constexpr std::chrono::milliseconds kTakesOver{900};
  /// After so long a rank of another host is not believed any more to wait, and every() twice more
  /// for each host that passes the word on.
  static constexpr std::chrono::milliseconds kSilence{2500};

  /// Mesh and board outlive it. `deadline`: of watched waits; so long into the silence of a
  /// rank of another host its lease is over, for a word that said so may have been lost.
  TcpCarrier(TcpMesh& mesh, Board& board, Duration deadline);
  /// `hosts`: of each rank; else as the rendezvous says.
  TcpCarrier(TcpMesh& mesh, Board& board, Duration deadline, std::vector<std::uint64_t> hosts);
  /// Every now and then, more often than kEvery; for WatchOptions::look.
  void look(Instant now);

 private:
  /// A host that this one speaks with; by it those from `low` to `high` are reached, by number, or
  /// all others.
  struct Neighbour {
    int host;
    int low, high;
    bool within;
  };
  [[nodiscard]] bool speaks(Instant now);
  void hear(Instant now);
  void take_turn();
  void tell(Instant now, const Neighbour& to);
  [[nodiscard]] std::optional<Rank> running(int host, Instant now) const;
  [[nodiscard]] std::set<int> reached_by(int host, Instant now);
  [[nodiscard]] std::optional<Progress> known(Rank rank) const;

  TcpMesh& mesh_;
  Board& board_;
  std::vector<std::vector<Rank>> hosts_;  // in the order of their lowest ranks
  std::vector<int> host_of_;              // by rank
  std::vector<std::uint64_t> ids_;        // of their hosts, by rank
  int own_ = 0;
  std::vector<Neighbour> neighbours_;
  Duration every_, deadline_, silence_{kSilence};
  std::optional<Instant> looked_, spoke_;
  bool turn_ = false;                       // this one speaks
  Instant not_before_{0};                   // it speaks
  std::map<std::int32_t, Progress> heard_;  // with times of this host
  std::map<int, Instant> told_;             // hosts, since when
};

}  // namespace lockstep::collectives
