#include <algorithm>
#include <string>

#include <lockstep/worker/tensor/graph/split_lists.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;
using shapes::Symbol;

std::string text_of(std::span<const Expr> exprs) {
  std::string out;
  for (const Expr& expr : exprs) out += expr.text() + ", ";
  return out;
}

}  // namespace

/// Learns equalities of symbols from asserts. A rank on which such an assert fails reports the
/// failure before its lists are used.
void SplitLists::pass(const Node& node) {
  if (node.op != Op::Assert) return;
  const shapes::Predicate& predicate = node.asserts.at(0).predicate;
  const std::vector<Symbol> symbols = predicate.expr.symbols();
  if (symbols.size() != 2 || predicate.relation != shapes::Predicate::Relation::Equal) return;
  const Expr a = Expr::symbol(symbols[0]), b = Expr::symbol(symbols[1]);
  if (predicate.expr != a - b && predicate.expr != b - a) return;
  Symbol from = read_back(symbols[0]), to = read_back(symbols[1]);
  if (blocks_.binder(from)) std::swap(from, to);
  if (from == to || blocks_.binder(from)) return;
  for (auto& [symbol, other] : equal_)
    if (other == from) other = to;
  equal_[from] = to;
}

Symbol SplitLists::read_back(Symbol symbol) const {
  const auto other = equal_.find(symbol);
  return other == equal_.end() ? symbol : other->second;
}

bool SplitLists::fit(const Node& node, const UniformFacts& uniform) {
  if (graph_.peers_may_differ) return false;  // how other ranks make their lists is not known
  const std::span exprs(node.exprs);
  std::string in = text_of(exprs.first(exprs.size() / 2));
  std::string out = text_of(exprs.subspan(exprs.size() / 2));
  if (out < in) std::swap(in, out);
  const bool fresh = fitted_.emplace(node.text, std::move(in), std::move(out)).second;
  return !fresh || made_to_fit(node, uniform);
}

bool SplitLists::made_to_fit(const Node& node, const UniformFacts& uniform) const {
  const std::span exprs(node.exprs);
  const Exprs in = exprs.first(exprs.size() / 2), out = exprs.subspan(exprs.size() / 2);
  if (in.size() == 1 && in[0] == out[0]) return true;
  if (uniform.uniform(in[0], node.text))
    if (std::ranges::all_of(exprs, [&](const Expr& each) { return each == in[0]; })) return true;
  if (in[0].constant()) return false;
  return received_is_sent(node, in, out) || received_is_sent(node, out, in) ||
         numbers_of_peers(node, in, out) || numbers_of_peers(node, out, in);
}

/// True if every rank sent its peers one number: all of `own` are the number of this rank, and
/// theirs[p] is the number of peer p.
bool SplitLists::numbers_of_peers(const Node& node, Exprs own, Exprs theirs) const {
  for (std::size_t peer = 0; peer < own.size(); ++peer) {
    const auto symbol = theirs[peer].as_symbol();
    const auto number = symbol ? blocks_.number(*symbol) : std::nullopt;
    if (!number || number->peer != peer || number->sent != own[peer] ||
        number->exchange->text != node.text || number->exchange->exprs.size() != node.exprs.size())
      return false;
  }
  return true;
}

/// True if all lengths are one function of a block: sent[p] of the block that this rank sent to
/// peer p, received[p] of the block that it received from peer p.
bool SplitLists::received_is_sent(const Node& node, Exprs sent, Exprs received) const {
  const auto first = of_first_block(node, 0, sent[0], Side::Sent);
  if (!first) return false;
  for (std::size_t peer = 0; peer < sent.size(); ++peer)
    if (of_first_block(node, peer, sent[peer], Side::Sent) != first ||
        of_first_block(node, peer, received[peer], Side::Received) != first)
      return false;
  return true;
}

/// `rows` with the symbols of the peer's block replaced by those of the sent list's first block;
/// nullopt if `rows` mentions anything but the block of that peer, in lists of that side.
std::optional<Expr> SplitLists::of_first_block(const Node& node, std::size_t peer, const Expr& rows,
                                               Side side) const try {
  const std::size_t ranks = node.exprs.size() / 2;
  std::map<Symbol, Expr> firsts;
  for (const Symbol symbol : rows.symbols()) {
    const auto bound = blocks_.binder(read_back(symbol));
    if (!bound) return std::nullopt;
    auto [list, element] = *bound;
    const std::size_t elements = graph_.nodes[list].binds.size();
    if (side == Side::Received) {
      const auto sent = blocks_.sent(list);
      if (!sent || blocks_.exchange(list).text != node.text ||
          blocks_.exchange(list).exprs.size() != node.exprs.size())
        return std::nullopt;
      list = *sent;
    }
    const std::vector<Symbol>& binds = graph_.nodes[list].binds;
    const std::size_t block = elements / ranks;
    if (binds.size() != elements || elements % ranks != 0 || element / block != peer)
      return std::nullopt;
    firsts[symbol] = Expr::symbol(binds[element % block]);
  }
  return rows.substitute(firsts);
} catch (const shapes::OverflowError&) {
  return std::nullopt;
}

}  // namespace lockstep::worker
