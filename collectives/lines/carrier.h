// Notes between hosts, without the transport: what a host's head sends, and what it does with what
// it receives. No thread, no connection, no clock.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/collectives/lines/issuer.h>
#include <lockstep/collectives/lines/note.h>
#include <lockstep/collectives/lines/shared_posts.h>

namespace lockstep::lines {

class Mirror;
class NoteSource;

/// Maximum number of ranks of other hosts whose posts a host receives: every rank of the host keeps
/// a file open for each.
inline constexpr int kMostElsewhere = 256;
/// Longest time between two notes: a head with nothing new sends an empty note.
inline constexpr Duration kAtLeastEvery = std::chrono::milliseconds(50);

/// Returns the ranks of `unseen` whose posts the host of `head` receives: those nearest to `head`
/// in the ring of the job's `ranks` ranks.
[[nodiscard]] std::vector<Rank> ranks_received_by(Rank head, const std::vector<Rank>& unseen,
                                                  int ranks);

/// Makes and reads the notes of a host's head. Used by one thread. `posts` must outlive it.
class Carrier {
 public:
  /// Makes the mirrors and publishes them: then the ranks of this host may open them. Errors:
  /// Environment (no memory).
  [[nodiscard]] static Result<std::unique_ptr<Carrier>> create(SharedPosts& posts, int ranks);
  ~Carrier();
  /// `heads`: for each rank the lowest rank of its host, -1 if it takes no part. Call before the
  /// first note.
  void meet(const std::vector<std::int32_t>& heads);
  /// All heads, in rank order.
  [[nodiscard]] const std::vector<Rank>& heads() const { return all_heads_; }
  /// Heads with which this head exchanges notes, in rank order. `other` below is an index into
  /// them.
  [[nodiscard]] const std::vector<Rank>& others() const { return others_; }

  /// Returns the next note, without marks; nullopt: there is nothing to send yet. to() adds the
  /// marks for one receiver.
  [[nodiscard]] std::optional<Bytes> next(Instant now);
  [[nodiscard]] Bytes to(std::size_t other, std::span<const std::byte> note) const;
  /// Takes in a note of another host. False: the note is malformed, and later notes of that host
  /// are ignored.
  [[nodiscard]] bool came(std::size_t other, std::span<const std::byte> note, Instant now);
  /// The mark of the last note that next() made, and the last mark that all others have
  /// acknowledged.
  [[nodiscard]] std::uint64_t told() const { return mark_; }
  [[nodiscard]] std::uint64_t all_have() const;
  /// Ends the notes of host `other`: nothing more arrives from it. `lost`: the process of its head
  /// has ended.
  void end(std::size_t other, bool lost);
  [[nodiscard]] bool is_over(std::size_t other) const { return heard_[other].is_over; }
  /// Ends the notes of this host.
  void stop();

 private:
  Carrier(SharedPosts& posts, int ranks);
  [[nodiscard]] bool write(std::size_t other, const Note& note, Instant now);
  void carry(Rank rank, bool notes_are_sent);
  void trim(Rank rank, const Group& group, const Issued& issued);

  struct Other {
    NoteReader reader;
    std::uint64_t heard = 0;   // mark of the last note from that host
    std::uint64_t has = 0;     // this host's last mark that the other host had received
    std::vector<Rank> behind;  // ranks with entries that the last note did not hold
    std::vector<Rank> ranks;   // ranks of the other host with mirrors here
    bool is_over = false;
  };
  SharedPosts& posts_;
  Issuer issuer_;
  int ranks_;
  std::map<Rank, std::unique_ptr<Mirror>> mirrors_;
  std::map<std::pair<Rank, LineKey>, std::uint64_t> trimmed_at_;  // bytes of values
  std::vector<std::int32_t> heads_;                               // by rank
  std::vector<Rank> all_heads_, others_;
  std::vector<Other> heard_;  // by place in others_
  std::vector<Rank> here_;
  std::vector<std::unique_ptr<NoteSource>> sources_;  // by place in here_
  NoteWriter writer_;
  std::uint64_t mark_ = 0;  // of the last note
  std::set<std::size_t> refusals_told_;
  Instant told_at_{};
};

}  // namespace lockstep::lines
