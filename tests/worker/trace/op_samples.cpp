// Runs samples of torch's own op tests through the tensor language, interpreted and compiled, with
// symbolic sizes. Started by torch_ops_test.py with a folder: it reads samples.json and samples.bin
// and writes results.json and results.bin.
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>

#include "compiled_graph.h"
#include "tracing.h"
#include <nlohmann/json.hpp>

#include <lockstep/worker/graph/op.h>
#include <lockstep/worker/trace/autodiff.h>
#include <lockstep/worker/trace/tensor_ops.h>

namespace lockstep::worker {
namespace {

using nlohmann::json;
using In = const std::vector<Tensor>&;
using Numbers = const std::vector<double>&;
using Function = Tensor (*)(In, Numbers);

// clang-format off
#define ONE(name) {#name, [](In x, Numbers) { return name(x[0]); }}
#define TWO(name) {#name, [](In x, Numbers n) { return n.empty() ? name(x[0], x[1]) : name(x[0], n[0]); }}
const std::map<std::string, Function> kFunctions{
    ONE(neg), ONE(abs), ONE(sign), ONE(relu), ONE(floor), ONE(ceil), ONE(round), ONE(trunc), ONE(exp), ONE(exp2),
    ONE(expm1), ONE(log), ONE(log2), ONE(log1p), ONE(sqrt), ONE(rsqrt), ONE(sin), ONE(cos), ONE(tan), ONE(tanh),
    ONE(sigmoid), ONE(erf), ONE(gelu), ONE(gelu_exact), ONE(silu), ONE(isnan), ONE(isinf), ONE(isfinite),
    ONE(bitwise_not), ONE(nan_to_num),
    TWO(atan2), TWO(pow), TWO(remainder), TWO(fmod), TWO(floor_divide), TWO(maximum), TWO(minimum), TWO(clamp_min),
    TWO(clamp_max), TWO(bitwise_and), TWO(bitwise_or), TWO(bitwise_xor), TWO(bitwise_left_shift),
    TWO(bitwise_right_shift),
    {"clamp", [](In x, Numbers n) { return n.empty() ? clamp(x[0], x[1], x[2]) : clamp(x[0], n[0], n[1]); }},
    {"softplus", [](In x, Numbers n) { return softplus(x[0], n.at(0), n.at(1)); }},
    {"leaky_relu", [](In x, Numbers n) { return leaky_relu(x[0], n.at(0)); }},
    {"elu", [](In x, Numbers n) { return elu(x[0], n.at(0)); }},
};
#undef ONE
#undef TWO
// clang-format on

const std::map<std::string, DType> kDTypes{
    {"bool", DType::Bool}, {"u8", DType::U8},   {"i8", DType::I8},   {"i16", DType::I16},
    {"i32", DType::I32},   {"i64", DType::I64}, {"f32", DType::F32}, {"f64", DType::F64}};

struct Sample {
  std::string function;
  std::vector<Array> tensors;
  std::vector<double> numbers;
};

std::string input_name(std::size_t sample, std::size_t tensor) {
  return "s" + std::to_string(sample) + "." + std::to_string(tensor);
}

/// All sizes are symbols, but for those of 1, which broadcast.
Decision decision_of(const std::vector<Sample>& samples, const std::vector<std::size_t>& chosen) {
  test::DecisionBuilder builder;
  for (const std::size_t s : chosen)
    for (std::size_t k = 0; k < samples[s].tensors.size(); ++k) {
      const Array& array = samples[s].tensors[k];
      std::vector<test::Dim> dims;
      for (const std::int64_t size : array.sizes())
        dims.push_back(size == 1 ? test::Dim(1) : test::dynamic(size, 0));
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
      const Tensor y = kFunctions.at(samples[s].function)(inputs, samples[s].numbers);
      t.output(std::to_string(s), y);
      if (!is_float(y.dtype())) continue;
      const std::vector<Tensor> grads = grad(sum(y), std::span<const Tensor>(floats));
      for (std::size_t k = 0; k < grads.size(); ++k)
        t.output(std::to_string(s) + " by " + std::to_string(k), grads[k]);
    }
  });
}

std::vector<Sample> read(const std::string& folder) {
  std::ifstream spec(folder + "/samples.json"), bytes(folder + "/samples.bin", std::ios::binary);
  std::vector<Sample> samples;
  for (const json& one : json::parse(spec)) {
    Sample sample{one.at("function"), {}, one.at("numbers").get<std::vector<double>>()};
    for (const json& tensor : one.at("tensors")) {
      Array array(kDTypes.at(tensor.at("dtype")),
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
      results_.push_back({{"way", way},
                          {"output", graph.outputs[i].name},
                          {"dtype", dtype_name(array.dtype())},
                          {"sizes", array.sizes()}});
    }
  }
  void refused(std::size_t sample, const std::string& why) {
    results_.push_back({{"way", "refused"}, {"output", std::to_string(sample)}, {"why", why}});
  }
  ~Results() { spec_ << results_; }

 private:
  std::ofstream spec_, bytes_;
  json results_ = json::array();
};

int run(const std::string& folder) {
  const std::vector<Sample> samples = read(folder);
  std::map<std::string, std::vector<std::size_t>> of;  // a graph for each function
  Results results(folder);
  for (std::size_t s = 0; s < samples.size(); ++s) {
    if (const auto alone = traced(samples, {s}); alone)
      of[samples[s].function].push_back(s);
    else
      results.refused(s, alone.error().text());
  }
  for (const auto& [function, chosen] : of) {
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
        std::cerr << function << ": " << out.error().text() << "\n";
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
