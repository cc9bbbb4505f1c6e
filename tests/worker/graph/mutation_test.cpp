// Exhaustive mutation of graphs: whatever single field changes, the fingerprint changes; what
// breaks the structure, the verifier finds.
#include <cmath>
#include <functional>
#include <limits>

#include "tracing.h"
#include <gtest/gtest.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/autodiff/control_flow.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker::mutation_test {
namespace {

using shapes::Expr;
using shapes::Symbol;
using test::DecisionBuilder;
using test::dynamic;
using test::setup;

/// Tokens go to their experts and back, with gradients: collectives, host syncs, asserts, guards.
void experts_step(Trace& t) {
  const Tensor w = t.tensor_input(t.source("w")), x = t.tensor_input(t.source("x"));
  const Tensor count_in = t.tensor_input(t.source("counts"));
  const Tensor count_out = all_to_all_single(count_in);
  const std::vector<SymInt> in = tolist(count_in), out = tolist(count_out);
  if (x.size(0) > 3) check(x.size(0) < 1000, "a batch fits");
  const bool wide = group_any(x.size(0) > 50);
  const Tensor sent = all_to_all_single(wide ? x * 2.0 : x, out, in);
  const Tensor done = segment_matmul(sent, w, count_out);
  const Tensor back = all_to_all_single(relu(done), in, out);
  const Tensor loss = all_reduce(sum(back * back)) + cast(t.rank(), DType::F32);
  t.output("loss", loss);
  t.output("grad", grad(loss, {w})[0]);
}

/// Many ops of other classes.
void mixed_step(Trace& t) {
  const Tensor x = t.tensor_input(t.source("x"));
  const SymInt n = t.int_input(t.source("n"));
  const Tensor order = argsort(sum(x, {1}));
  const Tensor y = index_select(x, order);
  const Tensor z = cat({slice(y, 1, 1, 2), pad(y, 1, 1, 0)}, 1);
  const Tensor p = log_softmax(transpose(z, 0, 1), 0);
  const Tensor rows = index_add(x.size(0) + n, order, amax(p, {0}));
  t.output("a", where(rows > 0.5, rows, 0.25));
  t.output("b", one_hot(argmax(p, 0), 7, DType::F32));
  t.output("u", x[x > 0.5]);
  t.output("c", segment_ids(t.tensor_input(t.source("counts")), n) + iota({n}, 0));
}

/// Branches and loops, one with a collective in it.
void control_step(Trace& t) {
  const Tensor x = t.tensor_input(t.source("x"));
  const Tensor way = sum(all_reduce(t.tensor_input(t.source("counts")))) > 3;
  const std::vector<Tensor> taken = cond(
      way, [&](const auto&) { return std::vector{all_reduce(x) * 2.0}; },
      [&](const auto&) { return std::vector{x + 1.0}; });
  const Scanned rows = scan(
      [](const auto& c, const auto& row) {
        return Scanned{{c[0] + row[0]}, {c[0] * row[0]}};
      },
      {sum(x, {0})}, {taken[0]});
  const std::vector<Tensor> last =
      while_loop([](const auto& c) { return sum(c[0]) < 100.0; },
                 [&](const auto& c) { return std::vector{c[0] * 2.0}; }, rows.carry, 50);
  t.output("a", last[0]);
  t.output("b", allow_in_graph([](const auto& y) { return std::vector{tanh(y[0])}; })(rows.ys)[0]);
}

std::vector<Graph> sample_graphs() {
  const Decision experts = DecisionBuilder()
                               .tensor("counts", DType::I64, {2})
                               .tensor("w", DType::F32, {2, 4, 4})
                               .tensor("x", DType::F32, {dynamic(6), 4})
                               .get();
  const Decision mixed = DecisionBuilder()
                             .tensor("counts", DType::I64, {3})
                             .integer("n", dynamic(4))
                             .tensor("x", DType::F32, {dynamic(5, 0), 3})
                             .get();
  const Decision control = DecisionBuilder()
                               .tensor("counts", DType::I64, {2})
                               .tensor("x", DType::F32, {dynamic(5, 0), 3})
                               .get();
  std::vector<Graph> graphs;
  for (const auto& [decision, body, size] :
       {std::tuple{&experts, &experts_step, 2}, std::tuple{&mixed, &mixed_step, 1},
        std::tuple{&control, &control_step, 2}}) {
    Result<Graph> graph = trace(setup(*decision, size), *body);
    EXPECT_TRUE(graph.has_value()) << graph.error().text();
    if (graph) graphs.push_back(std::move(*graph));
  }
  return graphs;
}

struct Mutant {
  std::string what;
  std::function<void(Graph&)> apply;
  bool must_be_rejected = false;
};

/// Whatever changes in a body changes the node.
void mutate_bodies(NodeId id, const Node& node, std::vector<Mutant>& out) {
  const auto add = [&](std::size_t k, std::string what, std::function<void(Graph&)> change,
                       bool rejected) {
    out.push_back({"body of %" + std::to_string(id) + ": " + what,
                   [id, k, change](Graph& g) {
                     Graph body = *g.nodes[id].bodies[k];
                     change(body);
                     g.nodes[id].bodies[k] = std::make_shared<const Graph>(std::move(body));
                   },
                   rejected});
  };
  for (std::size_t k = 0; k < node.bodies.size(); ++k) {
    for (NodeId inner = 0; inner < node.bodies[k]->nodes.size(); ++inner)
      add(
          k, "a number", [inner](Graph& g) { g.nodes[inner].number += 1; },
          node.bodies[k]->nodes[inner].op != Op::Full &&
              node.bodies[k]->nodes[inner].op != Op::Reshape);
    add(
        k, "an output gone", [](Graph& g) { g.outputs.pop_back(); },
        node.op == Op::Cond || node.op == Op::While);
    add(
        k, "a dtype", [](Graph& g) { g.nodes[g.outputs[0].node].meta.dtype = DType::U8; }, true);
    if (!node.bodies[k]->symbols.empty())
      add(
          k, "a symbol gone", [](Graph& g) { g.symbols.pop_back(); }, true);
    out.push_back({"a body gone", [id](Graph& g) { g.nodes[id].bodies.pop_back(); }, true});
  }
}

void mutate_node(NodeId id, const Node& node, std::vector<Mutant>& out) {
  mutate_bodies(id, node, out);
  const auto add = [&](std::string what, std::function<void(Node&)> change, bool rejected = false) {
    out.push_back({"%" + std::to_string(id) + " " + std::string(op_row(node.op).name) + ": " + what,
                   [id, change](Graph& g) { change(g.nodes[id]); }, rejected});
  };
  for (const OpRow& row : kOps)
    if (row.op != node.op)
      add("op " + std::string(row.name), [op = row.op](Node& n) { n.op = op; });
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    add("operand", [i](Node& n) { n.inputs[i] += 1; });
    add(
        "operand later", [i, id](Node& n) { n.inputs[i] = id; }, true);
    add(
        "operand gone",
        [i](Node& n) { n.inputs.erase(n.inputs.begin() + static_cast<std::ptrdiff_t>(i)); },
        node.op != Op::Cat);
  }
  add(
      "operand more", [](Node& n) { n.inputs.push_back(0); }, id == 0 || node.op != Op::Cat);
  for (std::size_t i = 0; i < node.exprs.size(); ++i) {
    add("expr", [i](Node& n) { n.exprs[i] = n.exprs[i] + 1; });
    add(
        "expr symbol",
        [i](Node& n) {
          n.exprs[i] = Expr::symbol({true, 99});
        },
        true);
  }
  add(
      "expr more", [](Node& n) { n.exprs.emplace_back(1); }, true);
  for (std::size_t i = 0; i < node.ints.size(); ++i) {
    add("int", [i](Node& n) { n.ints[i] += 1; });
    add(
        "int far", [i](Node& n) { n.ints[i] = -7; }, true);
  }
  add(
      "int more", [](Node& n) { n.ints.push_back(-1); }, true);
  add(
      "number", [](Node& n) { n.number = n.number == 0 ? 0.5 : 0; },
      node.op != Op::Full && node.op != Op::Reshape);
  if (node.number == 0) add("negative zero", [](Node& n) { n.number = -0.0; });
  add(
      "text", [](Node& n) { n.text += "'"; },
      node.op != Op::Input && node.op != Op::Item && op_row(node.op).kind != OpClass::Collective);
  add(
      "dtype", [](Node& n) { n.meta.dtype = n.meta.dtype == DType::F32 ? DType::I32 : DType::F32; },
      node.op != Op::Input && node.op != Op::Full && node.op != Op::Cast);
  for (std::size_t i = 0; i < node.meta.sizes.size(); ++i)
    add("size", [i](Node& n) { n.meta.sizes[i] = n.meta.sizes[i] + 1; });
  add(
      "dim more", [](Node& n) { n.meta.sizes.emplace_back(5); },
      op_row(node.op).kind != OpClass::Source);
  for (std::size_t i = 0; i < node.asserts.size(); ++i) {
    add("predicate", [i](Node& n) { n.asserts[i].predicate = n.asserts[i].predicate.negated(); });
    add("message", [i](Node& n) { n.asserts[i].message += "!"; });
    add(
        "assert gone", [](Node& n) { n.asserts.clear(); }, true);
  }
  add(
      "assert more", [](Node& n) { n.asserts.push_back({}); }, true);
  for (std::size_t i = 0; i < node.binds.size(); ++i)
    add(
        "binds", [i](Node& n) { n.binds[i].serial += 50; }, true);
  add(
      "binds more",
      [](Node& n) {
        n.binds.push_back({true, 70});
      },
      true);
}

