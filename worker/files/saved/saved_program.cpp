#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/code_cache.h>
#include <lockstep/worker/agree/exchange/consistency.h>
#include <lockstep/worker/files/saved/saved_program.h>
#include <lockstep/worker/tensor/graph/control.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

template <class Visit>
void each_node(const Graph& graph, const Visit& visit) {
  for (const Node& node : graph.nodes) {
    visit(graph, node);
    for (const auto& body : node.bodies) each_node(*body, visit);
  }
}

/// Matches "job.rank" and "job.rank(GROUP)": inputs that every rank fills by itself.
bool is_rank_source(std::string_view source, const SavedProgram& program) {
  constexpr std::string_view kRank = "job.rank";
  if (!source.starts_with(kRank)) return false;
  source.remove_prefix(kRank.size());
  if (source.empty()) return true;
  if (!source.starts_with('(') || !source.ends_with(')')) return false;
  return program.groups.contains(std::string(source.substr(1, source.size() - 2)));
}

/// Finds the first flaw of a program.
class Flaws {
 public:
  explicit Flaws(const SavedProgram& program) : program_(program) {}

  std::optional<std::string> find() {
    if (program_.frame.empty()) fail("the frame has no name");
    if (program_.entries.empty()) fail("there is no entry");
    if (program_.entries.size() > static_cast<std::size_t>(kMaxEntries))
      fail("there are {} entries, a frame has at most {}", program_.entries.size(), kMaxEntries);
    if (program_.audit && program_.consistency != Consistency::Local)
      fail("ranks that are audited agree on nothing");
    for (const SavedEntry& entry : program_.entries) {
      if (found_) break;
      entry_flaws(entry);
    }
    return found_;
  }

 private:
  template <class... Args>
  void fail(fmt::format_string<Args...> format, Args&&... args) {
    if (!found_) found_ = fmt::format(format, std::forward<Args>(args)...);
  }

  void entry_flaws(const SavedEntry& entry) {
    const Graph& graph = entry.graph;
    if (graph.name != program_.frame || graph.is_body)
      return fail("a graph is that of {}", graph.name);
    if (entry.reported && program_.consistency != Consistency::SharedSizes)
      return fail("an entry reports another decision than it has");
    if (!entry.objects.empty() && !program_.packed)
      return fail("it is not said what objects are packed for");
    const bool differ = program_.audit || program_.consistency == Consistency::SameCollectives ||
                        program_.consistency == Consistency::SharedSizes;
    if (graph.peers_may_differ != differ)
      return fail("a graph and the consistency do not say the same of other ranks");
    if (const Result<void> sound = graph.verify(); !sound) return fail("{}", sound.error().message);
    symbols(entry);
    inputs(entry);
    each_node(graph, [&](const Graph& within, const Node& node) { collective(within, node); });
    uniform(graph);
    each_node(graph, [&](const Graph&, const Node& node) {
      for (const auto& body : node.bodies) uniform(*body);
    });
  }

  /// Checks that the graph's symbols are those of the decision, then those of host values.
  void symbols(const SavedEntry& entry) {
    const std::vector<SymbolBinding>& bound = entry.graph.symbols;
    const std::vector<SymbolDecision>& decided = entry.decision.symbols;
    std::vector<shapes::Symbol> expected = entry.decision.trace_symbols();
    if (bound.size() < decided.size()) return fail("a graph lacks symbols of its decision");
    for (const shapes::Symbol symbol : entry.decision.host_symbols(bound.size() - decided.size()))
      expected.push_back(symbol);
    const auto known = entry.decision.list();
    const SourceList& list = *known;
    for (std::size_t i = 0; i < bound.size(); ++i) {
      const bool of_decision = i < decided.size();
      if (bound[i].symbol != expected[i] || of_decision != bound[i].value.steps.empty() ||
          (of_decision && bound[i].source != decided[i].source))
        return fail("symbol {} of a graph is not that of its decision", bound[i].symbol.name());
      if (!of_decision && !bound[i].value.well_formed([&](std::string_view source) {
            const auto at = list.find(source);
            return at && list.scalar(*at);
          }))
        return fail("{} is made of what is no number of an input", bound[i].symbol.name());
    }
  }

  void inputs(const SavedEntry& entry) {
    for (const Node& node : entry.graph.nodes) {
      if (node.op != Op::Input || is_rank_source(node.text, program_)) continue;
      const auto source = std::ranges::find(entry.decision.sources, node.text,
                                            [](const auto& s) { return s.spec.name; });
      if (source == entry.decision.sources.end())
        return fail("the decision has no input {}", node.text);
      const SourceSpec& spec = source->spec;
      const std::size_t ndim = spec.kind == Kind::Tensor ? spec.ndim : 0;
      if (node.meta.sizes.size() != ndim ||
          (spec.kind == Kind::Tensor && node.meta.dtype != spec.dtype))
        return fail("input {} is not what the decision says", node.text);
    }
  }

