// The issuer: says of each operation whether its rank may issue it, by what peers have posted. It
// waits for nobody. Pure: memory is behind Posts, and there is no clock.
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
  std::optional<Elsewhere> elsewhere{};  // the first that was compared
};

/// Entries between two looks at what may be given back.
inline constexpr std::uint64_t kTrimEvery = 4096;
/// To each side in a group, with how many members of other hosts an entry is compared that must be
/// equal on all.
inline constexpr int kNear = 8;

/// Of one process. One thread at a time for each group.
class Issuer {
 public:
  explicit Issuer(Posts& posts, int near = kNear) : posts_(posts), near_(near) {}

  /// Finds, once for a group, the members with which an entry of `group.self` is compared that must
  /// be equal on all: all of this host, and those of others that stand near in a ring, so that
  /// where two members differ, two that are compared do.
  void prepare(Group& group) const;

  /// post() and check(): GraphDivergence where it must not be issued.
  [[nodiscard]] Result<Issued> issue(const Group& group, const Operation& operation);

  /// Writes the entry. From here on peers compare with it.
  /// Errors: GraphDivergence (the group has a refusal), Environment.
  [[nodiscard]] Result<Issued> post(const Group& group, const Operation& operation);
  /// Compares with what has been posted at its place, by all, where each takes what is sent to it
  /// alone. `elsewhere`: the first that fits, at another place. Errors: GraphDivergence, in the
  /// words of the rank that was first to refuse.
  [[nodiscard]] Result<void> check(const Group& group, const Issued& issued,
                                   std::optional<Elsewhere>* elsewhere = nullptr);
  /// An entry of a rank elsewhere, `group.self`, has come: compared with `group.compared`, which
  /// are those of this host. Where they differ, or have, the group has a refusal from here on.
  void arrived(const Group& group, const Issued& issued);

  /// The refusal of a group as an error; success where there is none. For a rank that waits.
  [[nodiscard]] Result<void> still_alive(const Group& group) const;

  /// "rank 0: all_reduce sum f32[5] at train.py:41; rank 1: …": what members have issued there.
  [[nodiscard]] std::string rows(const Group& group, const Issued& issued, int other) const;

 private:
  [[nodiscard]] Result<void> check_with(const Group& group, const Issued& issued,
                                        const std::vector<int>& members,
                                        std::optional<Elsewhere>* elsewhere);
  /// "; rank 2: nothing yet": members whose entry is not known here; empty where there is none.
  [[nodiscard]] std::string yet_to_come(const Group& group, const Issued& issued) const;
  void trim(const Group& group, const Issued& issued);
  [[nodiscard]] bool fits_with(const Group& group, const Issued& issued, int member,
                               std::optional<Elsewhere>* elsewhere) const;

  Posts& posts_;
  int near_;
};

}  // namespace lockstep::lines
