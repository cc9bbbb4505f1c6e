#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/tensor/autodiff/control_flow.h>
#include <lockstep/worker/tensor/graph/graph.h>
#include <lockstep/worker/tensor/language/op_builder.h>

namespace lockstep::worker {
namespace {

std::vector<TensorMeta> metas_of(const std::vector<Tensor>& tensors) {
  std::vector<TensorMeta> metas;
  for (const Tensor& tensor : tensors) metas.push_back(meta_of(tensor));
  return metas;
}

std::vector<TensorMeta> asked(const ShapeRule& rule, const std::vector<TensorMeta>& inputs,
                              const Line& where) {
  try {
    return rule(inputs);
  } catch (const shapes::OverflowError&) {
    throw;
  } catch (const std::exception& error) {
    std::vector<std::string> given;
    for (const TensorMeta& input : inputs) given.push_back(meta_text(input));
    refuse(
        where, "allow_in_graph",
        fmt::format("its shape rule does not take ({}): {}", fmt::join(given, ", "), error.what()));
  }
}

/// Result `i` with the sizes that the rule gives.
Tensor with_sizes(const Tensor& result, const TensorMeta& said, std::size_t i, const Line& where) {
  const TensorMeta found = meta_of(result);
  if (found == said) return result;
  const std::string both = fmt::format("result {} is {}, and the shape rule says {}", i,
                                       meta_text(found), meta_text(said));
  if (found.dtype != said.dtype || found.sizes.size() != said.sizes.size())
    refuse(where, "allow_in_graph", both);
  const auto equal = [&](std::size_t dim) {
    return SymInt(found.sizes[dim], result.trace()) == SymInt(said.sizes[dim], result.trace());
  };
  for (std::size_t dim = 0; dim < said.sizes.size(); ++dim) {
    if (statically_true(!equal(dim))) refuse(where, "allow_in_graph", both);
    check(equal(dim), "allow_in_graph: " + both, where);
  }
  return view(result, said.sizes, where);
}

}  // namespace

TracedFunction allow_in_graph(TracedFunction f, ShapeRule rule, Line where) {
  return [f = allow_in_graph(std::move(f), where), rule = std::move(rule),
          where](const std::vector<Tensor>& inputs) {
    std::vector<Tensor> results = f(inputs);
    const std::vector<TensorMeta> said = asked(rule, metas_of(inputs), where);
    if (said.size() != results.size())
      refuse(where, "allow_in_graph",
             fmt::format("the function gives {} results, and its shape rule {}", results.size(),
                         said.size()));
    for (std::size_t i = 0; i < results.size(); ++i)
      results[i] = with_sizes(results[i], said[i], i, where);
    return results;
  };
}

}  // namespace lockstep::worker
