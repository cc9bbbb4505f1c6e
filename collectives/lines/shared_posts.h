// Posts in memory that the processes of a host share: each process has one memory without a name,
// which its peers open through /proc.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/lines/posts.h>
#include <lockstep/collectives/lines/wait_ring.h>

namespace lockstep::lines {

class OwnPosts;
class PeerPosts;
class PostsMemory;
struct LineSlot;
struct PostsHeader;
struct RefusalSlot;

/// Maximum number of lines of one process: groups, and pairs with their tags.
inline constexpr std::uint32_t kMostLines = 4096;
/// Maximum number of entries by which a rank may lead members that have not issued them.
inline constexpr std::uint64_t kMostLead = 500'000'000;
/// If nothing has arrived from a rank of another host for this long, what is known of this rank
/// proves nothing.
inline constexpr Duration kSilence = std::chrono::milliseconds(2500);
/// Maximum number of threads of one process that wait at a time; further waits are not seen.
inline constexpr std::size_t kMostWaits = 64;

/// Thread-safe. The posts end with the object, or with the process.
class SharedPosts final : public Posts {
 public:
  /// Makes the memory of this process. Errors: Environment (no memory, a limit on the size of
  /// files).
  [[nodiscard]] static Result<std::unique_ptr<SharedPosts>> create(Rank self);
  ~SharedPosts() override;

  /// The text by which peers open this process's memory, to be sent to each of them.
  [[nodiscard]] std::string place() const;
  /// Opens the memory of the other ranks by their places, in rank order; called once, before
  /// anything is posted. Ranks of other hosts, and ranks whose memory this process may not read,
  /// are unseen.
  void join(const std::vector<std::string>& places);
  /// Ranks whose posts can be read, including this rank.
  [[nodiscard]] std::vector<Rank> seen() const;
  /// Ranks with posts that cannot be read from here.
  [[nodiscard]] std::vector<Rank> unseen() const;
  /// The lowest rank of this host.
  [[nodiscard]] Rank head() const { return head_; }
  /// Whether a rank is on this host, so that its own memory is read.
  [[nodiscard]] bool is_here(Rank rank) const override;

  /// On the head: publishes the places of its mirrors, by rank, to the ranks of this host.
  void publish_mirrors(const std::map<Rank, std::string>& places);
  /// Opens the mirrors that the head has published. Called once, before anything is posted. Errors:
  /// Environment (not all can be opened).
  [[nodiscard]] Result<void> open_mirrors();
  /// The last mark of this host; 0: the host sends no notes.
  [[nodiscard]] std::uint64_t marks() const;
  /// Waits until the other hosts have what was posted before this call, or notes have ended, at
  /// most `patience`.
  void wait_until_told(Duration patience) const;
  /// The memory that holds the posts of a rank; this process's own for an unseen rank. Used by
  /// carrier.cpp, too.
  [[nodiscard]] const PostsMemory& memory_of(Rank rank) const;

  [[nodiscard]] Result<LineId> open(const Group& group) override;
  [[nodiscard]] std::uint64_t count(LineId line) const override;
  [[nodiscard]] Result<void> post(LineId line, const Entry& entry) override;
  void handed(LineId line) override;
  void trim(LineId line, std::uint64_t number) override;
  [[nodiscard]] TextId text(std::string_view text) override;
  [[nodiscard]] PeerState state(Rank peer) const override;
  [[nodiscard]] std::string gone_text(Rank peer) const override;
  [[nodiscard]] std::uint64_t count(Rank peer, LineKey key) const override;
  [[nodiscard]] std::optional<Entry> entry(Rank peer, LineKey key,
                                           std::uint64_t number) const override;
  [[nodiscard]] EntryTexts texts(Rank peer, const Posted& posted) const override;
  [[nodiscard]] std::optional<Status> refusal(LineKey key) const override;
  [[nodiscard]] Status refuse(LineKey key, const Status& status) override;

  /// On a head: returns the refusals of this host whose slots are not in `told`, and adds their
  /// slots to `told`.
  [[nodiscard]] std::vector<std::pair<LineKey, Status>> refusals(std::set<std::size_t>& told) const;
  /// On a head: as refuse(), with the status of another host.
  void refused_elsewhere(LineKey key, const Status& status);
  /// On a head: raises the mark for the next note, and returns it.
  std::uint64_t next_mark();
  /// On a head: sets the last mark that all other hosts have; ~0: notes have ended.
  void all_have(std::uint64_t mark);

  /// Declares that this process issues nothing more.
  void finish();
  /// Declares that this process ends by a failure. If called again, keeps the first text.
  void gone(std::string_view text);

  /// Posts a thread's wait; returns the number of the wait, for end_wait(). -1: kMostWaits threads
  /// wait already.
  [[nodiscard]] int begin_wait(const Waiting& wait, Instant now);
  void end_wait(int number);
  /// Counts a thread that issues: it has begun (1) or ended (-1).
  void issuing_threads(int change);
  /// Declares whether the program has threads that have never issued anything.
  void has_other_threads(bool are_there);
  /// Declares that this process receives from any source from now on. Then peers cannot see whether
  /// it has received a send.
  void take_from_any();
  /// Declares that this process moves on until `until`, unless an earlier call named a later time.
  void alive_until(Instant until);
  /// What `ranks` are doing, what the ranks that they wait for are doing, and so on, as far as
  /// these can be read. Lists, for each wait, the needed ranks that have not handed the operation
  /// to their transport (see handed()). `in_full`: also lists the ranks that each rank is ahead of,
  /// and what they are doing.
  [[nodiscard]] WaitMoment moment(Instant now, std::vector<Rank> ranks, bool in_full = false) const;
  /// The ranks whose part `rank` needs in the entry of `wait`, as far as that can be seen. Empty if
  /// `rank` has not posted the entry.
  [[nodiscard]] std::vector<Rank> needed_by(Rank rank, const Waiting& wait) const;
  [[nodiscard]] WaitMoment::Counts counts_of(Rank rank, LineKey key) const;

  /// The name that `rank` has given to a line.
  [[nodiscard]] std::string name_of(Rank rank, LineKey key) const;

  /// Bytes of memory that this process's lines hold.
  [[nodiscard]] std::uint64_t held_bytes() const;

 private:
  explicit SharedPosts(Rank self);
  [[nodiscard]] PeerPosts* peer(Rank rank) const;
  [[nodiscard]] const LineSlot* slot_of(Rank rank, LineKey key) const;
  using Members = std::shared_ptr<const std::vector<Rank>>;
  /// The members of a line that `rank` has opened.
  [[nodiscard]] Members members_of(Rank rank, LineKey key) const;
  [[nodiscard]] bool is_seen(Rank rank) const { return rank == self_ || peer(rank) != nullptr; }
  [[nodiscard]] bool takes_from_any(Rank rank) const;
  [[nodiscard]] RankWaits waits_of(Rank rank) const;
  Status claim(LineKey key, const Status& status, bool elsewhere);
  [[nodiscard]] std::vector<Rank> ahead_of(Rank rank) const;
  [[nodiscard]] PostsHeader& host_header() const;
  [[nodiscard]] Status said_in(const RefusalSlot& slot) const;

  Rank self_, head_;
  std::unique_ptr<OwnPosts> own_;
  std::vector<std::unique_ptr<PeerPosts>> peers_;  // by rank; null: unseen
  std::vector<bool> mirrored_;                     // by rank: whether a mirror holds its posts
  std::vector<Rank> unseen_;
  mutable std::mutex listing_;  // guards the members below
  mutable std::map<LineKey, Members> members_;
};

}  // namespace lockstep::lines
