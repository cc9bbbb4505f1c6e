// Ranks whose inputs cannot be one call: found in the joined payload, in the order of rules.md
// ("Per call", 1), and turned into one error with the value of every rank.
#pragma once

#include <lockstep/worker/exchange/decision.h>

namespace lockstep::worker {

/// What is in conflict; the same on every rank.
struct Conflict {
  Code code = Code::SourceMismatch;
  std::string source;
  std::optional<std::size_t> dim;  // MarkConflict and ConstraintViolation
  Mark mark = Mark::Static;        // ConstraintViolation: static or uniform
  bool field = false;              // the source is a field
  bool object = false;             // a field that stands for an object
  bool operator==(const Conflict&) const = default;
};

/// The first conflict: code by code, within one by source (byte order) and dim (ascending), then by
/// field. Under shared_sizes only marks, constraints and fields can be in conflict. ABSENT_RANKS
/// and FRAME_MISMATCH come before any payload and are found elsewhere.
[[nodiscard]] std::optional<Conflict> find_conflict(const JointObservation& joint,
                                                    const DecisionConfig& config);

/// This rank's line of the error's table; nullopt where it has no such dim. "" is "no mark".
[[nodiscard]] std::optional<std::string> conflict_value(const Conflict& conflict,
                                                        const Observation& own);

/// What is wrong with this rank's own fields (BadInput): field_error(), or a name that two of them,
/// or a source, have.
[[nodiscard]] std::optional<Status> fields_error(const Observation& own);

/// The error, from the values of all ranks. Pure.
[[nodiscard]] Status conflict_status(const Conflict& conflict, std::string_view frame,
                                     std::vector<RankValue> groups);

}  // namespace lockstep::worker
