// The lines of one process, as programs use them. A program calls issue() before each operation. In
// a wait it calls look() from time to time, which says whether the wait can still end.
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

/// Time for which ranks must be seen unable to go on before a rank reports it. kProofElsewhere
/// applies if the lowest of these ranks is on another host, so that its host reports first.
inline constexpr Duration kProof = std::chrono::milliseconds(300),
                          kProofElsewhere = std::chrono::milliseconds(800);

/// Maximum number of reports of equal operations that ranks issue at different places.
inline constexpr std::size_t kMostApart = 1000;

/// Which of the ranks that an operation needs have issued the operation.
enum class Arrival : std::uint8_t {
  NotYet,
  All,   // all ranks that are seen
  Here,  // all ranks of this host; entries of other hosts arrive with a lag
};

/// Thread-safe.
class Lines {
 public:
  /// Errors: Environment.
  [[nodiscard]] static Result<std::unique_ptr<Lines>> open(Rank self);
  [[nodiscard]] SharedPosts& posts() { return *posts_; }
  [[nodiscard]] Rank self() const { return self_; }

  /// Returns the lowest rank of this host, to be sent to all ranks. Call after SharedPosts::join().
  /// On the lowest rank it also makes the mirrors of ranks of other hosts. Errors: Environment (no
  /// memory).
  [[nodiscard]] Result<Rank> head();
  /// `heads`: the result of head() on each rank, -1 for a rank that takes no part. Ranks of other
  /// hosts are seen from here on. Collective over the heads, which connect as `options` say.
  /// Errors: those of tcp_rendezvous().
  [[nodiscard]] Result<void> meet(const std::vector<std::int32_t>& heads,
                                  const collectives::TcpOptions& options);
  /// Declare the end of this process, as SharedPosts::finish() and SharedPosts::gone() do. Then
  /// wait, at most 0.3 s, until the other hosts know that this rank has ended. Errors of finish():
  /// GraphDivergence (an operation that this rank issued was refused later, and no call has
  /// returned this error yet).
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
  /// Records that the last operation of the group has been handed to its transport.
  void issued(int group);

  /// Success if an issued operation can still complete, even if no thread waits for it. It cannot
  /// complete if a rank that it needs has ended without handing the operation to its transport.
  /// Errors: those of a dead group; after an error the group is dead.
  [[nodiscard]] Result<void> in_flight(int group, std::uint64_t number, Instant now);

  /// Number of reports of equal operations that ranks issued at different places of the program,
  /// one per pair of places. Never an error.
  [[nodiscard]] std::uint64_t apart() const { return apart_count_; }
  /// Text of report `number` of apart(), from 1; null: there is none. The text lives as long as
  /// this object.
  [[nodiscard]] const std::string* place_report_text(std::uint64_t number) const;

  /// Which of the ranks that the operation needs have issued it, too, as far as they are seen.
  [[nodiscard]] Arrival arrived(int group, std::uint64_t number);

  /// Posts `what` under `key`. Peers can read it; it is compared with nothing. Errors: Environment.
  [[nodiscard]] Result<void> tell(LineKey key, const Operation& what);
  struct Told {
    std::uint64_t times = 0;  // number of calls of tell() by the rank for `key`
    Entry entry;
    EntryTexts texts;
  };
  /// What a rank posted with its `number`-th tell(), from 1. Only `times` is set if `number` is 0
  /// or if the entry is not kept or not seen.
  [[nodiscard]] Told published_by(Rank rank, LineKey key, std::uint64_t number) const;

  /// Sets the time after which a rank that others wait for is named, unless it is known to move on.
  /// Without a deadline no rank is named.
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
    std::mutex issuing;                // guards `line` and posts on it
    LineId line;
  };
  [[nodiscard]] Issuing& at(int group);
  /// Returns `result`; if it is an error, notes that this rank knows the group's refusal.
  template <class R>
  [[nodiscard]] static R heard(Issuing& on, R result);
  [[nodiscard]] Result<void> look_again(Wait& wait, Instant now);
  [[nodiscard]] std::string waits_text(const Blocked& blocked, Instant now) const;
  /// Whether this rank now reports that the ranks of `seen` cannot go on.
  [[nodiscard]] bool is_proven(const BlockedSeen& seen, Instant now) const;
  [[nodiscard]] Status verdict(const std::vector<Blocked>& blocked, Instant now) const;

  void report_places(const Group& group, const Issued& issued);

  /// Fails with Stuck if a rank that does not move on holds up `wait` for longer than the deadline.
  [[nodiscard]] Result<void> look_for_silent(const Wait& wait, Instant now);

  Rank self_;
  std::atomic<Duration> deadline_{Duration{}};
  std::shared_ptr<SharedPosts> posts_;  // threads that issue hold weak pointers
  Issuer issuer_;
  std::unique_ptr<Carrier> carrier_;  // on a head, until meet()
  std::unique_ptr<CarrierThread> carrier_thread_;
  std::atomic<std::uint64_t> apart_count_{0};
  mutable std::mutex telling_;  // guards the members below; texts keep their address
  std::set<std::pair<std::uint64_t, std::uint64_t>> apart_sites_;
  std::deque<std::string> apart_;
  std::mutex grouping_;  // guards the members below; groups keep their address
  std::deque<Issuing> groups_;
};

}  // namespace lockstep::lines