std::vector<Mutant> mutants_of(const Graph& graph) {
  std::vector<Mutant> out;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) mutate_node(id, graph.nodes[id], out);
  for (NodeId id = 0; id + 1 < graph.nodes.size(); ++id)
    out.push_back({"order", [id](Graph& g) { std::swap(g.nodes[id], g.nodes[id + 1]); }});
  out.push_back({"name", [](Graph& g) { g.name += "2"; }});
  out.push_back({"last node gone", [](Graph& g) { g.nodes.pop_back(); }});
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    out.push_back({"output name", [i](Graph& g) { g.outputs[i].name += "x"; }});
    out.push_back({"output node", [i](Graph& g) { g.outputs[i].node += 1; }});
    out.push_back({"output nowhere", [i](Graph& g) { g.outputs[i].node = 9999; }, true});
    out.push_back({"output gone", [i](Graph& g) {
                     g.outputs.erase(g.outputs.begin() + static_cast<std::ptrdiff_t>(i));
                   }});
  }
  for (std::size_t i = 0; i < graph.symbols.size(); ++i) {
    out.push_back({"symbol serial", [i](Graph& g) { g.symbols[i].symbol.serial += 10; }, true});
    out.push_back({"symbol kind", [i](Graph& g) { g.symbols[i].symbol.unbacked ^= true; }, true});
    out.push_back({"symbol source", [i](Graph& g) { g.symbols[i].source += "x"; }});
  }
  out.push_back({"symbol gone", [](Graph& g) { g.symbols.pop_back(); }, true});
  for (std::size_t i = 0; i < graph.guards.size(); ++i) {
    out.push_back(
        {"guard", [i](Graph& g) { g.guards[i].predicate = g.guards[i].predicate.negated(); }});
    out.push_back({"guard symbol",
                   [i](Graph& g) {
                     g.guards[i].predicate.expr = Expr::symbol({true, 0});
                   },
                   true});
    out.push_back({"guard gone", [](Graph& g) { g.guards.pop_back(); }});
  }
  for (std::size_t i = 0; i < graph.group_guards.size(); ++i) {
    out.push_back({"group guard", [i](Graph& g) {
                     g.group_guards[i].predicate = g.group_guards[i].predicate.negated();
                   }});
    out.push_back({"group value", [i](Graph& g) { g.group_guards[i].value ^= true; }});
    out.push_back(
        {"group over", [i](Graph& g) { g.group_guards[i].over = GroupGuard::Over::All; }});
    out.push_back({"group guard gone", [](Graph& g) { g.group_guards.pop_back(); }});
  }
  return out;
}

