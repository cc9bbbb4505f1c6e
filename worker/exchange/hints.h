// The hints of a decision come from one rank for all symbols (rules.md): a mix per dim
// could break relations such as s0*s1 == s2. The donor is the lowest rank that has every dim that
// is a symbol with a size of at least 2, else the lowest rank.
#pragma once

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/worker/exchange/decision.h>

namespace lockstep::worker {

/// The donor where the joined payload already tells: rank 0 qualifies, or nobody can. nullopt: the
/// ranks elect it, each offering itself if it qualifies.
[[nodiscard]] std::optional<Rank> known_donor(const JointObservation& joint);
/// Whether this rank can be the donor.
[[nodiscard]] bool qualifies_as_donor(const JointObservation& joint, const Observation& own);

/// The donor's values for all joint symbols, for the broadcast.
[[nodiscard]] Bytes encode_hints(const JointObservation& joint, const Observation& own);
/// Replaces each hint for which the donor has a value. False: not such a payload; `decision` is
/// then unchanged.
[[nodiscard]] bool apply_hints(Decision& decision, const JointObservation& joint,
                               std::span<const std::byte> hints);
/// Hints that are this rank's own values, for a trace whose branches may differ between ranks.
void use_own_hints(Decision& decision, const Observation& own);

/// The values of a decision's symbols in `own`. Requires that they have the same sources.
[[nodiscard]] std::vector<std::int64_t> symbol_values(const Decision& decision,
                                                      const Observation& own);

}  // namespace lockstep::worker
