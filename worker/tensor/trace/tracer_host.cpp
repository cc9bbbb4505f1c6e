// Scalar inputs that a trace knows before the graph runs: 0-d integers, and comparisons of floats.
// Each becomes a backed symbol with the value of the group's lowest rank as its hint.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker {
namespace {

using Code = HostValue::Code;
using shapes::Expr;
using shapes::Range;
using Steps = std::vector<HostValue::Step>;

/// Maximum number of steps of a branch condition; longer conditions are left to the graph.
constexpr std::size_t kMaxSteps = 64;

/// Ops of a branch condition; others are left to the graph.
constexpr std::pair<Op, Code> kCodes[] = {
    {Op::Neg, Code::Neg}, {Op::Not, Code::Not}, {Op::Add, Code::Add}, {Op::Sub, Code::Sub},
    {Op::Mul, Code::Mul}, {Op::Div, Code::Div}, {Op::Lt, Code::Lt},   {Op::Le, Code::Le},
    {Op::Gt, Code::Gt},   {Op::Ge, Code::Ge},   {Op::Eq, Code::Eq},   {Op::Ne, Code::Ne},
    {Op::And, Code::And}, {Op::Or, Code::Or},
};

std::optional<Code> code_of(Op op) {
  const auto* found = std::ranges::find(kCodes, op, &std::pair<Op, Code>::first);
  return found == std::end(kCodes) ? std::nullopt : std::optional(found->second);
}

Range range_of(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return {0, 1};
    case DType::U8:
      return {0, 255};
    case DType::I8:
      return {-128, 127};
    case DType::I16:
      return {-32768, 32767};
    case DType::I32:
      return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
    default:
      return {Range::kMin, Range::kMax};
  }
}

/// Steps that are true for `number` and no other float, where all not-a-numbers count as one.
Steps only(const std::string& source, double number) {
  const HostValue::Step input{Code::Input, source};
  if (std::isnan(number)) return {input, input, {Code::Ne}};
  // Both zeros compare equal; their reciprocals do not.
  if (number == 0)
    return {{Code::Number, {}, 1}, input, {Code::Div}, {Code::Number, {}, 1 / number}, {Code::Eq}};
  return {input, {Code::Number, {}, number}, {Code::Eq}};
}

}  // namespace

std::optional<std::int64_t> Trace::local_scalar(std::string_view source) const {
  return setup_.observation ? scalar_of(*setup_.observation, source) : std::nullopt;
}

std::optional<std::int64_t> Trace::earlier_answer() const {
  if (setup_.answers == nullptr || answers_.size() >= setup_.answers->size()) return std::nullopt;
  return (*setup_.answers)[answers_.size()];
}

std::int64_t Trace::agreed(std::int64_t mine) {
  // If ranks may differ in their branches, each takes its own value, as with sizes.
  const bool asks = setup_.host != nullptr && !setup_.local && !setup_.peers_may_differ;
  Result<std::int64_t> value = earlier_answer().value_or(mine);
  if (asks && setup_.answers == nullptr) value = setup_.host->broadcast_from_lowest(mine);
  if (!value) throw GroupFailure{value.error()};
  answers_.push_back(*value);
  return *value;
}

std::optional<Steps> Trace::host_steps(NodeId id) const {
  const Node& node = nodes_[origin(id)];
  if (!node.meta.sizes.empty()) return std::nullopt;
  if (node.op == Op::Full && node.meta.dtype == DType::F64)
    return Steps{{Code::Number, {}, node.number}};
  if (node.op == Op::Input) {
    const auto& sources = setup_.decision.sources;
    const bool is_float = std::any_of(sources.begin(), sources.end(), [&](const auto& source) {
      return source.spec.kind == Kind::Float && source.spec.name == node.text;
    });
    return is_float ? std::optional(Steps{{Code::Input, node.text}}) : std::nullopt;
  }
  const std::optional<Code> code = code_of(node.op);
  if (!code) return std::nullopt;
  Steps out;
  for (const NodeId input : node.inputs) {
    const std::optional<Steps> part = host_steps(input);
    if (!part || out.size() + part->size() >= kMaxSteps) return std::nullopt;
    out.insert(out.end(), part->begin(), part->end());
  }
  out.push_back({*code});
  return out;
}

Expr Trace::host_symbol(HostValue value, Range range) {
  for (const SymbolBinding& known : host_values_)
    if (known.value == value) return Expr::symbol(known.symbol);
  const std::int64_t mine =
      value.evaluate([this](std::string_view source) { return local_scalar(source); }).value();
  std::string text = value.text();
  const std::int64_t hint = agreed(mine);
  const Expr symbol = env_.backed(text, hint, range);
  host_values_.push_back({*symbol.as_symbol(), std::move(text), hint, std::move(value)});
  return symbol;
}

std::optional<SymInt> Trace::host_value(const Tensor& x) {
  const NodeId id = origin(operand(x, {}));
  const Node& node = nodes_[id];
  Steps steps;
  if (node.op == Op::Input && node.meta.dtype < DType::F16 && node.meta.sizes.empty()) {
    steps = {{Code::Input, node.text}};
  } else if (node.meta.dtype == DType::Bool) {
    steps = host_steps(id).value_or(Steps{});
  }
  const auto known = [this](const HostValue::Step& step) {
    return step.code != Code::Input || local_scalar(step.source);
  };
  const bool reads = std::any_of(steps.begin(), steps.end(),
                                 [](const auto& step) { return step.code == Code::Input; });
  if (!reads || !std::all_of(steps.begin(), steps.end(), known)) return std::nullopt;
  const Range range = range_of(node.meta.dtype);
  return integer(host_symbol({std::move(steps)}, range));
}

SymFloat Trace::float_input(std::size_t source) {
  const std::string& name = source_of(source, Kind::Float).spec.name;
  const std::optional<std::int64_t> mine = local_scalar(name);
  if (!setup_.specialize_float || !mine)
    return SymFloat(Tensor(shared_from_this(), *inputs_[source]));
  return pinned(name, *mine, "specialize_float");
}

double Trace::fixed_float_input(std::size_t source, double example) {
  const std::string& name = source_of(source, Kind::Float).spec.name;
  const std::optional<std::int64_t> mine = local_scalar(name);
  return mine ? pinned(name, *mine, fmt::format("{}{}", kFixedInput, name)) : example;
}

double Trace::pinned(const std::string& source, std::int64_t mine, std::string why) {
  const auto number = std::bit_cast<double>(agreed(mine));
  const Expr is_it = host_symbol({only(source, number)}, {0, 1});
  (void)env_.evaluate(shapes::equal(is_it, 1), {std::move(why), 0});
  return number;
}

}  // namespace lockstep::worker
