#include <algorithm>

#include <lockstep/worker/compile/run/run_failure.h>
#include <lockstep/worker/compile/run/run_values.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/graph/shape_rules.h>

namespace lockstep::worker {

RunValues::RunValues(const Program& program) : program_(program) {
  const ExprTable& table = program.exprs;
  const auto index_of = [&](shapes::Symbol symbol) {
    return static_cast<std::size_t>(std::ranges::find(table.symbols(), symbol) -
                                    table.symbols().begin());
  };
  symbols_.resize(table.symbols().size());
  bound_.resize(symbols_.size());
  values_.resize(table.size());
  is_size_.resize(table.size());
  for (ExprSlot slot : program.sizes) is_size_[slot] = true;
  is_total_.resize(table.size());
  for (const Buffer& buffer : program.buffers) is_total_[buffer.elements] = true;
  for (const Node& node : program.graph.nodes) {
    const bool reduces = op_row(node.op).kind == OpClass::Reduction;
    if (!reduces && !is_attention(node.op)) continue;
    const auto reduced = reduces ? elements_of(program.graph.nodes[node.inputs[0]].meta)
                                 : attention_scores(program.graph, node);
    for (ExprSlot slot : program.sizes)
      if (reduced == table.expr(slot)) is_total_[slot] = true;
  }
  // When a symbol gets its value: 0 at the start, k at the k-th host sync.
  std::vector<std::size_t> when(symbols_.size(), 0);
  for (NodeId id = 0; id < program.graph.nodes.size(); ++id) {
    if (program.graph.nodes[id].binds.empty()) continue;
    syncs_.push_back({id, {}, {}});
    for (shapes::Symbol symbol : program.graph.nodes[id].binds) {
      syncs_.back().symbols.push_back(index_of(symbol));
      when[index_of(symbol)] = syncs_.size();
    }
  }
  for (ExprSlot slot = 0; slot < table.size(); ++slot) {
    std::size_t latest = 0;
    for (shapes::Symbol symbol : table.expr(slot).symbols())
      latest = std::max(latest, when[index_of(symbol)]);
    (latest == 0 ? at_start_ : syncs_[latest - 1].slots).push_back(slot);
  }
}

Result<void> RunValues::bind(const Inputs& inputs) {
  flawed_.reset();
  most_elements_ = 0;
  bound_.assign(bound_.size(), false);
  for (std::size_t i = 0; i < program_.graph.symbols.size(); ++i) {
    const auto value = bound_value(program_.graph.symbols[i], inputs);
    if (!value) return value.error();
    symbols_[i] = *value;
    bound_[i] = true;
  }
  evaluate(at_start_);
  return {};
}

void RunValues::change(const std::map<std::size_t, std::int64_t>& by) {
  for (const auto& [index, value] : by) symbols_[index] = value;
  evaluate(at_start_);
}

void RunValues::bind(NodeId host_sync, const std::int64_t* values) {
  const auto found = std::ranges::find(syncs_, host_sync, &Sync::node);
  if (found == syncs_.end()) return;  // the node binds no symbols: its list is empty
  const Sync& sync = *found;
  for (std::size_t k = 0; k < sync.symbols.size(); ++k) {
    symbols_[sync.symbols[k]] = values[k];
    bound_[sync.symbols[k]] = true;
  }
  evaluate(sync.slots);
}

void RunValues::evaluate(std::span<const ExprSlot> slots) {
  for (ExprSlot slot : slots) {
    const auto value = program_.exprs.evaluate(slot, symbols_, stack_);
    if (!flawed_ && (!value || !fits(slot, *value))) flawed_ = slot;
    values_[slot] = value.value_or(0);
    if (is_total_[slot]) most_elements_ = std::max(most_elements_, values_[slot]);
  }
}

void RunValues::gather(std::span<const ExprSlot> slots, std::vector<std::int64_t>& out) const {
  out.clear();
  for (ExprSlot slot : slots) out.push_back(values_[slot]);
}

bool RunValues::knows(std::span<const ExprSlot> slots) const {
  return std::ranges::all_of(slots, [&](ExprSlot slot) {
    const auto value = program_.exprs.expr(slot).evaluate(valuation());
    return value && fits(slot, *value);
  });
}

bool RunValues::fits(ExprSlot slot, std::int64_t value) const {
  return (!is_size_[slot] || value >= 0) && (!is_total_[slot] || value <= kMostElements);
}

std::optional<Status> RunValues::flaw() const {
  if (!flawed_) return std::nullopt;
  const shapes::Expr& expr = program_.exprs.expr(*flawed_);
  return size_failure(program_.graph, expr, expr.evaluate(valuation()));
}

shapes::Valuation RunValues::valuation() const {
  return [this](shapes::Symbol symbol) -> std::optional<std::int64_t> {
    const auto& symbols = program_.exprs.symbols();
    const auto at = static_cast<std::size_t>(std::ranges::find(symbols, symbol) - symbols.begin());
    return at < symbols.size() && bound_[at] ? std::optional(symbols_[at]) : std::nullopt;
  };
}

}  // namespace lockstep::worker
