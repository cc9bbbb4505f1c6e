// Carries the progress board between the hosts of a job over TCP, along a tree of hosts. Used by
// the job's watchdog.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include <lockstep/collectives/base/board.h>
#include <lockstep/collectives/tcp/tcp_message.h>

namespace lockstep::collectives {

class TcpMesh;

/// One rank's part in carrying the board. The speaker of a host is its lowest rank that is not
/// suspended. It exchanges progress with the speakers of at most three other hosts, its neighbours
/// in the tree. It sends each the progress of all ranks that are not on that neighbour's side, and
/// writes what it receives onto the board of its host. A host without a rank that is known to run
/// is skipped: its neighbours send to each other. Does nothing in a job of one host. Used by one
/// thread.
class TcpCarrier {
 public:
  /// Period at which a rank notes on its host's board that it is not suspended.
  static constexpr std::chrono::milliseconds kEvery{200};
  /// Period at which a speaker sends: kEvery, and longer in jobs of more than 2,000 ranks, so that
  /// a neighbour receives the progress of at most 10,000 ranks a second.
  [[nodiscard]] static Duration every(int ranks);
  /// If the speaker has not noted for this long that it is not suspended, the next rank of the host
  /// becomes the speaker.
  static constexpr std::chrono::milliseconds kTakesOver{900};
  /// Time without news after which a rank of another host no longer counts as waiting; twice
  /// every() is added for each host on the longest way between two hosts.
  static constexpr std::chrono::milliseconds kSilence{2500};

  /// `mesh` and `board` must outlive the object. `deadline` is that of watched waits. The lease of
  /// a silent rank of another host ends at most `deadline` after the rank counts as silent, because
  /// news of the rank's end may have been lost.
  TcpCarrier(TcpMesh& mesh, Board& board, Duration deadline);
  /// `hosts` are the host ids by rank; the first constructor uses those of the rendezvous.
  TcpCarrier(TcpMesh& mesh, Board& board, Duration deadline, std::vector<std::uint64_t> hosts);
  /// For WatchOptions::look. To be called more often than every kEvery.
  void look(Instant now);

 private:
  /// A host with which this host exchanges progress. If `within`, the hosts `low` to `high` are
  /// reached through it, else all hosts except these.
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
  [[nodiscard]] std::optional<RankProgress> known(Rank rank) const;

  TcpMesh& mesh_;
  Board& board_;
  std::vector<std::vector<Rank>> hosts_;  // in the order of their lowest ranks
  std::vector<int> host_of_;              // by rank
  std::vector<std::uint64_t> ids_;        // host ids, by rank
  int own_ = 0;
  std::vector<Neighbour> neighbours_;
  Duration every_, deadline_, silence_{kSilence};
  std::optional<Instant> looked_, spoke_;
  bool turn_ = false;                           // this rank is the speaker
  Instant not_before_{0};                       // earliest time at which this rank may speak
  std::map<std::int32_t, RankProgress> heard_;  // by rank of another host, in this host's time
  std::map<int, Instant> told_;                 // by destination: when it was last known to run
};

}  // namespace lockstep::collectives
