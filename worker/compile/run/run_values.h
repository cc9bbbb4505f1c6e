// The numbers of one run of a program: values of symbols and of the expressions over them. Reused
// from run to run, so that nothing is allocated. Used by the executable, its backends and captured
// graphs.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include <lockstep/worker/compile/codegen/program.h>
#include <lockstep/worker/compile/run/run_host.h>

namespace lockstep::worker {

class RunValues {
 public:
  /// `program` outlives it.
  explicit RunValues(const Program& program);

  /// Binds the backed symbols and evaluates the expressions that need no other symbols. Errors:
  /// BadInput.
  [[nodiscard]] Result<void> bind(const Inputs& inputs);
  /// Binds the symbols of a host sync and evaluates the expressions that were waiting for them.
  void bind(NodeId host_sync, const std::int64_t* values);

  /// Changes the values of backed symbols: `by` maps indices in graph.symbols to new values.
  /// Evaluates the expressions over backed symbols again.
  void change(const std::map<std::size_t, std::int64_t>& by);

  /// Value of graph.symbols[index].
  [[nodiscard]] std::int64_t symbol(std::size_t index) const { return symbols_[index]; }
  [[nodiscard]] std::int64_t operator[](ExprSlot slot) const { return values_[slot]; }
  void gather(std::span<const ExprSlot> slots, std::vector<std::int64_t>& out) const;
  /// True if all symbols of these expressions are bound in this run and all values are valid.
  [[nodiscard]] bool knows(std::span<const ExprSlot> slots) const;
  /// Most elements of a stored or reduced value in this run, as far as sizes are known.
  [[nodiscard]] std::int64_t most_elements() const { return most_elements_; }
  /// Returns the error of the first expression that has no value, is a negative size, or is more
  /// than kMostElements.
  [[nodiscard]] std::optional<Status> flaw() const;
  [[nodiscard]] shapes::Valuation valuation() const;

 private:
  void evaluate(std::span<const ExprSlot> slots);
  [[nodiscard]] bool fits(ExprSlot slot, std::int64_t value) const;
  const Program& program_;
  std::vector<std::int64_t> symbols_, values_, stack_;
  std::vector<bool> bound_, is_size_, is_total_;  // total: elements of a stored or reduced value
  std::vector<ExprSlot> at_start_;
  struct Sync {
    NodeId node = 0;
    std::vector<std::size_t> symbols;  // indices
    std::vector<ExprSlot> slots;       // evaluated once `symbols` are bound
  };
  std::vector<Sync> syncs_;
  std::optional<ExprSlot> flawed_;
  std::int64_t most_elements_ = 0;
};

}  // namespace lockstep::worker
