#include <array>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include <lockstep/shapes/expr/hash_cons.h>

namespace lockstep::shapes {
namespace {

// A hash of addresses, used only for the tables.
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

// A table of nodes of one type by content, chained through the nodes themselves. A node removes
// itself when its last holder is gone, so the table keeps no node alive. The parts of a node are
// freed outside the lock, because freeing them may remove their nodes, too.
template <class Node>
class Table {
 public:
  std::shared_ptr<const Node> unique(Node made) {
    const std::uint64_t hash = hash_of(made);
    Shard& shard = shard_of(hash);
    const std::lock_guard lock(shard.mutex);
    for (Held* at = shard.chain(hash); at != nullptr; at = at->next) {
      if (at->hash != hash || !same(*at, made)) continue;
      if (auto held = at->self.lock()) return held;
    }
    const auto out = std::make_shared<Held>(*this, hash, std::move(made));
    out->self = out;
    shard.insert(out.get());
    return out;
  }

 private:
  struct Held : Node {
    Held(Table& of, std::uint64_t hashed, Node&& made)
        : Node(std::move(made)), table(of), hash(hashed) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() { table.remove(this); }
    Table& table;
    std::uint64_t hash;
    Held* next = nullptr;
    std::weak_ptr<const Held> self;
  };
  struct Shard {
    std::mutex mutex;
    std::vector<Held*> chains = std::vector<Held*>(64);
    std::size_t count = 0;

    Held*& chain(std::uint64_t hash) { return chains[hash & (chains.size() - 1)]; }
    void insert(Held* node) {
      if (++count > chains.size()) grow();
      node->next = std::exchange(chain(node->hash), node);
    }
    void grow() {
      std::vector<Held*> before(chains.size() * 2);
      before.swap(chains);
      for (Held* node : before) {
        while (node != nullptr) {
          Held* const next = node->next;
          node->next = std::exchange(chain(node->hash), node);
          node = next;
        }
      }
    }
  };

  Shard& shard_of(std::uint64_t hash) { return shards_[hash >> 60]; }

  void remove(Held* gone) {
    Shard& shard = shard_of(gone->hash);
    const std::lock_guard lock(shard.mutex);
    Held** at = &shard.chain(gone->hash);
    while (*at != gone) at = &(*at)->next;
    *at = gone->next;
    --shard.count;
  }

  std::array<Shard, 16> shards_;
};

// Never destroyed, because expressions with static storage duration may be destroyed after it.
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
