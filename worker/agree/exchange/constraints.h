// The user's constraints on a frame's sizes in every call: "2 <= x.size(0)", "y.size(0) == 2 *
// x.size(0)". Pure, except that what was parsed for the last list of sources is cached.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/shapes/shape_env.h>
#include <lockstep/worker/agree/exchange/decision.h>

namespace lockstep::worker {

/// Relations of sizes and ints, in the syntax of source_guard.h. The dims that they name are
/// dynamic in every entry. Every call's sizes are tested against them before the look-up. A trace
/// may rely on the relations. It must not narrow a range that they give, nor depend on any other
/// relation of the sizes that they name. Single-threaded.
class Constraints {
 public:
  Constraints() = default;
  explicit Constraints(std::vector<std::string> texts) : texts_(std::move(texts)) {}

  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }
  /// Tests the values, then marks as dynamic those named dims that have no mark or the mark
  /// maybe_dynamic. nullopt: the constraints hold. Otherwise BadInput (a constraint cannot be read,
  /// or names no size of this call) or ConstraintViolation, which names the values.
  [[nodiscard]] std::optional<Status> apply(std::string_view frame, Observation& observation);

 private:
  /// The relations, parsed for one list of sources.
  struct Reading {
    std::shared_ptr<const SourceList> list;
    std::vector<shapes::Guard> guards;  // the symbol with serial i stands for value i
    shapes::GuardProgram program;
    std::vector<std::size_t> dims;  // named dims of tensors, as indices of values
    std::optional<Status> unreadable;
  };
  [[nodiscard]] Reading read(std::string_view frame, const Observation& observation) const;

  std::vector<std::string> texts_;
  Reading reading_;
};

/// The relations over the symbols of a decision. A relation that bounds a single symbol is in that
/// symbol's range. declared_sizes() throws shapes::ConstraintError if a relation is unreadable, or
/// a static size of the decision breaks it.
struct DeclaredSizes {
  std::map<shapes::Symbol, shapes::Range> ranges;
  std::vector<shapes::Guard> relations;
};
[[nodiscard]] DeclaredSizes declared_sizes(const std::vector<std::string>& texts,
                                           const Decision& decision);

}  // namespace lockstep::worker
