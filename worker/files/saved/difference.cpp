#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/files/saved/difference.h>

namespace lockstep::worker {
namespace {

/// Most cells of the table for the longest common sequence. Without the table only common
/// beginnings and ends of two graphs are paired.
constexpr std::size_t kMostCells = std::size_t{1} << 26;

std::string line_of(const Graph& graph, NodeId id) {
  const shapes::Location& where = graph.nodes[id].where;
  return graph.node_text(id) + (where.file.empty() ? "" : "   # " + where.text());
}

/// Fingerprint of the node without its operands.
shapes::Fingerprint key_of(Node node) {
  node.inputs.assign(node.inputs.size(), 0);
  return node_fingerprint(node);
}

using Pairs = std::vector<std::pair<NodeId, NodeId>>;  // ascending in both

/// Returns a longest common subsequence of two graphs' node keys, as pairs of node ids.
Pairs common_sequence(const std::vector<shapes::Fingerprint>& a,
                      const std::vector<shapes::Fingerprint>& b) {
  std::size_t head = 0, tail = 0;
  while (head < a.size() && head < b.size() && a[head] == b[head]) ++head;
  while (tail < a.size() - head && tail < b.size() - head &&
         a[a.size() - 1 - tail] == b[b.size() - 1 - tail])
    ++tail;
  Pairs out;
  for (std::size_t i = 0; i < head; ++i)
    out.emplace_back(static_cast<NodeId>(i), static_cast<NodeId>(i));
  const std::size_t n = a.size() - head - tail, m = b.size() - head - tail;
  if (n > 0 && m > 0 && n <= kMostCells / m) {
    // length[i][j]: length of the longest common subsequence of a from i on and b from j on.
    std::vector<std::uint32_t> length((n + 1) * (m + 1), 0);
    const auto at = [&](std::size_t i, std::size_t j) -> std::uint32_t& {
      return length[i * (m + 1) + j];
    };
    for (std::size_t i = n; i-- > 0;)
      for (std::size_t j = m; j-- > 0;)
        at(i, j) = a[head + i] == b[head + j] ? at(i + 1, j + 1) + 1
                                              : std::max(at(i + 1, j), at(i, j + 1));
    for (std::size_t i = 0, j = 0; i < n && j < m;) {
      if (a[head + i] == b[head + j])
        out.emplace_back(static_cast<NodeId>(head + i++), static_cast<NodeId>(head + j++));
      else if (at(i + 1, j) >= at(i, j + 1))
        ++i;
      else
        ++j;
    }
  }
  for (std::size_t i = 0; i < tail; ++i)
    out.emplace_back(static_cast<NodeId>(a.size() - tail + i),
                     static_cast<NodeId>(b.size() - tail + i));
  return out;
}

class Comparison {
 public:
  void programs(const SavedProgram& a, const SavedProgram& b) {
    const auto header = [](const SavedProgram& program) {
      std::vector<std::string> groups;
      for (const auto& [name, ranks] : program.groups)
        groups.push_back(fmt::format("{} of {}", name, ranks));
      return std::vector<std::pair<std::string, std::string>>{
          {"frame", program.frame},
          {"ranks", fmt::format("{}{}", program.ranks,
                                program.group.empty() ? "" : " of group " + program.group)},
          {"consistency",
           std::string(program.audit ? "audited" : consistency_name(program.consistency))},
          {"complex branches", program.complex_as_asserts ? "asserts" : "guards"},
          {"declared sizes", fmt::format("{}", fmt::join(program.constraints, "; "))},
          {"groups", fmt::format("{}", fmt::join(groups, "; "))}};
    };
    const auto of_a = header(a), of_b = header(b);
    for (std::size_t i = 0; i < of_a.size(); ++i)
      add(of_a[i].first, of_a[i].second, of_b[i].second);
    entries(a, b);
  }
  [[nodiscard]] std::vector<ProgramDifference> take() && { return std::move(found_); }

 private:
  void add(const std::string& where, const std::string& a, const std::string& b) {
    if (a != b) found_.push_back({where, a, b});
  }

  void entries(const SavedProgram& a, const SavedProgram& b) {
    std::set<std::size_t> taken;
    const auto partner = [&](std::size_t i) -> std::optional<std::size_t> {
      for (std::size_t j = 0; j < b.entries.size(); ++j)
        if (!taken.contains(j) && b.entries[j].told().digest() == a.entries[i].told().digest())
          return j;
      if (i < b.entries.size() && !taken.contains(i)) return i;
      return std::nullopt;
    };
    for (std::size_t i = 0; i < a.entries.size(); ++i) {
      const std::string name = fmt::format("entry {}", i);
      if (const auto j = partner(i)) {
        taken.insert(*j);
        entry(name, a.entries[i], b.entries[*j]);
      } else {
        add(name, decision_text(a.entries[i].decision), "");
      }
    }
    for (std::size_t j = 0; j < b.entries.size(); ++j)
      if (!taken.contains(j))
        add(fmt::format("entry {}", j), "", decision_text(b.entries[j].decision));
  }

  void entry(const std::string& name, const SavedEntry& a, const SavedEntry& b) {
    if (a.decision.digest() != b.decision.digest())
      add(name + ", decision", decision_text(a.decision), decision_text(b.decision));
    const std::size_t before = found_.size();
    conditions(name + ", guards", a, b);
    graph(name, a.graph, b.graph);
    // If the graphs differ in something that no line shows, such as the order of guards, shows
    // their fingerprints.
    if (found_.size() == before)
      add(name + ", fingerprint", a.graph.fingerprint().text(), b.graph.fingerprint().text());
  }

