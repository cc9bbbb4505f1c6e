// The lines of one process, as programs use them: an operation is issued after issue() has said so,
// and a wait looks from time to time whether it can still end.
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

/// For how long ranks must be seen unable to go on before it is said; for longer where the lowest
/// of them is on another host, which says it first.
inline constexpr Duration kProof = std::chrono::milliseconds(300),
                          kProofElsewhere = std::chrono::milliseconds(800);

/// Of so many pairs of places where equal operations were issued it is told.
inline constexpr std::size_t kMostApart = 1000;

/// Of an operation: who of those that it needs has issued it.
enum class Arrival : std::uint8_t {
  NotYet,
  All,   // as far as they are seen
  Here,  // all of this host; of others it is heard with a lag
};

/// Thread-safe.
class Lines {
 public:
  /// Errors: Environment.
  [[nodiscard]] static Result<std::unique_ptr<Lines>> open(Rank self);
  [[nodiscard]] SharedPosts& posts() { return *posts_; }
  [[nodiscard]] Rank self() const { return self_; }

  /// After SharedPosts::join(): the lowest rank of this host, to be told to all. That one makes
  /// room for what other hosts tell. Errors: Environment (no memory).
  [[nodiscard]] Result<Rank> head();
  /// `heads`: what head() has said on each rank, -1 for one that takes no part. Ranks of other
  /// hosts are seen from here on. Collective over the heads, who meet as `options` say. Errors:
  /// those of tcp_rendezvous().
  [[nodiscard]] Result<void> meet(const std::vector<std::int32_t>& heads,
                                  const collectives::TcpOptions& options);
  /// As SharedPosts::finish() and gone(); other hosts hear of it before this returns, if they can.
  /// Errors: GraphDivergence (an operation that this rank has issued was refused since, and nothing
  /// has told it so).
  [[nodiscard]] Result<void> finish();
  void gone(std::string_view text);
  /// No notes go from here any more.
  void leave() { carrier_thread_.reset(); }

  /// A number for `group`; the same where its key is known.
  [[nodiscard]] int group(Group group);
  [[nodiscard]] bool has_group(int number);
  /// Whether this rank may issue `operation` now. It waits for nobody. The number of the entry,
  /// from 0. Errors: GraphDivergence, Stuck, Gone, RankLost (the group is dead), Environment.
  [[nodiscard]] Result<std::uint64_t> issue(int group, const Operation& operation);
  /// The last one has been handed to its transport.
  void issued(int group);

  /// Whether an operation that was issued can still complete, though perhaps nobody waits in it:
  /// all that it needs are there, or have issued it. Errors: those of a dead group, which it is
  /// from then on.
  [[nodiscard]] Result<void> in_flight(int group, std::uint64_t number, Instant now);

  /// Of operations that were issued, and equal, but at other places of the program: how many pairs
  /// of places have been met. Never an error.
  [[nodiscard]] std::uint64_t apart() const { return apart_count_; }
  /// The `number`-th of them, from 1, as a sentence, which stays; null: there is none.
  [[nodiscard]] const std::string* apart_text(std::uint64_t number) const;

  /// Whether all whose part it needs have issued it too, as far as they are seen.
  [[nodiscard]] Arrival arrived(int group, std::uint64_t number);

  /// Tells peers something that is compared with nothing, about what `key` stands for. Errors:
  /// Environment.
  [[nodiscard]] Result<void> tell(LineKey key, const Operation& what);
  struct Told {
    std::uint64_t times = 0;  // that it has told something about `key`
    Entry entry;
    EntryTexts texts;
  };
  /// What a rank has told the `number`-th time, from 1; of 0, and what is not kept or not seen, only
  /// how often it has told something.
  [[nodiscard]] Told told_by(Rank rank, LineKey key, std::uint64_t number) const;

  /// A rank that others wait for that long, and that is not known to move on, is named. Without it,
  /// none is.
  void deadline(Duration deadline) { deadline_ = deadline; }

  /// A wait for entry `number` of a group.
  struct Wait {
    int group = 0;
    int slot = -1;
    BlockedSeen seen;
    Waiting in{};
    Instant begin{};
  };
  [[nodiscard]] Wait begin_wait(int group, std::uint64_t number, Instant now);
  /// Whether it can still end; to be asked every 20 ms or so. Errors: those of issue(), which all
  /// who wait in the group have from then on.
  [[nodiscard]] Result<void> look(Wait& wait, Instant now);
  void end_wait(Wait& wait);

 private:
  explicit Lines(Rank self, std::unique_ptr<SharedPosts> posts);
  /// A group, and the one thread at a time that posts on it.
  struct Issuing {
    explicit Issuing(Group of) : group(std::move(of)) {}
    const Group group;
    std::atomic<bool> is_told{false};  // to this rank: the group's refusal
    std::mutex issuing;                // guards what follows, and the line's end
    LineId line;
  };
  [[nodiscard]] Issuing& at(int group);
  /// `result`; where it is an error, this rank knows now.
  template <class R>
  [[nodiscard]] static R heard(Issuing& on, R result);
  [[nodiscard]] Result<void> look_again(Wait& wait, Instant now);
  [[nodiscard]] std::string waits_text(const Blocked& blocked, Instant now) const;
  /// Whether this rank is to say that these cannot go on.
  [[nodiscard]] bool says_so(const BlockedSeen& seen, Instant now) const;
  [[nodiscard]] Status verdict(const std::vector<Blocked>& blocked, Instant now) const;

  void tell_apart(const Group& group, const Issued& issued);

  /// Whether a rank that does not move on holds up `wait` for longer than the deadline.
  [[nodiscard]] Result<void> look_for_silent(const Wait& wait, Instant now);

  Rank self_;
  std::atomic<Duration> deadline_{Duration{}};
  std::shared_ptr<SharedPosts> posts_;  // threads that have issued look whether it is still there
  Issuer issuer_;
  std::unique_ptr<Carrier> carrier_;  // on a head, until it meets the others
  std::unique_ptr<CarrierThread> carrier_thread_;
  std::atomic<std::uint64_t> apart_count_{0};
  mutable std::mutex telling_;  // guards what follows; sentences stay where they are
  std::set<std::pair<std::uint64_t, std::uint64_t>> apart_sites_;
  std::deque<std::string> apart_;
  std::mutex grouping_;  // guards what follows; groups stay where they are
  std::deque<Issuing> groups_;
};

}  // namespace lockstep::lines
