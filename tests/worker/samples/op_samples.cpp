// Runs samples of torch's own op tests through the tensor language, interpreted and compiled, with
// symbolic sizes. Started by torch_ops_test.py with a folder: it reads samples.json and samples.bin
// and writes results.json and results.bin.
#include "op_samples.h"

#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "compiled_graph.h"
#include "tracing.h"
#include <fmt/format.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

using nlohmann::json;

struct Sample {
  std::string function;
  json arguments;
  bool gradients = true, symbolic = true;
  std::vector<Array> tensors;
};

std::string input_name(std::size_t sample, std::size_t tensor) {
  return "s" + std::to_string(sample) + "." + std::to_string(tensor);
}

/// All sizes are symbols, but for those of 1, which broadcast, and those of samples that need
/// numbers.
Decision decision_of(const std::vector<Sample>& samples, const std::vector<std::size_t>& chosen) {
  test::DecisionBuilder builder;
  for (const std::size_t s : chosen)
    for (std::size_t k = 0; k < samples[s].tensors.size(); ++k) {
      const Array& array = samples[s].tensors[k];
      std::vector<test::Dim> dims;
      for (const std::int64_t size : array.sizes())
        dims.push_back(size == 1 || !samples[s].symbolic ? test::Dim(size)
                                                         : test::dynamic(size, 0));
      builder.tensor(input_name(s, k), array.dtype(), dims);
    }
  return builder.get();
}

Result<Graph> traced(const std::vector<Sample>& samples, const std::vector<std::size_t>& chosen) {
  const Decision decision = decision_of(samples, chosen);
  return trace(test::setup(decision), [&](Trace& t) {
    for (const std::size_t s : chosen) {
      std::vector<Tensor> inputs, floats;
      for (std::size_t k = 0; k < samples[s].tensors.size(); ++k) {
        inputs.push_back(t.tensor_input(t.source(input_name(s, k))));
        if (is_float(inputs.back().dtype())) floats.push_back(inputs.back());
      }
      const std::vector<Tensor> results =
          samples::functions().at(samples[s].function)(inputs, samples[s].arguments);
      Tensor total;
      for (std::size_t k = 0; k < results.size(); ++k) {
        t.output(fmt::format("{} value {}", s, k), results[k]);
        if (!is_float(results[k].dtype())) continue;
        const Tensor sum_of = sum(results[k]);
        total = total.empty() ? sum_of : total + sum_of;
      }
      if (!samples[s].gradients || total.empty()) continue;
      const std::vector<Tensor> grads = grad(total, std::span<const Tensor>(floats));
      for (std::size_t k = 0; k < grads.size(); ++k)
        t.output(fmt::format("{} by {}", s, k), grads[k]);
    }
  });
}

std::vector<Sample> read(const std::string& folder) {
  std::ifstream spec(folder + "/samples.json"), bytes(folder + "/samples.bin", std::ios::binary);
  std::vector<Sample> samples;
  for (const json& one : json::parse(spec)) {
    Sample sample{
        one.at("function"), one.at("arguments"), one.at("gradients"), one.at("symbolic"), {}};
    for (const json& tensor : one.at("tensors")) {
      Array array(samples::dtype_of(tensor.at("dtype")),
                  tensor.at("sizes").get<std::vector<std::int64_t>>());
      bytes.read(static_cast<char*>(array.data()), static_cast<std::streamsize>(array.bytes()));
      sample.tensors.push_back(std::move(array));
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

class Results {
 public:
  explicit Results(const std::string& folder)
      : spec_(folder + "/results.json"), bytes_(folder + "/results.bin", std::ios::binary) {}
  void add(const std::string& way, const Graph& graph, const std::vector<Array>& outputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Array& array = outputs[i];
      bytes_.write(static_cast<const char*>(array.data()),
                   static_cast<std::streamsize>(array.bytes()));
      std::istringstream name(graph.outputs[i].name);  // "12 value 0"
      std::size_t sample = 0, number = 0;
      std::string kind;
      name >> sample >> kind >> number;
      results_.push_back({{"way", way},
                          {"sample", sample},
                          {kind, number},
                          {"dtype", dtype_name(array.dtype())},
                          {"sizes", array.sizes()}});
    }
  }
  void refused(std::size_t sample, const std::string& why) {
    results_.push_back({{"way", "refused"}, {"sample", sample}, {"why", why}});
  }
  ~Results() { spec_ << results_; }

 private:
  std::ofstream spec_, bytes_;
  json results_ = json::array();
};

int run(const std::string& folder) {
  const std::vector<Sample> samples = read(folder);
  // One graph serves many samples of a function.
  constexpr std::size_t kPerGraph = 150;
  std::vector<std::vector<std::size_t>> graphs;
  std::map<std::string, std::size_t> open;  // of each function, the last of its graphs
  Results results(folder);
  for (std::size_t s = 0; s < samples.size(); ++s) {
    const auto alone = traced(samples, {s});
    if (!alone) {
      results.refused(s, alone.error().text());
      continue;
    }
    const auto [last, is_new] = open.try_emplace(samples[s].function, graphs.size());
    if (is_new || graphs[last->second].size() == kPerGraph) {
      last->second = graphs.size();
      graphs.emplace_back();
    }
    graphs[last->second].push_back(s);
  }
  for (const std::vector<std::size_t>& chosen : graphs) {
    Inputs inputs;
    for (const std::size_t s : chosen)
      for (std::size_t k = 0; k < samples[s].tensors.size(); ++k)
        inputs[input_name(s, k)] = samples[s].tensors[k];
    const Graph graph = traced(samples, chosen).value();
    const auto executable = compile(graph);
    if (!executable) return 1;
    for (const bool compiled : {false, true}) {
      const auto out =
          compiled ? run_compiled(*executable, inputs) : run_interpreted(graph, inputs);
      if (!out) {
        std::cerr << samples[chosen.front()].function << ": " << out.error().text() << "\n";
        return 1;
      }
      results.add(compiled ? "compiled" : "interpreted", graph, *out);
    }
  }
  return 0;
}

}  // namespace

}  // namespace lockstep::worker

int main(int argc, char** argv) { return argc == 2 ? lockstep::worker::run(argv[1]) : 2; }