  /// Adds the conditions that only one of the two entries has, whatever their order.
  void conditions(const std::string& where, const SavedEntry& a, const SavedEntry& b) {
    const auto of = [](const SavedEntry& entry) {
      const auto namer = entry.decision.source_namer(entry.graph.host_values());
      std::vector<std::pair<std::string, std::string>> out;  // compared text; text with its line
      for (const shapes::Guard& guard : entry.graph.guards) {
        const std::string text = guard.predicate.text(namer);
        out.emplace_back(text, text + "   # " + guard.where.text());
      }
      for (const GroupGuard& guard : entry.graph.group_guards) {
        const std::string text = fmt::format(
            "{} on {}: {}", guard.predicate.text(namer),
            guard.over == GroupGuard::Over::Any ? "some rank" : "all ranks", guard.value);
        out.emplace_back(text, text + "   # " + guard.where.text());
      }
      for (const UniformSize& size : entry.graph.uniform) {
        const std::string text = fmt::format("{} is the same on all ranks{}", size.expr.text(namer),
                                             size.group.empty() ? "" : " of group " + size.group);
        out.emplace_back(text, text + "   # " + size.where.text());
      }
      return out;
    };
    const auto of_a = of(a), of_b = of(b);
    const auto has = [](const auto& all, const std::string& text) {
      return std::ranges::any_of(all, [&](const auto& one) { return one.first == text; });
    };
    for (const auto& [text, line] : of_a)
      if (!has(of_b, text)) add(where, line, "");
    for (const auto& [text, line] : of_b)
      if (!has(of_a, text)) add(where, "", line);
  }

  void graph(const std::string& name, const Graph& a, const Graph& b) {
    if (a.fingerprint() == b.fingerprint()) return;
    std::vector<shapes::Fingerprint> keys_a, keys_b;
    for (const Node& node : a.nodes) keys_a.push_back(key_of(node));
    for (const Node& node : b.nodes) keys_b.push_back(key_of(node));
    const Pairs pairs = common_sequence(keys_a, keys_b);
    std::vector<std::optional<NodeId>> beside(a.nodes.size());
    NodeId next_a = 0, next_b = 0;
    const auto alone = [&](NodeId end_a, NodeId end_b) {
      // Pairs unmatched nodes in order: most often a pair is one changed line.
      for (; next_a < end_a && next_b < end_b; ++next_a, ++next_b) {
        add(name + ", node", line_of(a, next_a), line_of(b, next_b));
        bodies(name, a, next_a, b, next_b);
      }
      for (; next_a < end_a; ++next_a) add(name + ", node", line_of(a, next_a), "");
      for (; next_b < end_b; ++next_b) add(name + ", node", "", line_of(b, next_b));
    };
    for (const auto& [i, j] : pairs) {
      alone(i, j);
      beside[i] = j;
      bool same = true;
      for (std::size_t k = 0; same && k < a.nodes[i].inputs.size(); ++k)
        same = beside[a.nodes[i].inputs[k]] == b.nodes[j].inputs[k];
      if (!same) add(name + ", node", line_of(a, i), line_of(b, j));
      next_a = i + 1, next_b = j + 1;
    }
    alone(static_cast<NodeId>(a.nodes.size()), static_cast<NodeId>(b.nodes.size()));
    outputs(name, a, b, beside);
  }

  /// Compares the bodies of two nodes that were paired although they differ.
  void bodies(const std::string& name, const Graph& a, NodeId i, const Graph& b, NodeId j) {
    const auto &of_a = a.nodes[i].bodies, &of_b = b.nodes[j].bodies;
    if (a.nodes[i].op != b.nodes[j].op) return;
    for (std::size_t k = 0; k < of_a.size() && k < of_b.size(); ++k)
      graph(fmt::format("{}, body {} of %{}", name, k, i), *of_a[k], *of_b[k]);
  }

  void outputs(const std::string& name, const Graph& a, const Graph& b,
               const std::vector<std::optional<NodeId>>& beside) {
    const auto text = [](const Graph::Output& output) {
      return fmt::format("{} = %{}", output.name, output.node);
    };
    for (std::size_t k = 0; k < std::max(a.outputs.size(), b.outputs.size()); ++k) {
      const bool in_a = k < a.outputs.size(), in_b = k < b.outputs.size();
      if (in_a && in_b && a.outputs[k].name == b.outputs[k].name &&
          beside[a.outputs[k].node] == b.outputs[k].node)
        continue;
      add(name + ", output", in_a ? text(a.outputs[k]) : "", in_b ? text(b.outputs[k]) : "");
    }
  }

  std::vector<ProgramDifference> found_;
};

}  // namespace

std::vector<ProgramDifference> differences(const SavedProgram& a, const SavedProgram& b) {
  Comparison comparison;
  comparison.programs(a, b);
  return std::move(comparison).take();
}

std::string differences_text(const std::vector<ProgramDifference>& found) {
  std::string out;
  const std::string* place = nullptr;
  for (const ProgramDifference& one : found) {
    if (place == nullptr || *place != one.where) out += one.where + "\n";
    place = &one.where;
    if (!one.a.empty()) out += "  - " + one.a + "\n";
    if (!one.b.empty()) out += "  + " + one.b + "\n";
  }
  return out;
}

}  // namespace lockstep::worker