TEST(Mutation, AnyField_ChangesTheFingerprint) {
  std::size_t count = 0;
  for (const Graph& graph : sample_graphs()) {
    const shapes::Fingerprint original = graph.fingerprint();
    for (const Mutant& mutant : mutants_of(graph)) {
      Graph changed = graph;
      mutant.apply(changed);
      EXPECT_NE(changed.fingerprint(), original) << mutant.what;
      ++count;
    }
  }
  EXPECT_GT(count, 3000U);
}

TEST(Mutation, BrokenStructure_IsRejected) {
  for (const Graph& graph : sample_graphs()) {
    ASSERT_TRUE(graph.verify().has_value()) << graph.verify().error().text();
    for (const Mutant& mutant : mutants_of(graph)) {
      if (!mutant.must_be_rejected) continue;
      Graph changed = graph;
      mutant.apply(changed);
      const Result<void> verdict = changed.verify();
      ASSERT_FALSE(verdict.has_value()) << mutant.what << "\n" << graph.text();
      EXPECT_EQ(verdict.error().code, Code::Internal);
    }
  }
}

TEST(Mutation, ChangedSize_IsRejectedWhereARuleGivesIt) {
  for (const Graph& graph : sample_graphs())
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      const OpClass kind = op_row(graph.nodes[id].op).kind;
      if (kind == OpClass::Source || graph.nodes[id].op == Op::Expand ||
          graph.nodes[id].op == Op::Slice)
        continue;
      for (std::size_t d = 0; d < graph.nodes[id].meta.sizes.size(); ++d) {
        Graph changed = graph;
        changed.nodes[id].meta.sizes[d] = changed.nodes[id].meta.sizes[d] + 1;
        // A reshape is free to choose its sizes as long as it may hold as many elements.
        const Expr difference = shapes::product(changed.nodes[id].meta.sizes) -
                                shapes::product(graph.nodes[id].meta.sizes);
        if (graph.nodes[id].op == Op::Reshape && !difference.constant()) continue;
        EXPECT_FALSE(changed.verify().has_value()) << graph.node_text(id) << " dim " << d;
      }
    }
}