  /// Returns the number of ranks of `group`; nullopt if it is not known.
  [[nodiscard]] std::optional<std::int64_t> ranks(const std::string& group) const {
    if (group.empty()) return program_.ranks;
    const auto known = program_.groups.find(group);
    return known == program_.groups.end() ? std::nullopt
                                          : std::optional<std::int64_t>(known->second);
  }

  void collective(const Graph& within, const Node& node) {
    if (op_row(node.op).kind != OpClass::Collective) return;
    if (program_.consistency == Consistency::Local && !program_.audit)
      return fail("{} has a collective, but its ranks decide alone", within.name);
    const auto n = ranks(node.text);
    if (!n) return fail("it is not said how many ranks group {} has", node.text);
    const bool fits =
        node.op == Op::AllToAll    ? static_cast<std::int64_t>(node.exprs.size()) == 2 * *n
        : node.op == Op::Broadcast ? node.ints[0] < *n
        : node.op == Op::AllGather || node.op == Op::ReduceScatter ? node.ints[0] == *n
                                                                   : true;
    if (!fits) fail("{} at {} is not one of {} ranks", op_name(node), node.where.text(), *n);
  }

  void uniform(const Graph& graph) {
    for (const UniformSize& size : graph.uniform) {
      if (!ranks(size.group)) fail("it is not said how many ranks group {} has", size.group);
      for (const shapes::Symbol symbol : size.expr.symbols())
        if (std::ranges::find(graph.symbols, symbol, &SymbolBinding::symbol) ==
                graph.symbols.end() ||
            (symbol.unbacked && !graph.is_body))
          fail("{} is needed alike, but no input gives it", size.expr.text());
    }
  }

  const SavedProgram& program_;
  std::optional<std::string> found_;
};

}  // namespace

std::optional<std::string> first_error(const SavedProgram& program) {
  try {
    return Flaws(program).find();
  } catch (const std::exception& error) {  // sizes that exceed 64 bits, a body without outputs
    return error.what();
  }
}

shapes::Fingerprint SavedProgram::joint_fingerprint() const {
  shapes::FingerprintBuilder out;
  out.add("lockstep.saved_program/1").add(frame).add(consistency_name(consistency));
  out.add(std::int64_t{audit}).add(std::int64_t{complex_as_asserts}).add(group);
  out.add(std::int64_t{ranks});
  for (const std::string& constraint : constraints) out.add(constraint);
  for (const SavedEntry& entry : entries) {
    out.add(entry.told().digest());
    if (consistency == Consistency::SameGraph) out.add(entry.graph.fingerprint());
    if (consistency == Consistency::SameCollectives) out.add(entry.graph.collectives_fingerprint());
    out.add(static_cast<std::int64_t>(entry.graph.group_guards.size()));
    for (const GroupGuard& guard : entry.graph.group_guards)
      out.add(guard.predicate.text())
          .add(static_cast<std::int64_t>(guard.over))
          .add(std::int64_t{guard.value});
  }
  return out.finish();
}

std::vector<std::string> groups_of(const Graph& graph) {
  std::set<std::string> out;
  const auto add = [&](const std::vector<UniformSize>& sizes) {
    for (const UniformSize& size : sizes) out.insert(size.group);
  };
  add(graph.uniform);
  each_node(graph, [&](const Graph&, const Node& node) {
    if (op_row(node.op).kind == OpClass::Collective) out.insert(node.text);
    // "job.rank(tensor)"
    constexpr std::string_view kRank = "job.rank(";
    if (node.op == Op::Input && node.text.starts_with(kRank) && node.text.ends_with(')'))
      out.insert(node.text.substr(kRank.size(), node.text.size() - kRank.size() - 1));
    for (const auto& body : node.bodies) add(body->uniform);
  });
  out.erase("");
  return {out.begin(), out.end()};
}

std::optional<std::string> bound_to_ranks(const SavedProgram& program) {
  std::optional<std::string> out;
  const auto visit = [&](const Graph&, const Node& node) {
    const bool collective = op_row(node.op).kind == OpClass::Collective && node.text.empty();
    const bool number = node.op == Op::Input && is_rank_source(node.text, program);
    if (!out && (collective || number))
      out = fmt::format("{} at {}", collective ? op_name(node) : "the number of a rank",
                        node.where.text());
  };
  for (const SavedEntry& entry : program.entries) each_node(entry.graph, visit);
  return out;
}

std::map<std::string, const Node*> own_ops_of(const SavedProgram& program) {
  std::map<std::string, const Node*> out;
  for (const SavedEntry& entry : program.entries)
    each_node(entry.graph, [&](const Graph&, const Node& node) {
      if (node.own) out.emplace(node.own->name, &node);
    });
  return out;
}

}  // namespace lockstep::worker
