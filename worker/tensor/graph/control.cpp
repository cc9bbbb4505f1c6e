#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include <lockstep/worker/tensor/graph/control.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;
using shapes::Symbol;
using Metas = std::span<const TensorMeta>;

std::size_t carries_of(const Node& node) {
  return node.op == Op::Scan || node.op == Op::While ? static_cast<std::size_t>(node.ints.at(0))
                                                     : 0;
}

TensorMeta output_meta(const Graph& body, std::size_t k) {
  return body.nodes.at(body.outputs.at(k).node).meta;
}

TensorMeta stacked(TensorMeta row, const Expr& rows) {
  row.sizes.insert(row.sizes.begin(), rows);
  return row;
}

Status control_error(const Node& node, std::string words) {
  return Status{Code::TraceError, fmt::format("{}: {}", op_row(node.op).name, std::move(words))};
}

std::string line_of(const Graph& body, std::size_t k) {
  const shapes::Location& where = body.nodes.at(body.outputs.at(k).node).where;
  return where.file.empty() ? "" : fmt::format(" ({})", where.text());
}

/// Checks that the inputs of bodies are operands by name, and that each operand after the first
/// `named` ones is an input of a body.
std::optional<Status> inputs_error(const Node& node, Metas operands, std::size_t named) {
  std::map<std::string, std::size_t> places;
  for (std::size_t k = 0; k < operands.size(); ++k) places[operand_name(k)] = k;
  std::vector<bool> taken(operands.size(), false);
  std::fill_n(taken.begin(), named, true);
  for (const auto& body : node.bodies)
    for (const Node& input : body->nodes) {
      if (input.op != Op::Input) continue;
      const auto place = places.find(input.text);
      if (place == places.end() || input.meta != operands[place->second])
        return control_error(node, "a body has inputs that it is not given");
      taken[place->second] = true;
    }
  if (std::ranges::find(taken, false) == taken.end()) return std::nullopt;
  return control_error(node, "has an operand that no body takes");
}

std::optional<Status> symbols_error(const Node& node) {
  // A scan's exprs begin with its trips; its body's symbols end with the trip's row.
  const std::size_t first = node.op == Op::Scan ? 1 : 0;
  for (const auto& body : node.bodies) {
    bool equal = node.exprs.size() == body->symbols.size();
    for (std::size_t k = first; equal && k < node.exprs.size(); ++k)
      equal = node.exprs[k] == Expr::symbol(body->symbols[k - first].symbol);
    if (!equal) return control_error(node, "does not give a body its symbols");
  }
  return std::nullopt;
}

std::optional<Status> branches_error(const Node& node) {
  const Graph &yes = *node.bodies[0], &no = *node.bodies[1];
  if (yes.outputs.size() != no.outputs.size())
    return control_error(node, fmt::format("the branches give {} and {} results; give as many",
                                           yes.outputs.size(), no.outputs.size()));
  for (std::size_t k = 0; k < yes.outputs.size(); ++k)
    if (output_meta(yes, k) != output_meta(no, k))
      return control_error(
          node,
          fmt::format("result {} is {} in the first branch{} and {} in the second{}; both have to "
                      "have one dtype and the same sizes",
                      k, meta_text(output_meta(yes, k)), line_of(yes, k),
                      meta_text(output_meta(no, k)), line_of(no, k)));
  return std::nullopt;
}

std::optional<Status> carries_error(const Node& node, Metas in, const Graph& step) {
  const std::size_t carries = carries_of(node);
  const bool exact = node.op == Op::While;
  if (step.outputs.size() < carries || (exact && step.outputs.size() != carries))
    return control_error(node, fmt::format("{} values are carried, and a trip gives {}", carries,
                                           step.outputs.size()));
  for (std::size_t k = 0; k < carries; ++k)
    if (output_meta(step, k) != in[k])
      return control_error(
          node,
          fmt::format("carried value {} comes as {} and a trip gives {}{}; it has to keep "
                      "dtype and sizes",
                      k, meta_text(in[k]), meta_text(output_meta(step, k)), line_of(step, k)));
  return std::nullopt;
}

std::optional<Status> scan_error(const Node& node, Metas in) {
  const auto xs = static_cast<std::size_t>(node.ints.at(1));
  if (node.exprs.empty()) return control_error(node, "has no number of trips");
  for (std::size_t k = 0; k < xs; ++k) {
    const TensorMeta& x = in[carries_of(node) + k];
    if (x.sizes.empty() || x.sizes[0] != node.exprs[0])
      return control_error(node, fmt::format("{} is walked along dim 0 in {} trips", meta_text(x),
                                             node.exprs[0].text()));
  }
  return carries_error(node, in, *node.bodies[0]);
}

std::optional<Status> while_error(const Node& node, Metas in) {
  const Graph& asks = *node.bodies[0];
  if (asks.outputs.size() != 1 || output_meta(asks, 0) != TensorMeta{DType::Bool, {}})
    return control_error(node, asks.outputs.size() != 1
                                   ? "the condition gives one 0-d bool"
                                   : fmt::format("the condition gives one 0-d bool, not {}",
                                                 meta_text(output_meta(asks, 0))));
  return carries_error(node, in, *node.bodies[1]);
}

