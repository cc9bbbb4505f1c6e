#include <algorithm>
#include <map>

#include <lockstep/worker/compile/codegen/plan.h>
#include <lockstep/worker/tensor/graph/error_sync_points.h>
#include <lockstep/worker/tensor/graph/index_range.h>
#include <lockstep/worker/tensor/graph/op_map.h>

namespace lockstep::worker {
namespace {

constexpr OpMap<Step::Kind> kProducts(of_class<OpClass::Product>,
                                      {{Op::Matmul, Step::Kind::Matmul},
                                       {Op::SegmentMatmul, Step::Kind::SegmentMatmul},
                                       {Op::SegmentOuter, Step::Kind::SegmentOuter},
                                       {Op::Attention, Step::Kind::Attention},
                                       {Op::AttentionGradient, Step::Kind::Attention}});

/// Most values that one kernel makes. More would only cost registers.
constexpr std::size_t kMaxRoots = 8;

bool is_elementwise_root(const Node& node) {
  const OpClass kind = op_row(node.op).kind;
  return kind == OpClass::Elementwise || (kind == OpClass::Source && node.op != Op::Input) ||
         (kind == OpClass::View && node.op != Op::Cat) || picks(node.op);
}

class Reader {
 public:
  Reader(const Graph& graph, const Plan& plan, Reads& reads)
      : graph_(graph), plan_(plan), reads_(reads) {}

  /// Adds everything that the op of `id` reads: also what operands without memory read.
  void visit_op(NodeId id, bool pointwise) {
    if (!seen_.insert({id, pointwise}).second) return;
    const Node& node = graph_.nodes[id];
    for (const auto& expr : node.exprs) add_symbols(expr);
    for (const auto& size : node.meta.sizes) add_symbols(size);
    if (picks(node.op)) reads_.picks.insert(id);
    const bool keeps = pointwise && op_row(node.op).kind == OpClass::Elementwise;
    for (NodeId operand : node.inputs) visit(operand, keeps);
  }

 private:
  void visit(NodeId id, bool pointwise) {
    if (!plan_.in_memory(id)) return visit_op(id, pointwise);
    for (const auto& size : graph_.nodes[id].meta.sizes) add_symbols(size);
    reads_.loads.insert({plan_.storage[id], pointwise && plan_.storage[id] == id});
  }
  void add_symbols(const shapes::Expr& expr) {
    for (shapes::Symbol symbol : expr.symbols()) reads_.symbols.insert(symbol);
  }
  const Graph& graph_;
  const Plan& plan_;
  Reads& reads_;
  std::set<std::pair<NodeId, bool>> seen_;
};

/// Puts the steps in node order, and elementwise values into an earlier kernel if they fit there.
class Scheduler {
 public:
  Scheduler(const Graph& graph, Plan& plan)
      : graph_(graph), plan_(plan), points_(error_sync_points(graph)) {}

  void run() {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id)
      if (plan_.live[id]) place(id);
    if (points_.at_end) add(Step::Kind::Settle, 0);
    drop_local_stores();
  }

 private:
  std::size_t add(Step::Kind kind, NodeId id, std::vector<NodeId> roots = {}) {
    plan_.steps.push_back({kind, id, std::move(roots)});
    loads_.emplace_back();
    return plan_.steps.size() - 1;
  }

  void add_joint_acts(NodeId id) {
    for (const JointAct act : points_.acts_before(graph_, id)) switch (act) {
        case JointAct::CheckSplits:
          add(Step::Kind::SplitsCheck, id);
          break;
        case JointAct::CompareSizes:
          add(Step::Kind::SizesExchange, id);
          plan_.steps.back().sizes = points_.same[id];
          break;
        case JointAct::CompareSplits:
          add(Step::Kind::SplitsExchange, id);
          break;
        case JointAct::Vote:
          add(Step::Kind::Settle, id);
          break;
      }
  }

  void place(NodeId id) {
    const Node& node = graph_.nodes[id];
    switch (op_row(node.op).kind) {
      case OpClass::Collective:
        add_joint_acts(id);
        made_[id] = add(Step::Kind::Collective, id);
        plan_.steps.back().carries_status = points_.before[id] == ErrorSync::Piggybacked;
        return;
      case OpClass::Control:
        add_joint_acts(id);
        made_[id] = add(Step::Kind::Control, id);
        plan_.steps.back().compares = points_.compares[id];
        return;
      case OpClass::Result:
        made_[id] = made_.at(node.inputs[0]);
        plan_.steps[made_[id]].roots.push_back(id);
        return;
      case OpClass::HostSync:
        for (shapes::Symbol symbol : node.binds) bound_[symbol] = plan_.steps.size();
        add(Step::Kind::HostSync, id);
        return;
      case OpClass::Check:
        if (node.asserts.at(0).predicate.constant() != std::optional<bool>(true))
          add(Step::Kind::Assert, id);
        return;
      case OpClass::Product:
        if (node.op == Op::SegmentMatmul || node.op == Op::SegmentOuter)
          add_check(Step::Kind::CountsCheck, id, node.inputs[2],
                    graph_.nodes[node.inputs[0]].meta.sizes[0]);
        made_[id] = add(kProducts[node.op], id);
        return;
      case OpClass::Own:
        made_[id] = add(Step::Kind::HostCall, id);
        return;
      case OpClass::Source:
      case OpClass::Elementwise:
      case OpClass::View:
      case OpClass::Reduction:
      case OpClass::Index:
        place_kernel(id);
    }
  }

