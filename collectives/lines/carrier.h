// Notes between hosts, without what carries them: what the head of a host tells, and what it does
// with what it hears. No thread, no connection, no clock.
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

/// Ranks elsewhere that a host hears of: for each, every rank of it keeps a file open.
inline constexpr int kMostElsewhere = 256;
/// A head that has nothing to tell says so that often.
inline constexpr Duration kAtLeastEvery = std::chrono::milliseconds(50);

/// Of `unseen`, the ranks of which the host of `head` hears, in a job of `ranks`.
[[nodiscard]] std::vector<Rank> heard_by(Rank head, const std::vector<Rank>& unseen, int ranks);

/// Of the head of a host. One thread. Outlived by the posts.
class Carrier {
 public:
  /// Makes the mirrors and publishes them: the ranks of this host may open them from here on.
  /// Errors: Environment (no memory).
  [[nodiscard]] static Result<std::unique_ptr<Carrier>> create(SharedPosts& posts, int ranks);
  ~Carrier();
  /// `heads`: of each rank the lowest of its host, -1 where it takes no part. Before any note.
  void meet(const std::vector<std::int32_t>& heads);
  /// All heads, by rank.
  [[nodiscard]] const std::vector<Rank>& heads() const { return all_heads_; }
  /// Those with which notes are exchanged, by rank; by their place here they are named below.
  [[nodiscard]] const std::vector<Rank>& others() const { return others_; }

  /// The next note, the same for all others but for its marks; nullopt: there is nothing to tell
  /// yet.
  [[nodiscard]] std::optional<Bytes> next(Instant now);
  [[nodiscard]] Bytes to(std::size_t other, std::span<const std::byte> note) const;
  /// A note of another host has come. False: it is none, and nothing of that host is believed any
  /// more.
  [[nodiscard]] bool came(std::size_t other, std::span<const std::byte> note, Instant now);
  /// The mark of the last note, and the last that all others have shown to have.
  [[nodiscard]] std::uint64_t told() const { return mark_; }
  [[nodiscard]] std::uint64_t all_have() const;
  /// Nothing more comes from this host. `lost`: the process of its head has ended.
  void end(std::size_t other, bool lost);
  [[nodiscard]] bool is_over(std::size_t other) const { return heard_[other].is_over; }
  /// No more is told from here.
  void stop();

 private:
  Carrier(SharedPosts& posts, int ranks);
  [[nodiscard]] bool write(std::size_t other, const Note& note, Instant now);
  void carry(Rank rank, bool is_carried);
  void trim(Rank rank, const Group& group, const Issued& issued);

  struct Other {
    NoteReader reader;
    std::uint64_t heard = 0;   // its last mark
    std::uint64_t has = 0;     // the last of this host's that it had
    std::vector<Rank> behind;  // of whose entries more are to come
    std::vector<Rank> ranks;   // of its host, that have mirrors here
    bool is_over = false;
  };
  SharedPosts& posts_;
  Issuer issuer_;
  int ranks_;
  std::map<Rank, std::unique_ptr<Mirror>> mirrors_;
  std::map<std::pair<Rank, LineKey>, std::uint64_t> trimmed_at_;  // bytes of numbers
  std::vector<std::int32_t> heads_;                               // by rank
  std::vector<Rank> all_heads_, others_;
  std::vector<Other> heard_;  // by place in others_
  std::vector<Rank> here_;
  std::vector<std::unique_ptr<NoteSource>> sources_;  // by place in here_
  NoteWriter writer_;
  std::uint64_t mark_ = 0;  // of the note that next() has made
  std::set<std::size_t> refusals_told_;
  Instant told_at_{};
};

}  // namespace lockstep::lines
