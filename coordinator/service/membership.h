// The members of one job: which ranks have joined, from which host, as which process, and over
// which connection. No sockets and no clock: `now` is a parameter.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/coordinator/messages/slot_report.h>

namespace lockstep::coordinator {

/// The id of one connection to the coordinator; never used twice.
enum class ConnectionId : std::uint64_t {};

/// One rank that has joined at least once.
struct Member {
  Identity identity;
  std::optional<ConnectionId> connection;  // nullopt: closed
  Instant joined{0};                       // when this incarnation joined
  Instant heard{0};                        // time of the last message, or of the connection's end
  int restarts = 0;                        // number of earlier incarnations
  bool finished = false;
};

/// The ranks of one job. Single-threaded.
///
/// A rank that joins again as the same incarnation has reconnected; its new connection replaces the
/// earlier one. Another incarnation is a restarted process, and is accepted only once the earlier
/// process is gone: two live processes of one rank are an error of the launcher.
class Membership {
 public:
  /// Takes size, build and deadline of the job from the first rank.
  explicit Membership(const Identity& first);

  struct Admission {
    bool restarted = false;
    std::optional<ConnectionId> replaced;  // an earlier connection of the rank, to be closed
  };
  /// `silent_after` is the silence after which an earlier incarnation counts as gone. Requires that
  /// the identity's rank is from 0 to size-1. Errors: Version (the build or world size is not that
  /// of the members, and the message names both; or another live process has this rank).
  [[nodiscard]] Result<Admission> join(const Identity& identity, ConnectionId connection,
                                       Instant now, Duration silent_after);
  void heard(Rank rank, bool finished, Instant now);
  /// No effect if the rank now has another connection.
  void closed(Rank rank, ConnectionId connection, Instant now);

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] const std::string& build() const { return build_; }
  [[nodiscard]] Duration deadline() const { return deadline_; }
  /// True if the job's ranks are on more than one host.
  [[nodiscard]] bool several_hosts() const { return several_hosts_; }
  /// The member of a rank; nullptr: the rank has never joined.
  [[nodiscard]] const Member* member(Rank rank) const {
    return members_[static_cast<std::size_t>(rank.value)].get();
  }
  /// True if the process with this identity has joined before.
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