  void place_kernel(NodeId id) {
    const Node& node = graph_.nodes[id];
    if (const auto list = checked_list(graph_, id))
      checked_[id] = add_check(Step::Kind::IndexCheck, id, list->index, list->limit);
    if (node.op == Op::SegmentIds)
      add_check(Step::Kind::CountsCheck, id, node.inputs[0], node.meta.sizes[0]);
    if (!plan_.stored[id] || node.op == Op::Input) return;
    const Reads reads = reads_of(graph_, plan_, id);
    std::size_t step = plan_.steps.size();
    if (const auto joined = is_elementwise_root(node) ? find_kernel(id, reads) : std::nullopt) {
      step = *joined;
      plan_.steps[step].roots.push_back(id);
    } else {
      add(Step::Kind::Kernel, id, {id});
    }
    made_[id] = step;
    loads_[step].insert(reads.loads.begin(), reads.loads.end());
  }

  /// Returns the step that checks `list` against `limit`. Adds it if the plan has no such step.
  std::size_t add_check(Step::Kind kind, NodeId id, NodeId list, const shapes::Expr& limit) {
    for (const Check& check : checks_)
      if (check.kind == kind && check.list == plan_.storage[list] && check.limit == limit)
        return check.step;
    checks_.push_back({kind, plan_.storage[list], limit, add(kind, id)});
    return checks_.back().step;
  }

  /// Returns the latest kernel that has the sizes of `id`, reads or makes a value that `id` reads,
  /// and can make `id`.
  std::optional<std::size_t> find_kernel(NodeId id, const Reads& reads) const {
    for (std::size_t step = plan_.steps.size(); step-- > 0;) {
      const PlannedStep& kernel = plan_.steps[step];
      // A view in `id` may be in range only because of this assert.
      if (kernel.kind == Step::Kind::Assert) return std::nullopt;
      if (kernel.kind != Step::Kind::Kernel || !is_elementwise_root(graph_.nodes[kernel.node]))
        continue;
      if (kernel.roots.size() < kMaxRoots &&
          graph_.nodes[kernel.node].meta.sizes == graph_.nodes[id].meta.sizes &&
          shares(step, reads) && ready(step, reads))
        return step;
    }
    return std::nullopt;
  }

  bool shares(std::size_t step, const Reads& reads) const {
    return std::ranges::any_of(reads.loads, [&](const Reads::Load& load) {
      if (is_single(graph_.nodes[load.storage])) return false;
      const auto made = made_.find(load.storage);
      return (made != made_.end() && made->second == step) ||
             loads_[step].contains({load.storage, true}) ||
             loads_[step].contains({load.storage, false});
    });
  }

  bool ready(std::size_t step, const Reads& reads) const {
    for (const Reads::Load& load : reads.loads) {
      const auto made = made_.find(load.storage);
      if (made == made_.end()) continue;  // an input
      if (made->second > step || (made->second == step && !load.pointwise)) return false;
      // `id` reads this value of the kernel per element, but also in another order.
      if (made->second == step && reads.loads.contains({load.storage, false})) return false;
    }
    for (shapes::Symbol symbol : reads.symbols)
      if (const auto bound = bound_.find(symbol); bound != bound_.end() && bound->second > step)
        return false;
    return std::ranges::all_of(reads.picks, [&](NodeId pick) {
      const auto checked = checked_.find(pick);  // absent: its indices are always in range
      return checked == checked_.end() || checked->second < step;
    });
  }

  /// Removes from memory each value that only its own kernel reads.
  void drop_local_stores() {
    const auto required = required_in_memory(graph_, plan_);
    std::vector<bool> read_elsewhere(graph_.nodes.size(), false);
    for (std::size_t step = 0; step < plan_.steps.size(); ++step)
      for (const Reads::Load& load : loads_[step]) {
        const auto made = made_.find(load.storage);
        if (made == made_.end() || made->second != step) read_elsewhere[load.storage] = true;
      }
    for (PlannedStep& step : plan_.steps) {
      step.flat = std::ranges::all_of(step.roots, [&](NodeId id) { return plan_.flat[id]; });
      const auto local = [&](NodeId id) { return !required[id] && !read_elsewhere[id]; };
      for (NodeId id : step.roots)
        if (local(id)) plan_.stored[id] = false;
      std::erase_if(step.roots, local);
    }
  }

  struct Check {
    Step::Kind kind;
    NodeId list;
    shapes::Expr limit;
    std::size_t step;
  };
  const Graph& graph_;
  Plan& plan_;
  ErrorSyncPoints points_;
  std::map<NodeId, std::size_t> made_, checked_;
  std::map<shapes::Symbol, std::size_t> bound_;
  std::vector<std::set<Reads::Load>> loads_;  // per step
  std::vector<Check> checks_;
};

}  // namespace

Reads reads_of(const Graph& graph, const Plan& plan, NodeId root) {
  Reads reads;
  Reader(graph, plan, reads).visit_op(root, true);
  return reads;
}

Plan plan(const Graph& graph) {
  Plan out;
  choose_storage(graph, out);
  Scheduler(graph, out).run();
  return out;
}

}  // namespace lockstep::worker
