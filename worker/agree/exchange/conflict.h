// Conflicts between the inputs of ranks: found in the joined payload, in the order of rules.md
// ("Per call", 1), and turned into one error with the value of every rank.
#pragma once

#include <lockstep/worker/agree/exchange/decision.h>

namespace lockstep::worker {

/// What is in conflict; the same on every rank.
struct Conflict {
  Code code = Code::SourceMismatch;
  std::string source;
  std::optional<std::size_t> dim;  // MarkConflict and ConstraintViolation
  Mark mark = Mark::Static;        // ConstraintViolation: static or uniform
  bool field = false;              // the source is a field
  bool object = false;             // a field of type object
  bool operator==(const Conflict&) const = default;
};

/// The first conflict: by code, then by source (byte order) and dim (ascending), then by field.
/// Under shared_sizes only marks, constraints and fields can be in conflict. ABSENT_RANKS and
/// FRAME_MISMATCH are found elsewhere, before any payload is sent.
[[nodiscard]] std::optional<Conflict> find_conflict(const JointObservation& joint,
                                                    const DecisionConfig& config);

/// This rank's line of the error's table; nullopt if this rank has no such source or dim. "" stands
/// for "no mark".
[[nodiscard]] std::optional<std::string> conflict_value(const Conflict& conflict,
                                                        const Observation& own);

/// Error of this rank's own fields (BadInput): field_error(), or a name that another field or a
/// source already has.
[[nodiscard]] std::optional<Status> fields_error(const Observation& own);

/// Makes the error from the values of all ranks. Pure.
[[nodiscard]] Status conflict_status(const Conflict& conflict, std::string_view frame,
                                     std::vector<RankValue> groups);

}  // namespace lockstep::worker
