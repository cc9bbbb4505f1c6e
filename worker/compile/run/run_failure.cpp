#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include <lockstep/worker/compile/run/run_failure.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;
using shapes::Predicate;

Status runtime_assert(std::string message, std::string source = {}) {
  return Status{Code::RuntimeAssert, std::move(message), std::move(source)};
}

std::string place(const Node& node) {
  return node.where.file.empty() ? std::string("the graph") : node.where.text();
}

/// The two sides of a predicate as its text shows them: added terms left, subtracted terms right.
std::pair<Expr, Expr> sides(const Expr& expr) {
  Expr left, right;
  for (const Expr::Term& term : expr.terms()) {
    Expr product(term.coefficient < 0 ? -term.coefficient : term.coefficient);
    for (const Expr::Factor& factor : term.factors) {
      Expr atom;
      const auto& operands = factor.atom->operands;
      switch (factor.atom->op) {
        case Expr::Op::Symbol:
          atom = Expr::symbol(factor.atom->symbol);
          break;
        case Expr::Op::FloorDiv:
          atom = floor_div(operands[0], operands[1]);
          break;
        case Expr::Op::Mod:
          atom = mod(operands[0], operands[1]);
          break;
        case Expr::Op::Min:
        case Expr::Op::Max:
          atom = operands[0];
          for (std::size_t i = 1; i < operands.size(); ++i)
            atom =
                factor.atom->op == Expr::Op::Min ? min(atom, operands[i]) : max(atom, operands[i]);
          break;
      }
      for (std::uint32_t p = 0; p < factor.power; ++p) product = product * atom;
    }
    (term.coefficient < 0 ? right : left) = (term.coefficient < 0 ? right : left) + product;
  }
  return {left, right};
}

std::string value_text(const Expr& expr, const shapes::Valuation& values) {
  const auto value = expr.evaluate(values);
  return value ? fmt::format("{}", *value) : std::string("no value");
}

}  // namespace

shapes::Namer symbol_namer(const Graph& graph) {
  return [&graph](shapes::Symbol symbol) {
    for (const SymbolBinding& binding : graph.symbols)
      if (binding.symbol == symbol) return binding.source;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      for (std::size_t k = 0; k < node.binds.size(); ++k) {
        if (node.binds[k] != symbol) continue;
        std::string element = node.text;
        if (element.empty())
          element = node.op == Op::Item ? "item()" : fmt::format("tolist()[{}]", k);
        return fmt::format("{} ({} at {})", symbol.name(), element, place(node));
      }
    }
    return symbol.name();
  };
}

Status assert_failure(const Graph& graph, const Node& node, const shapes::Valuation& values) {
  const shapes::DeferredAssert& check = node.asserts.at(0);
  const auto [left, right] = sides(check.predicate.expr);
  std::string message =
      fmt::format("{} does not hold at {}: the left side is {}, the right side is {}",
                  check.predicate.text(symbol_namer(graph)),
                  check.where.file.empty() ? place(node) : check.where.text(),
                  value_text(left, values), value_text(right, values));
  if (!check.message.empty()) message += fmt::format(" ({})", check.message);
  const auto symbols = check.predicate.expr.symbols();
  return runtime_assert(std::move(message),
                        symbols.empty() ? std::string() : symbol_namer(graph)(symbols[0]));
}

Status index_failure(const Graph& graph, NodeId id, std::int64_t position, std::int64_t index,
                     std::int64_t limit) {
  const Node& node = graph.nodes.at(id);
  const bool is_named = node.op == Op::CheckedIndex && !node.text.empty();
  if (node.op == Op::CheckedIndex && node.ints.at(0) == 2)
    return runtime_assert(fmt::format("{} at {} found {}, but at_most({}) was declared", node.text,
                                      place(node), index, limit - 1));
  if (node.op == Op::CheckedIndex && node.ints.at(0) == 3)
    return runtime_assert(fmt::format(
        "{} at {} was given length {} for segment {}, but lengths must be at least 0 and at most "
        "{}",
        node.text, place(node), index, position, limit - 1));
  if (node.op == Op::CheckedIndex && node.ints.at(0) == 4)
    return runtime_assert(fmt::format(
        "{} at {} was given offsets {}", node.text, place(node),
        position == 0 ? std::string("of which the first is not 0")
                      : fmt::format("that change by {} at element {}, but they must not decrease",
                                    index, position)));
  // A negative index has had `limit` added: undo it, to show the index that the user gave.
  const bool from_end = node.op == Op::CheckedIndex && node.ints.at(0) == 1;
  return runtime_assert(fmt::format(
      "{} at {} was given index {} in element {} of its index, but indices must be at least {} and "
      "less than {}",
      is_named ? std::string_view(node.text) : op_row(node.op).name, place(node),
      from_end && index < 0 ? index - limit : index, position, from_end ? -limit : 0, limit));
}

Status counts_failure(const Graph& graph, NodeId id, std::span<const std::int64_t> counts,
                      std::int64_t rows) {
  const Node& node = graph.nodes.at(id);
  return runtime_assert(
      fmt::format("{} at {} was given counts [{}], but they must be at least 0 and add up "
                  "to {}",
                  op_row(node.op).name, place(node), fmt::join(counts, ", "), rows));
}