void collect(const Graph& body, std::set<Symbol>& out) {
  const auto add = [&](const Expr& expr) {
    for (const Symbol symbol : expr.symbols()) out.insert(symbol);
  };
  for (const Node& node : body.nodes) {
    for (const Expr& expr : node.exprs) add(expr);
    for (const Expr& size : node.meta.sizes) add(size);
  }
  for (const UniformSize& size : body.uniform) add(size.expr);
}

void give_symbols(Graph& body, const std::set<Symbol>& symbols, std::optional<Symbol> row) {
  body.symbols.clear();
  for (const Symbol symbol : symbols) body.symbols.push_back({symbol, symbol.name()});
  if (row) body.symbols.push_back({*row, row->name()});
}

}  // namespace

std::size_t bodies_of(Op op) {
  if (op == Op::Cond || op == Op::While) return 2;
  return op == Op::Scan || op == Op::Call ? 1 : 0;
}

std::string operand_name(std::size_t operand) { return fmt::format("#{}", operand); }

std::span<const NodeId> body_operands(const Node& node) {
  return std::span(node.inputs).subspan(node.op == Op::Cond ? 1 : 0);
}

bool runs_collectives(const Node& node) {
  if (op_row(node.op).kind == OpClass::Collective) return true;
  const auto together = [](const Node& inner) {
    return inner.op == Op::HostCall || runs_collectives(inner);
  };
  return std::ranges::any_of(
      node.bodies, [&](const auto& body) { return std::ranges::any_of(body->nodes, together); });
}

std::vector<TensorMeta> result_metas(const Node& node) {
  const Graph& body = *node.bodies.back();
  const std::size_t carries = carries_of(node);
  std::vector<TensorMeta> out;
  for (std::size_t k = 0; k < body.outputs.size(); ++k)
    out.push_back(node.op == Op::Scan && k >= carries ? stacked(output_meta(body, k), node.exprs[0])
                                                      : output_meta(body, k));
  for (std::size_t k = 0; node.op == Op::Scan && k < carries; ++k)
    out.push_back(stacked(output_meta(body, k), node.exprs[0]));
  return out;
}

Result<TensorMeta> control_meta(const Node& node, Metas in) {
  const std::size_t first = node.inputs.size() - body_operands(node).size();
  if (in.size() < first || (node.op == Op::Cond && in[0] != TensorMeta{DType::Bool, {}}))
    return control_error(node, fmt::format("the predicate is a 0-d bool, not {}",
                                           in.empty() ? "nothing" : meta_text(in[0])));
  if (std::ranges::any_of(node.ints, [](std::int64_t i) { return i < -1; }) ||
      (node.op != Op::Call && node.op != Op::Cond && node.ints[0] < 0) ||
      (node.op == Op::Scan && (node.ints[1] < 0 || node.ints[2] < 0 || node.ints[2] > 1)))
    return control_error(node, "has attributes out of range");
  const std::size_t named =
      carries_of(node) + (node.op == Op::Scan ? static_cast<std::size_t>(node.ints.at(1)) : 0);
  if (in.size() < named) return control_error(node, "has too few operands");
  std::optional<Status> wrong = inputs_error(node, in.subspan(first), named);
  if (!wrong) wrong = symbols_error(node);
  if (wrong) return *wrong;
  if (node.op == Op::Cond) wrong = branches_error(node);
  if (node.op == Op::Scan) wrong = scan_error(node, in);
  if (node.op == Op::While) wrong = while_error(node, in);
  if (wrong) return *wrong;
  return TensorMeta{DType::I64, {}};
}

void rewrite_exprs(Node& node, const std::function<Expr(const Expr&)>& by) {
  for (Expr& size : node.meta.sizes) size = by(size);
  if (node.bodies.empty()) {
    for (Expr& expr : node.exprs) expr = by(expr);
    return;
  }
  std::set<Symbol> symbols;
  std::optional<Symbol> row;
  if (node.op == Op::Scan) row = node.bodies[0]->symbols.back().symbol;
  std::vector<Graph> bodies;
  for (const auto& body : node.bodies) {
    Graph& copy = bodies.emplace_back(*body);
    for (Node& inner : copy.nodes) rewrite_exprs(inner, by);
    for (UniformSize& size : copy.uniform) size.expr = by(size.expr);
    collect(copy, symbols);
  }
  if (row) symbols.erase(*row);
  if (node.op == Op::Scan)
    node.exprs = {by(node.exprs.at(0))};
  else
    node.exprs.clear();
  for (const Symbol symbol : symbols) node.exprs.push_back(Expr::symbol(symbol));
  for (std::size_t k = 0; k < bodies.size(); ++k) {
    give_symbols(bodies[k], symbols, row);
    node.bodies[k] = std::make_shared<const Graph>(std::move(bodies[k]));
  }
}

}  // namespace lockstep::worker
