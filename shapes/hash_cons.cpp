#include <array>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <lockstep/shapes/hash_cons.h>

namespace lockstep::shapes {
namespace {

// Of addresses: good enough to find a node, and of no other use.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t value) {
  return (seed ^ value) * 0x9E3779B97F4A7C15ull ^ (seed >> 29);
}

std::uint64_t address(const void* node) { return reinterpret_cast<std::uintptr_t>(node) >> 4; }

std::uint64_t hash_of(const Expr::Sum& sum) {
  std::uint64_t hash = sum.terms.size();
  for (const auto& term : sum.terms) {
    hash = mixed(hash, static_cast<std::uint64_t>(term.coefficient));
    for (const auto& factor : term.factors)
      hash = mixed(hash, address(factor.atom.get()) + factor.power);
  }
  return hash;
}

std::uint64_t hash_of(const Expr::Atom& atom) {
  std::uint64_t hash = mixed(static_cast<std::uint64_t>(atom.op) + 1,
                             atom.symbol.serial * 2ull + (atom.symbol.unbacked ? 1 : 0));
  for (const auto& operand : atom.operands) hash = mixed(hash, address(operand.identity()));
  return hash;
}

bool same(const Expr::Sum& a, const Expr::Sum& b) {
  if (a.terms.size() != b.terms.size()) return false;
  for (std::size_t i = 0; i < a.terms.size(); ++i) {
    const auto &x = a.terms[i], &y = b.terms[i];
    if (x.coefficient != y.coefficient || x.factors.size() != y.factors.size()) return false;
    for (std::size_t j = 0; j < x.factors.size(); ++j) {
      if (x.factors[j].atom != y.factors[j].atom || x.factors[j].power != y.factors[j].power)
        return false;
    }
  }
  return true;
}

bool same(const Expr::Atom& a, const Expr::Atom& b) {
  return a.op == b.op && a.symbol == b.symbol && a.operands == b.operands;
}

// Nodes of one type by what they are made of. A node whose last holder is gone takes itself out, so
// the table never holds one alive, and it is freed outside the lock: its parts may be the last ones
// of their kind too.
template <class Node>
class Table {
 public:
  std::shared_ptr<const Node> unique(Node made) {
    const std::uint64_t hash = hash_of(made);
    Shard& shard = shard_of(hash);
    const std::lock_guard lock(shard.mutex);
    auto [at, end] = shard.nodes.equal_range(hash);
    for (; at != end; ++at) {
      if (!same(*at->second.node, made)) continue;
      if (auto held = at->second.held.lock()) return held;
    }
    auto* node = new Node(std::move(made));
    std::shared_ptr<const Node> out(node, [this, hash](const Node* gone) { remove(hash, gone); });
    shard.nodes.emplace(hash, Slot{node, out});
    return out;
  }

 private:
  struct Slot {
    const Node* node;
    std::weak_ptr<const Node> held;
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_multimap<std::uint64_t, Slot> nodes;
  };

  Shard& shard_of(std::uint64_t hash) { return shards_[hash >> 60]; }

  void remove(std::uint64_t hash, const Node* gone) {
    Shard& shard = shard_of(hash);
    {
      const std::lock_guard lock(shard.mutex);
      auto [at, end] = shard.nodes.equal_range(hash);
      while (at != end && at->second.node != gone) ++at;
      if (at != end) shard.nodes.erase(at);
    }
    delete gone;
  }

  std::array<Shard, 16> shards_;
};

// Never destroyed: expressions of static storage may outlive any order of destruction.
template <class Node>
Table<Node>& table() {
  static auto* const only = new Table<Node>;
  return *only;
}

}  // namespace

std::shared_ptr<const Expr::Sum> unique_sum(std::vector<Expr::Term> terms) {
  bool unbacked = false;
  for (const auto& term : terms)
    for (const auto& factor : term.factors) unbacked = unbacked || factor.atom->unbacked;
  return table<Expr::Sum>().unique({std::move(terms), unbacked});
}

std::shared_ptr<const Expr::Atom> unique_atom(Expr::Atom atom) {
  return table<Expr::Atom>().unique(std::move(atom));
}

}  // namespace lockstep::shapes
