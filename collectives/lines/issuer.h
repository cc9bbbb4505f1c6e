// The issuer: says of each operation whether its rank may issue it, by what peers have posted. It
// waits for nobody. Pure: memory is behind Posts, and there is no clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/lines/posts.h>

namespace lockstep::lines {

/// An operation whose entry has been posted.
struct Issued {
  LineId line;
  std::uint64_t number = 0;
  Entry entry;
};

/// Entries between two looks at what may be given back.
inline constexpr std::uint64_t kTrimEvery = 4096;

/// Of one process. One thread at a time for each group.
class Issuer {
 public:
  explicit Issuer(Posts& posts) : posts_(posts) {}

  /// post() and check(): GraphDivergence where it must not be issued.
  [[nodiscard]] Result<Issued> issue(const Group& group, const Operation& operation);

  /// Writes the entry. From here on peers compare with it.
  /// Errors: GraphDivergence (the group has a refusal), Environment.
  [[nodiscard]] Result<Issued> post(const Group& group, const Operation& operation);
  /// Compares with what has been posted at its place. Errors: GraphDivergence, in the words of the
  /// rank that was first to refuse.
  [[nodiscard]] Result<void> check(const Group& group, const Issued& issued);

  /// The refusal of a group as an error; success where there is none. For a rank that waits.
  [[nodiscard]] Result<void> still_alive(const Group& group) const;

 private:
  void trim(const Group& group, const Issued& issued);
  [[nodiscard]] bool fits_with(const Group& group, const Issued& issued, int member) const;
  [[nodiscard]] std::string sentence(const Group& group, const Issued& issued, int member) const;

  Posts& posts_;
};

}  // namespace lockstep::lines
