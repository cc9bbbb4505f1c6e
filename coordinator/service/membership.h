// The members of one job: which ranks have joined, from which host, as which process, and over
// which connection. No sockets and no clock: `now` is handed in.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/coordinator/speech/slot_report.h>

namespace lockstep::coordinator {

/// One connection to the coordinator; never used twice.
enum class ConnectionId : std::uint64_t {};

/// One rank that has joined at least once.
struct Member {
  Identity identity;
  std::optional<ConnectionId> connection;  // nullopt: closed
  Instant joined{0};                       // this incarnation
  Instant heard{0};                        // last message, or the moment the connection closed
  int restarts = 0;                        // incarnations before this one
  bool finished = false;
};

/// The ranks of one job. One thread.
///
/// A rank that joins again as the same incarnation has reconnected; its new connection replaces the
/// earlier one. Another incarnation is a restarted process, and is accepted only once the earlier
/// one is gone: two live processes that both say they are rank 3 are an error of the launcher.
class Membership {
 public:
  /// Size, build and deadline are those of the first rank.
  explicit Membership(const Identity& first);

  struct Admission {
    bool restarted = false;
    std::optional<ConnectionId> replaced;  // to be closed
  };
  /// `silent_after`: silence after which an earlier incarnation counts as gone. Requires 0
  /// <= rank < size of the identity. Errors: Version (another build or world size than the members,
  /// whom the message names; another live process is this rank).
  [[nodiscard]] Result<Admission> join(const Identity& identity, ConnectionId connection,
                                       Instant now, Duration silent_after);
  void heard(Rank rank, bool finished, Instant now);
  /// No effect if the rank has another connection by now.
  void closed(Rank rank, ConnectionId connection, Instant now);

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const std::string& build() const { return build_; }
  [[nodiscard]] Duration deadline() const { return deadline_; }
  /// True if its ranks are on more than one host.
  [[nodiscard]] bool several_hosts() const { return several_hosts_; }
  /// nullptr: it has never joined.
  [[nodiscard]] const Member* member(Rank rank) const {
    return members_[static_cast<std::size_t>(rank.value)].get();
  }
  /// True if this very process has joined before.
  [[nodiscard]] bool knows(const Identity& identity) const;
  /// Ranks that are connected and have not finished.
  [[nodiscard]] RankSet live() const;
  [[nodiscard]] bool anyone_live() const { return live_ > 0; }
  [[nodiscard]] RankSet finished() const;
  [[nodiscard]] RankSet absent() const;
  /// "ranks 3,8-15 (host a: 3; host b: 8-15)"; without hosts if none of these ranks has joined.
  [[nodiscard]] std::string text(const RankSet& ranks) const;

 private:
  [[nodiscard]] std::optional<Status> objection(const Identity& identity, Instant now,
                                                Duration silent_after) const;
  int size_;
  std::string build_;
  Duration deadline_;
  std::uint64_t first_host_;
  bool several_hosts_ = false;
  int live_ = 0;
  std::vector<std::unique_ptr<Member>> members_;  // by rank
};

/// "absent" (nullptr), "finished", "connected" or "closed".
[[nodiscard]] std::string_view link_name(const Member* member);

}  // namespace lockstep::coordinator
