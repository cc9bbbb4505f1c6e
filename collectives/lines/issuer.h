// The issuer: decides for each operation whether its rank may issue it, from what peers have
// posted. It never waits. Pure: memory is behind Posts, and there is no clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/lines/posts.h>

namespace lockstep::lines {

/// A member that issues an equal operation at another place of the program.
struct Elsewhere {
  int member = 0;
  std::uint64_t site = 0;
};

/// An operation whose entry has been posted.
struct Issued {
  LineId line;
  std::uint64_t number = 0;
  Entry entry;
  std::optional<Elsewhere> elsewhere{};  // the first member found at another place
};

/// Number of entries between two trims of a line.
inline constexpr std::uint64_t kTrimEvery = 4096;
/// A rank compares entries that must be equal on all members with this many neighbours on each side
/// in the ring of its group, on any host.
inline constexpr int kNear = 8;

/// The issuer of one process. Used by one thread at a time for each group.
class Issuer {
 public:
  explicit Issuer(Posts& posts, int near = kNear) : posts_(posts), near_(near) {}

  /// Sets `group.compared`, once for a group: the members with which `group.self` compares entries
  /// that must be equal on all members. These are the members on this host and the nearest in the
  /// ring of the group. If any two members differ, so do two that compare with each other.
  void prepare(Group& group) const;

  /// Calls post() and check(). Errors: theirs; GraphDivergence means that the operation must not be
  /// issued.
  [[nodiscard]] Result<Issued> issue(const Group& group, const Operation& operation);

  /// Posts the entry: from here on peers compare with it. Errors: GraphDivergence (the group has a
  /// refusal), Environment.
  [[nodiscard]] Result<Issued> post(const Group& group, const Operation& operation);
  /// Compares the entry with the other members' entries of its number: those of `group.compared`,
  /// or all if the entry has values for single members. Sets `elsewhere` to the first equal
  /// operation at another place. Errors: GraphDivergence, with the message of the first rank that
  /// refused.
  [[nodiscard]] Result<void> check(const Group& group, const Issued& issued,
                                   std::optional<Elsewhere>* elsewhere = nullptr);
  /// Compares an entry of `group.self`, a rank of another host, with those of `group.compared`,
  /// ranks of this host. Refuses the group if they differ.
  void arrived(const Group& group, const Issued& issued);

  /// Returns the group's refusal as an error, else success. Waiting ranks call it, too.
  [[nodiscard]] Result<void> still_alive(const Group& group) const;

  /// "rank 0: all_reduce sum f32[5] at train.py:41; rank 1: …": the members' entries of this
  /// number, with the splits between `group.self` and `other`.
  [[nodiscard]] std::string rows(const Group& group, const Issued& issued, int other) const;

 private:
  [[nodiscard]] Result<void> check_with(const Group& group, const Issued& issued,
                                        const std::vector<int>& members,
                                        std::optional<Elsewhere>* elsewhere);
  /// "; rank 2: nothing yet": members whose entry is not known here; empty if all are known.
  [[nodiscard]] std::string missing_text(const Group& group, const Issued& issued) const;
  void trim(const Group& group, const Issued& issued);
  [[nodiscard]] bool fits_with(const Group& group, const Issued& issued, int member,
                               std::optional<Elsewhere>* elsewhere) const;

  Posts& posts_;
  int near_;
};

}  // namespace lockstep::lines
