// The mirror of a rank of another host, written from notes: a memory like the rank's own, which the
// ranks of this host read. Used by carrier.cpp alone.
#pragma once

#include <functional>
#include <string>

#include <lockstep/collectives/lines/issuer.h>
#include <lockstep/collectives/lines/note.h>
#include <lockstep/collectives/lines/own_posts.h>

namespace lockstep::lines {

/// The mirror of one rank. Used by one thread.
class Mirror {
 public:
  /// `is_here` says whether a rank is on this host. Errors: Environment (no memory).
  using IsHere = std::function<bool(Rank)>;
  [[nodiscard]] static Result<std::unique_ptr<Mirror>> create(Rank rank, IsHere is_here);
  [[nodiscard]] std::string place() const { return posts_.memory().place(); }

  /// Writes what `note` says about the rank. Calls `came` for each entry, once this host's ranks
  /// can read it, with a group that is prepared for Issuer::arrived(). False: no correct rank posts
  /// this.
  using Came = std::function<void(const Group& group, const Issued& issued)>;
  [[nodiscard]] bool write(const RankNote& note, Instant now, const Came& came);
  /// Frees entries of the line below `number`: call it when no rank of this host needs them.
  void trim(LineId line, std::uint64_t number) { posts_.trim(line, number); }
  [[nodiscard]] std::uint64_t value_bytes(LineId line) const { return posts_.value_bytes(line); }
  /// Records that the mirror holds all that the rank had posted when its host received this host's
  /// note `mark`.
  void heard(std::uint64_t mark, Instant now);
  /// Ends the mirror, since nothing more arrives: sets `state`, unless the rank has ended already.
  void end(PeerState state);

 private:
  Mirror(Rank rank, IsHere is_here, PostsMemory memory)
      : rank_(rank), is_here_(std::move(is_here)), posts_(std::move(memory)) {}
  [[nodiscard]] bool open(const RankNote& note);
  [[nodiscard]] bool post(const RankNote::Came& came, const Came& then);
  void stand(const RankNote::Standing& now, Instant at);

  Rank rank_;
  IsHere is_here_;
  OwnPosts posts_;
  std::vector<Group> groups_;  // by line
};

}  // namespace lockstep::lines
