#include "joined_cases.h"

#include <string>

#include "tracing.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::test {
namespace {

std::string joined_name(const OpCase& op_case, std::size_t i) {
  return op_case.name + "." + case_input_name(i);
}

void trace_case(Trace& t, const OpCase& op_case) {
  std::vector<Tensor> inputs, floats;
  for (std::size_t i = 0; i < op_case.inputs.size(); ++i) {
    inputs.push_back(t.tensor_input(t.source(joined_name(op_case, i))));
    if (inputs.back().dtype() == DType::F64) floats.push_back(inputs.back());
  }
  const Tensor y = op_case.body(t, inputs);
  t.output(op_case.name, y);
  const std::vector<Tensor> grads = grad(sum(y * y), std::span<const Tensor>(floats));
  for (std::size_t i = 0; i < grads.size(); ++i)
    t.output(op_case.name + ".grad" + std::to_string(i), grads[i]);
}

}  // namespace

JoinedCases::JoinedCases(int ranks, std::size_t part, std::size_t parts) : ranks_(ranks) {
  std::size_t number = 0;
  for (const OpCase& op_case : op_cases())
    if (op_case.ranks == ranks && number++ % parts == part) cases_.push_back(&op_case);
}

Decision JoinedCases::decision() const {
  Decision all;
  for (const OpCase* op_case : cases_) {
    Decision one = case_decision(*op_case, 5, 4, true);
    for (std::size_t i = 0; i < one.sources.size(); ++i) {
      one.sources[i].spec.name = joined_name(*op_case, i);
      for (DimDecision& dim : one.sources[i].dims)
        if (dim.is_symbol) dim.symbol += static_cast<std::uint32_t>(all.symbols.size());
      all.sources.push_back(one.sources[i]);
    }
    for (SymbolDecision& symbol : one.symbols) symbol.source = op_case->name + "." + symbol.source;
    all.symbols.insert(all.symbols.end(), one.symbols.begin(), one.symbols.end());
  }
  return all;
}

Result<Graph> JoinedCases::traced() const {
  const Decision all = decision();
  return trace(setup(all, ranks_), [&](Trace& t) {
    for (const OpCase* op_case : cases_) trace_case(t, *op_case);
  });
}

std::vector<Inputs> JoinedCases::inputs(std::int64_t n, std::int64_t m, std::uint64_t seed) const {
  std::vector<Inputs> out;
  for (int rank = 0; rank < ranks_; ++rank) {
    Inputs mine;
    const std::vector<double> number{static_cast<double>(rank)};
    mine["job.rank"] = Array::of(DType::I64, {}, number);
    for (const OpCase* op_case : cases_) {
      const std::vector<Array> values = case_values(*op_case, n + rank, m, rank, seed);
      for (std::size_t i = 0; i < values.size(); ++i) mine[joined_name(*op_case, i)] = values[i];
    }
    out.push_back(std::move(mine));
  }
  return out;
}

std::vector<std::pair<std::int64_t, std::int64_t>> case_sizes() {
  std::vector<std::pair<std::int64_t, std::int64_t>> out{{17, 9}};
  for (const std::int64_t n : {0, 1, 2, 5})
    for (const std::int64_t m : {0, 1, 2, 5}) out.emplace_back(n, m);
  return out;
}

}  // namespace lockstep::worker::test