TEST(Mutation, Constants_ChangeTheFingerprintButNotTheSkeleton) {
  int constants = 0;
  for (const Graph& graph : sample_graphs()) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      Graph other = graph;
      Node& node = other.nodes[i];
      if (node.op == Op::Full) {
        node.number = std::isfinite(node.number) ? node.number + 1.5 : 0;
      } else if (node.op == Op::Slice && node.exprs[0].constant()) {
        node.exprs[0] = *node.exprs[0].constant() + 1;
      } else {
        node.text += "x";
        EXPECT_NE(prints_of(other).skeleton, prints_of(graph).skeleton);
        continue;
      }
      ++constants;
      EXPECT_NE(other.fingerprint(), graph.fingerprint());
      EXPECT_EQ(prints_of(other).skeleton, prints_of(graph).skeleton);
    }
  }
  EXPECT_GT(constants, 3);
}

TEST(Mutation, UserLinesAndHints_DoNotCount) {
  for (const Graph& graph : sample_graphs()) {
    Graph moved = graph;
    for (Node& node : moved.nodes) {
      node.where = {"elsewhere.cpp", 1};
      for (shapes::DeferredAssert& a : node.asserts) a.where = {"elsewhere.cpp", 1};
    }
    for (SymbolBinding& symbol : moved.symbols) symbol.hint += 17;
    for (shapes::Guard& guard : moved.guards) guard.where.line += 3;
    for (GroupGuard& guard : moved.group_guards) guard.where.line += 3;
    EXPECT_EQ(moved.fingerprint(), graph.fingerprint());
  }
}

TEST(Mutation, PrefixFingerprints_DifferFromTheFirstChangeOn) {
  for (const Graph& graph : sample_graphs()) {
    const std::vector<shapes::Fingerprint> before = prints_of(graph).prefixes;
    ASSERT_EQ(before.size(), graph.nodes.size());
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      Graph changed = graph;
      changed.nodes[id].number = changed.nodes[id].number == 0 ? 1 : 0;
      const std::vector<shapes::Fingerprint> after = prints_of(changed).prefixes;
      for (NodeId i = 0; i < graph.nodes.size(); ++i) EXPECT_EQ(before[i] == after[i], i < id);
    }
  }
}

TEST(Mutation, CollectivesFingerprint_CoversWhatRanksDoTogetherAndNothingElse) {
  const Graph graph = sample_graphs().front();
  int together = 0;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const OpClass kind = op_row(graph.nodes[id].op).kind;
    const bool counts = kind == OpClass::Collective || kind == OpClass::HostSync;
    together += counts;
    Graph changed = graph;
    changed.nodes[id].ints.push_back(1);
    EXPECT_EQ(changed.collectives_fingerprint() != graph.collectives_fingerprint(), counts);
    changed = graph;
    changed.nodes.erase(changed.nodes.begin() + id);
    EXPECT_EQ(changed.collectives_fingerprint() != graph.collectives_fingerprint(), counts);
  }
  EXPECT_GE(together, 5);
}

}  // namespace
}  // namespace lockstep::worker::mutation_test
