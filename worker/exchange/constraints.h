// What the user promises of a frame's sizes for every call: "2 <= x.size(0)", "y.size(0) == 2 *
// x.size(0)". Pure, but for a memory of what was read for the last list of sources.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/shapes/shape_env.h>
#include <lockstep/worker/exchange/decision.h>

namespace lockstep::worker {

/// Relations of sizes and ints, in the words of source_guard.h. The dims that they name are dynamic
/// in every entry; every call's sizes are tested against them before anything is looked up; a trace
/// knows them, and may not narrow a range that they give, nor tie it to other sizes but as they do.
/// One thread.
class Constraints {
 public:
  Constraints() = default;
  explicit Constraints(std::vector<std::string> texts) : texts_(std::move(texts)) {}

  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }
  /// Marks the dims that are named and have no other mark than maybe_dynamic, and tests the values.
  /// nullopt: they hold. Otherwise BadInput (one cannot be read, or names no size of this call) or
  /// ConstraintViolation, which names values.
  [[nodiscard]] std::optional<Status> apply(std::string_view frame, Observation& observation);

 private:
  /// The relations for one list of sources.
  struct Reading {
    std::shared_ptr<const SourceList> list;
    std::vector<shapes::Guard> guards;  // the symbol with serial i is value i
    shapes::GuardProgram program;
    std::vector<std::size_t> dims;  // of tensors, that are named: places of values
    std::optional<Status> unreadable;
  };
  [[nodiscard]] Reading read(std::string_view frame, const Observation& observation) const;

  std::vector<std::string> texts_;
  Reading reading_;
};

/// The relations over the symbols of a decision: for each symbol the range that bounds of it alone
/// give, and the other relations. Throws shapes::ConstraintError where a static size of the
/// decision breaks one.
struct DeclaredSizes {
  std::map<shapes::Symbol, shapes::Range> ranges;
  std::vector<shapes::Guard> relations;
};
[[nodiscard]] DeclaredSizes declared_sizes(const std::vector<std::string>& texts,
                                           const Decision& decision);

}  // namespace lockstep::worker
