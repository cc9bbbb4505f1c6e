#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/compile/run/run_failure.h>
#include <lockstep/worker/job/preview/valueless.h>

namespace lockstep::worker {
namespace {

/// An output of a graph that did not run.
class Missing final : public DeviceMemory {
 public:
  Missing(std::string what, NeededValue needed)
      : what_(std::move(what)), needed_(std::move(needed)) {}
  [[nodiscard]] Result<void> fetch(void*, std::size_t) const override {
    needed_(what_);
    return bad_input(what_);
  }

 private:
  std::string what_;
  NeededValue needed_;
};

std::shared_ptr<const DeviceMemory> missing(const Graph& graph, const std::string& output,
                                            std::string_view what, const NeededValue& needed) {
  return std::make_shared<Missing>(
      fmt::format("output '{}' of {} has no {}", output, graph.name, what), needed);
}

/// nullopt if a size is known only in the run.
std::optional<std::vector<std::int64_t>> sizes_of(const Node& node,
                                                  const shapes::Valuation& values) {
  std::vector<std::int64_t> out;
  for (const shapes::Expr& size : node.meta.sizes) {
    const auto value = size.evaluate(values);
    if (!value || *value < 0) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

}  // namespace

Result<std::vector<Array>> valueless_outputs(const Graph& graph, const Inputs& inputs,
                                             const NeededValue& needed) {
  std::map<shapes::Symbol, std::int64_t> symbols;
  for (const SymbolBinding& binding : graph.symbols) {
    const auto value = bound_value(binding, inputs);
    if (!value) return value.error();
    symbols[binding.symbol] = *value;
  }
  const shapes::Valuation values = [&](shapes::Symbol symbol) -> std::optional<std::int64_t> {
    const auto found = symbols.find(symbol);
    return found == symbols.end() ? std::nullopt : std::optional(found->second);
  };
  std::vector<Array> outputs;
  for (const Graph::Output& output : graph.outputs) {
    const Node& node = graph.nodes[output.node];
    if (node.op == Op::Input) {
      auto input = bound_input(node, inputs);
      if (!input) return input.error();
      outputs.push_back(std::move(*input));
      continue;
    }
    const auto number = node.op == Op::Scalar ? node.exprs[0].evaluate(values) : std::nullopt;
    const auto sizes = sizes_of(node, values);
    if (number) {
      outputs.emplace_back(DType::I64, std::vector<std::int64_t>{});
      *outputs.back().data_as<std::int64_t>() = *number;
    } else if (sizes) {
      outputs.push_back(Array::far(node.meta.dtype, *sizes,
                                   missing(graph, output.name, "value in a trace", needed)));
    } else {
      outputs.push_back(Array::unsized(
          node.meta.dtype,
          missing(graph, output.name, "size before the graph runs, and nothing runs in a trace",
                  needed)));
    }
  }
  return outputs;
}

}  // namespace lockstep::worker
