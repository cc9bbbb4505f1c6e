// The lines of one process, as programs use them: issue() before each operation, and look() from
// time to time in a wait, to see whether it can still end.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/lines/carrier_thread.h>
#include <lockstep/collectives/lines/issuer.h>
#include <lockstep/collectives/lines/shared_posts.h>

namespace lockstep::lines {

/// Time for which ranks must be seen unable to go on before that is reported; longer if the lowest
/// of them is on another host, which reports it first.
inline constexpr Duration kProof = std::chrono::milliseconds(300),
                          kProofElsewhere = std::chrono::milliseconds(800);

/// Maximum number of reports of equal operations that ranks issue at different places.
inline constexpr std::size_t kMostApart = 1000;

/// Which of the ranks that an operation needs have issued it.
enum class Arrival : std::uint8_t {
  NotYet,
  All,   // all that are seen
  Here,  // all of this host; entries of other hosts arrive with a lag
};

/// Thread-safe.
class Lines {
 public:
  /// Errors: Environment.
  [[nodiscard]] static Result<std::unique_ptr<Lines>> open(Rank self);
  [[nodiscard]] SharedPosts& posts() { return *posts_; }
  [[nodiscard]] Rank self() const { return self_; }

  /// Returns the lowest rank of this host, to be sent to all ranks. Call after SharedPosts::join().
  /// On that rank it makes the mirrors of other hosts' ranks. Errors: Environment (no memory).
  [[nodiscard]] Result<Rank> head();
  /// `heads`: the result of head() on each rank, -1 for a rank that takes no part. Ranks of other
  /// hosts are seen from here on. Collective over the heads, which connect as `options` say.
  /// Errors: those of tcp_rendezvous().
  [[nodiscard]] Result<void> meet(const std::vector<std::int32_t>& heads,
                                  const collectives::TcpOptions& options);
  /// As SharedPosts::finish() and gone(); then waits a short time until the other hosts know that
  /// this rank has ended. Errors: GraphDivergence (an operation that this rank issued was refused
  /// later, and no call has returned that yet).
  [[nodiscard]] Result<void> finish();
  void gone(std::string_view text);
  /// On a head: ends this host's exchange of notes with other hosts.
  void leave() { carrier_thread_.reset(); }

  /// Returns the number of `group`; groups with the same key have the same number.
  [[nodiscard]] int group(Group group);
  [[nodiscard]] bool has_group(int number);
  /// Posts `operation` and returns the number of its entry, from 0, if this rank may issue it now.
  /// Never waits. Errors: GraphDivergence, Stuck, Gone, RankLost (the group is dead), Environment.
  [[nodiscard]] Result<std::uint64_t> issue(int group, const Operation& operation);
  /// The last operation of the group has been handed to its transport.
  void issued(int group);

  /// Success if an issued operation can still complete, even if no thread waits for it. It cannot
  /// if a rank that it needs has ended without handing it to its transport. Errors: those of a dead
  /// group; after an error the group is dead.
  [[nodiscard]] Result<void> in_flight(int group, std::uint64_t number, Instant now);

  /// Number of reports of equal operations that ranks issued at different places of the program,
  /// one per pair of places. Never an error.
  [[nodiscard]] std::uint64_t apart() const { return apart_count_; }
  /// Text of report `number` of apart(), from 1; null: there is none. The text lives as long as
  /// this object.
  [[nodiscard]] const std::string* apart_text(std::uint64_t number) const;

  /// Whether the ranks that the operation needs have issued it, too, as far as they are seen.
  [[nodiscard]] Arrival arrived(int group, std::uint64_t number);

  /// Posts something about `key` that peers can read and that is compared with nothing. Errors:
  /// Environment.
  [[nodiscard]] Result<void> tell(LineKey key, const Operation& what);
  struct Told {
    std::uint64_t times = 0;  // that the rank has called tell() for `key`
    Entry entry;
    EntryTexts texts;
  };
  /// What a rank gave to its `number`-th tell(), from 1. Only `times` is set if `number` is 0 or if
  /// the entry is not kept or not seen.
  [[nodiscard]] Told told_by(Rank rank, LineKey key, std::uint64_t number) const;

  /// Time after which a rank that others wait for is named, unless it is known to move on. Without
  /// a deadline no rank is named.
  void deadline(Duration deadline) { deadline_ = deadline; }

  /// A wait for an entry of a group, from begin_wait() to end_wait().
  struct Wait {
    int group = 0;
    int slot = -1;
    BlockedSeen seen;
    Waiting in{};
    Instant begin{};
  };
  [[nodiscard]] Wait begin_wait(int group, std::uint64_t number, Instant now);
  /// Success while the wait can still end; to be called every 20 ms or so. Errors: those of
  /// issue(), which all waits in the group get from then on.
  [[nodiscard]] Result<void> look(Wait& wait, Instant now);
  void end_wait(Wait& wait);

 private:
  explicit Lines(Rank self, std::unique_ptr<SharedPosts> posts);
  /// A group, with the lock under which one thread at a time posts on it.
  struct Issuing {
    explicit Issuing(Group of) : group(std::move(of)) {}
    const Group group;
    std::atomic<bool> is_told{false};  // this rank knows the group's refusal
    std::mutex issuing;                // guards `line`, and posting on it
    LineId line;
  };
  [[nodiscard]] Issuing& at(int group);
  /// Returns `result`; after an error this rank knows the group's refusal.
  template <class R>
  [[nodiscard]] static R heard(Issuing& on, R result);
  [[nodiscard]] Result<void> look_again(Wait& wait, Instant now);
  [[nodiscard]] std::string waits_text(const Blocked& blocked, Instant now) const;
  /// Whether this rank reports now that these ranks cannot go on.
  [[nodiscard]] bool says_so(const BlockedSeen& seen, Instant now) const;
  [[nodiscard]] Status verdict(const std::vector<Blocked>& blocked, Instant now) const;

  void tell_apart(const Group& group, const Issued& issued);

  /// Stuck if a rank that does not move on holds up `wait` for longer than the deadline.
  [[nodiscard]] Result<void> look_for_silent(const Wait& wait, Instant now);

  Rank self_;
  std::atomic<Duration> deadline_{Duration{}};
  std::shared_ptr<SharedPosts> posts_;  // threads that issue hold weak pointers
  Issuer issuer_;
  std::unique_ptr<Carrier> carrier_;  // on a head, until meet()
  std::unique_ptr<CarrierThread> carrier_thread_;
  std::atomic<std::uint64_t> apart_count_{0};
  mutable std::mutex telling_;  // guards the members below; sentences keep their address
  std::set<std::pair<std::uint64_t, std::uint64_t>> apart_sites_;
  std::deque<std::string> apart_;
  std::mutex grouping_;  // guards the members below; groups keep their address
  std::deque<Issuing> groups_;
};

}  // namespace lockstep::lines
