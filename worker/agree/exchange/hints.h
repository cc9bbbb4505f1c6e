// The hints of a decision are the sizes of one rank for all symbols (rules.md): hints of several
// ranks could break relations such as s0*s1 == s2. The donor is the lowest rank that has every
// symbolic dim with a size of at least 2, else the lowest rank.
#pragma once

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/worker/agree/exchange/decision.h>

namespace lockstep::worker {

/// The donor if the joined payload determines it: rank 0, because it qualifies or no rank does.
/// nullopt: the ranks elect the donor among those that qualify.
[[nodiscard]] std::optional<Rank> known_donor(const JointObservation& joint);
/// True if this rank qualifies: it has every symbolic dim with a size of at least 2.
[[nodiscard]] bool qualifies_as_donor(const JointObservation& joint, const Observation& own);

/// The donor's values for all joint symbols, for the broadcast.
[[nodiscard]] Bytes encode_hints(const JointObservation& joint, const Observation& own);
/// Replaces each hint for which the donor has a value. Returns false for an invalid payload;
/// `decision` is then unchanged.
[[nodiscard]] bool apply_hints(Decision& decision, const JointObservation& joint,
                               std::span<const std::byte> hints);
/// Sets all hints to this rank's own values, for a trace whose branches may differ between ranks.
void use_own_hints(Decision& decision, const Observation& own);

/// The values of a decision's symbols in `own`. Requires that they have the same sources.
[[nodiscard]] std::vector<std::int64_t> symbol_values(const Decision& decision,
                                                      const Observation& own);

}  // namespace lockstep::worker
