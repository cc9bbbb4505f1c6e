#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/files/saved/program_text.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

std::string ranks_text(int ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }

std::string header_text(const SavedProgram& program) {
  std::string out = fmt::format(
      "program {}\n  of {}{}, {}{}{}\n", program.frame, ranks_text(program.ranks),
      program.group.empty() ? "" : " of group " + program.group,
      program.audit ? "audited" : consistency_name(program.consistency),
      program.complex_as_asserts ? ", complex branches as asserts" : "",
      program.packed ? fmt::format(", with objects for {}", program.packed->processor) : "");
  for (const std::string& constraint : program.constraints)
    out += fmt::format("  declared {}\n", constraint);
  for (const auto& [group, ranks] : program.groups)
    out += fmt::format("  group {} of {}\n", group, ranks_text(ranks));
  for (const auto& [name, node] : own_ops_of(program))
    out += fmt::format("  {} {}, definition {}\n", op_row(node->op).name, name,
                       node->own->fingerprint().text().substr(0, 8));
  return out;
}

std::string symbol_text(const SymbolBinding& binding, const SymbolDecision* decided) {
  std::string out = fmt::format("    {} = {}", binding.symbol.name(), binding.source);
  if (decided != nullptr && decided->min) out += fmt::format(", at least {}", *decided->min);
  return out + fmt::format(", example {}\n", binding.hint);
}

std::string input_text(const SourceDecision& source, const std::vector<shapes::Symbol>& symbols) {
  std::vector<std::string> dims;
  for (const DimDecision& dim : source.dims)
    dims.push_back(dim.is_symbol ? symbols[dim.symbol].name() : std::to_string(dim.value));
  const SourceSpec& spec = source.spec;
  if (spec.kind == Kind::Tensor)
    return fmt::format("    {}: {}[{}]\n", spec.name, dtype_name(spec.dtype),
                       fmt::join(dims, ", "));
  if (spec.kind == Kind::Bool) dims = {source.dims[0].value != 0 ? "true" : "false"};
  return fmt::format("    {}: {}{}{}\n", spec.name, kind_name(spec.kind), dims.empty() ? "" : " ",
                     fmt::join(dims, ""));
}

std::string guards_text(const SavedEntry& entry) {
  const auto namer = entry.decision.source_namer(entry.graph.host_values());
  std::string out;
  for (const shapes::Guard& guard : entry.graph.guards)
    out += fmt::format("    {}   # {}{}{}\n", guard.predicate.text(namer), guard.where.text(),
                       guard.note.empty() ? "" : ": ", guard.note);
  for (const GroupGuard& guard : entry.graph.group_guards)
    out += fmt::format("    {} on {} of the group: {}   # {}\n", guard.predicate.text(namer),
                       guard.over == GroupGuard::Over::Any ? "some rank" : "all ranks", guard.value,
                       guard.where.text());
  for (const UniformSize& size : entry.graph.uniform)
    out += fmt::format("    {} is the same on all ranks{}   # {} at {}\n", size.expr.text(namer),
                       size.group.empty() ? "" : " of group " + size.group, size.what,
                       size.where.text());
  return out;
}

std::string entry_text(const SavedEntry& entry, std::size_t number) {
  const Graph& graph = entry.graph;
  const std::vector<shapes::Symbol> symbols = entry.decision.trace_symbols();
  std::string out = fmt::format("entry {}, graph {}\n", number, graph.fingerprint().text());
  out += "  inputs\n";
  for (const SourceDecision& source : entry.decision.sources) out += input_text(source, symbols);
  for (const JoinedField& field : entry.decision.fields)
    out += fmt::format("    {}: field, {}\n", field.spec.name, joined_text(field));
  if (!graph.symbols.empty()) out += "  symbols\n";
  for (std::size_t i = 0; i < graph.symbols.size(); ++i)
    out += symbol_text(graph.symbols[i],
                       i < entry.decision.symbols.size() ? &entry.decision.symbols[i] : nullptr);
  if (const std::string guards = guards_text(entry); !guards.empty()) out += "  guards\n" + guards;
  if (!entry.objects.empty()) {
    std::size_t bytes = 0;
    for (const PackedObject& object : entry.objects) bytes += object.object.size();
    out += fmt::format("  objects of {} units, {} bytes\n", entry.objects.size(), bytes);
  }
  out += fmt::format("  nodes {}\n", graph.nodes.size());
  // Without symbols and guards, which are printed above in terms of the inputs.
  Graph nodes;
  nodes.nodes = graph.nodes;
  nodes.outputs = graph.outputs;
  const std::string text = nodes.text();
  for (std::size_t at = text.find('\n') + 1; at < text.size();) {
    const std::size_t end = text.find('\n', at) + 1;
    out += "  " + text.substr(at, end - at);
    at = end;
  }
  return out;
}

}  // namespace

std::string program_text(const SavedProgram& program) {
  std::string out = header_text(program);
  for (std::size_t i = 0; i < program.entries.size(); ++i) out += entry_text(program.entries[i], i);
  return out;
}

}  // namespace lockstep::worker