std::optional<Expr> elements_of(const TensorMeta& meta) {
  try {
    return shapes::product(meta.sizes);
  } catch (const shapes::OverflowError&) {
    return std::nullopt;
  }
}

Status size_failure(const Graph& graph, const Expr& expr, std::optional<std::int64_t> value) {
  const auto has_it = [&](const Node& node) {
    return std::ranges::count(node.meta.sizes, expr) > 0 ||
           std::ranges::count(node.exprs, expr) > 0 || elements_of(node.meta) == expr;
  };
  const auto symbols = expr.symbols();
  const auto is_told_by_data = [&](shapes::Symbol symbol) {
    return std::ranges::none_of(
        graph.symbols, [&](const SymbolBinding& binding) { return binding.symbol == symbol; });
  };
  const auto of = std::ranges::find_if(graph.nodes, has_it);
  const bool is_large = !value || *value > kMostElements;
  if (of != graph.nodes.end() && (is_large || std::ranges::any_of(symbols, is_told_by_data)))
    return runtime_assert(
        fmt::format("{} at {} would have a size or elements of {} = {}, but there are {}",
                    op_row(of->op).name, place(*of), expr.text(symbol_namer(graph)),
                    value ? fmt::format("{}", *value) : std::string("what cannot be counted"),
                    is_large ? fmt::format("at most {}", kMostElements) : "none below 0"),
        symbols.empty() ? std::string() : symbol_namer(graph)(symbols[0]));
  return internal_error(
      fmt::format("the size {} is {}; a guard or an assert of frame {} should have prevented it",
                  expr.text(symbol_namer(graph)),
                  value ? fmt::format("{}", *value) : std::string("not computable"), graph.name));
}

Status input_size_failure(const Node& node, std::span<const std::int64_t> sizes,
                          std::span<const std::int64_t> expected) {
  return bad_input(fmt::format("input {} has sizes [{}], but this entry of the program takes [{}]",
                               node.text, fmt::join(sizes, ", "), fmt::join(expected, ", ")),
                   node.text);
}

Status memory_failure(const Graph& graph, NodeId node, std::size_t bytes) {
  const Node& of = graph.nodes[node];
  return environment_error(
      fmt::format("no memory for the {} bytes of {} at {} in a run of frame {}; use smaller "
                  "batches, or check the numbers that its size is made of",
                  bytes, op_row(of.op).name, place(of), graph.name));
}

Status device_memory_failure(const Graph& graph, NodeId node, const std::string& device,
                             std::size_t bytes, std::size_t used) {
  const Node& of = graph.nodes[node];
  return environment_error(
      fmt::format("{} has no memory for the {} bytes of {} at {} in a run of frame {}, which uses "
                  "{} bytes there and has given back those it kept; use smaller batches",
                  device, bytes, op_row(of.op).name, place(of), graph.name, used));
}

Status missing_failure_error(const Graph& graph) {
  return internal_error(
      fmt::format("a rank of frame {} told of a failure with its counts, but none has "
                  "one; this is a bug of lockstep",
                  graph.name));
}

bool counts_add_up(std::span<const std::int64_t> counts, std::int64_t rows) {
  for (std::int64_t count : counts) {
    if (count < 0 || count > rows) return false;
    rows -= count;
  }
  return rows == 0;
}

Result<std::int64_t> bound_value(const SymbolBinding& binding, const Inputs& inputs) {
  const auto missing = [&](const char* why) {
    return bad_input(fmt::format("{} has no value: {}", binding.source, why), binding.source);
  };
  if (!binding.value.steps.empty()) {
    const auto value = binding.value.evaluate([&](std::string_view source) {
      const auto input = inputs.find(source);
      return input == inputs.end() ? std::nullopt : scalar_in(input->second);
    });
    if (value) return *value;
    return missing("its input was not given as a 0-d array");
  }
  if (const auto scalar = inputs.find(binding.source); scalar != inputs.end()) {
    if (scalar->second.dtype() != DType::I64 || !scalar->second.sizes().empty())
      return missing("the input of that name is not a 0-d i64 array");
    return *scalar->second.data_as<std::int64_t>();
  }
  const std::string_view source = binding.source;
  const auto dot = source.rfind(".size(");
  if (dot == std::string_view::npos) return missing("there is no input of that name");
  const auto tensor = inputs.find(source.substr(0, dot));
  if (tensor == inputs.end()) return missing("there is no input of that name");
  std::size_t dim = 0;
  const auto number = source.substr(dot + 6);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), dim);
  if (error != std::errc() || std::string_view(end, number.data() + number.size()) != ")")
    return missing("it is no size of a tensor");
  if (dim >= tensor->second.sizes().size()) return missing("the tensor has fewer dims");
  return tensor->second.sizes()[dim];
}

Result<Array> bound_input(const Node& node, const Inputs& inputs) {
  const auto found = inputs.find(node.text);
  if (found == inputs.end())
    return bad_input(fmt::format("the program needs input {}, which was not given", node.text),
                     node.text);
  const Array& array = found->second;
  if (array.dtype() != node.meta.dtype || array.sizes().size() != node.meta.sizes.size())
    return bad_input(
        fmt::format("input {} is {} with {} dims, but the program was compiled for {} with {}",
                    node.text, dtype_name(array.dtype()), array.sizes().size(),
                    dtype_name(node.meta.dtype), node.meta.sizes.size()),
        node.text);
  return array;
}

}  // namespace lockstep::worker
