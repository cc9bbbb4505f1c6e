// Posts in memory that the processes of a host share: one memory without a name for each process,
// which its peers open by way of /proc.
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

/// Lines of one process: groups, and pairs with their tags.
inline constexpr std::uint32_t kMostLines = 4096;
/// By how many entries a rank may lead those that have not passed.
inline constexpr std::uint64_t kMostLead = 500'000'000;
/// A rank of another host that has not been heard of for so long is no evidence of anything.
inline constexpr Duration kSilence = std::chrono::milliseconds(2500);
/// Threads of one process that wait at a time; more are not seen.
inline constexpr std::size_t kMostWaits = 64;

/// Thread-safe. Ends with the process, or with the object.
class SharedPosts final : public Posts {
 public:
  /// The memory of this process. Errors: Environment (no memory, a limit on the size of files).
  [[nodiscard]] static Result<std::unique_ptr<SharedPosts>> create(Rank self);
  ~SharedPosts() override;

  /// What peers open it by; one word, to be told to each of them.
  [[nodiscard]] std::string place() const;
  /// Opens the memory of the other ranks by their places, by rank; called once, before anything is
  /// posted. Those of other hosts, and those that this process must not read, are unseen.
  void join(const std::vector<std::string>& places);
  /// Ranks that can be read, this one included.
  [[nodiscard]] std::vector<Rank> seen() const;
  /// Ranks that have posts elsewhere: they cannot be read.
  [[nodiscard]] std::vector<Rank> unseen() const;
  /// The lowest of this host.
  [[nodiscard]] Rank head() const { return head_; }
  /// Of this host: it can be read in its own memory.
  [[nodiscard]] bool is_here(Rank rank) const override;

  /// On the head: where the mirrors of ranks elsewhere are, by rank, for those of this host.
  void publish_mirrors(const std::map<Rank, std::string>& places);
  /// Opens the mirrors that the head has published; once, before anything is posted. Errors:
  /// Environment (not all can be opened).
  [[nodiscard]] Result<void> open_mirrors();
  /// The last mark that this host has sent; 0: no notes go from here.
  [[nodiscard]] std::uint64_t marks() const;
  /// Until other hosts have what has been posted before this call, or notes go no more, or
  /// `patience` is over.
  void wait_until_told(Duration patience) const;
  /// That of a rank of this host. Used by carrier.cpp.
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

  /// Of a head: refusals of this host that are not in `told`, by their places, and are in it then.
  [[nodiscard]] std::vector<std::pair<LineKey, Status>> refusals(std::set<std::size_t>& told) const;
  /// Of a head: as refuse(), in the words of another host.
  void refused_elsewhere(LineKey key, const Status& status);
  /// Of a head: the next note is about to be written; its mark.
  std::uint64_t next_mark();
  /// Of a head: what all other hosts have; ~0: no more is told.
  void all_have(std::uint64_t mark);

  /// This process issues nothing more.
  void finish();
  /// It ends by a failure. The first text stays.
  void gone(std::string_view text);

  /// A thread waits; the number is for end_wait(). -1: kMostWaits threads wait already.
  [[nodiscard]] int begin_wait(const Waiting& wait, Instant now);
  void end_wait(int number);
  /// A thread that issues has come (1) or ended (-1).
  void issuing_threads(int change);
  /// Whether the program has threads that have never issued anything.
  void threads_beside(bool are_there);
  /// It receives from any source from now on: whether it has come to a send is not seen.
  void take_from_any();
  /// This process moves on, as far as is known, until then; what it has said before holds.
  void alive_until(Instant until);
  /// What `ranks` are doing, and those for whom they wait, and so on, as far as they can be read:
  /// of whom a wait needs, those that have not issued it. `in_full`: also those that one is ahead
  /// of.
  [[nodiscard]] WaitMoment moment(Instant now, std::vector<Rank> ranks, bool in_full = false) const;
  /// Whose part `rank` needs in an entry that it has posted, as far as their coming is seen.
  [[nodiscard]] std::vector<Rank> needed_by(Rank rank, const Waiting& wait) const;
  [[nodiscard]] WaitMoment::Counts counts_of(Rank rank, LineKey key) const;

  /// The name of a line, as `rank` has given it.
  [[nodiscard]] std::string name_of(Rank rank, LineKey key) const;

  /// Bytes of memory that this process's lines hold.
  [[nodiscard]] std::uint64_t held_bytes() const;

 private:
  explicit SharedPosts(Rank self);
  [[nodiscard]] PeerPosts* peer(Rank rank) const;
  [[nodiscard]] const LineSlot* slot_of(Rank rank, LineKey key) const;
  using Members = std::shared_ptr<const std::vector<Rank>>;
  /// Of a line that `rank` has opened.
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
  std::vector<bool> mirrored_;                     // by rank: what is read of it is its mirror
  std::vector<Rank> unseen_;
  mutable std::mutex listing_;  // guards what follows
  mutable std::map<LineKey, Members> members_;
};

}  // namespace lockstep::lines
