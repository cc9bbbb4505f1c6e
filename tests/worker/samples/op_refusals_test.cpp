// Each op of the language with one argument after the other made wrong: what is refused, is refused
// in the op's own name and at the line of the program that called it. The calls to begin with are
// the first sample of each function (torch_ops_test.py --calls samples/calls.json), without values.
#include <cctype>
#include <fstream>
#include <regex>
#include <set>

#include "op_samples.h"
#include "tracing.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace lockstep::worker::op_refusals_test {

using nlohmann::json;

struct Given {
  DType dtype = DType::F32;
  std::vector<std::int64_t> sizes;
};
struct Call {
  std::string function;
  json arguments;
  std::vector<Given> tensors;
};

std::vector<Call> calls() {
  std::ifstream file(CALLS_FILE);
  std::vector<Call> out;
  for (const json& one : json::parse(file)) {
    Call call{one.at("function"), one.at("arguments"), {}};
    for (const json& tensor : one.at("tensors"))
      call.tensors.push_back({samples::dtype_of(tensor.at("dtype")), tensor.at("sizes")});
    out.push_back(std::move(call));
  }
  return out;
}

/// nullopt: it traces.
std::optional<Status> refusal(const Call& call) {
  test::DecisionBuilder builder;
  for (std::size_t k = 0; k < call.tensors.size(); ++k)
    builder.tensor(fmt::format("t{}", k), call.tensors[k].dtype,
                   {call.tensors[k].sizes.begin(), call.tensors[k].sizes.end()});
  const Decision decision = builder.get();
  const auto graph = trace(test::setup(decision), [&](Trace& t) {
    std::vector<Tensor> inputs;
    for (std::size_t k = 0; k < call.tensors.size(); ++k)
      inputs.push_back(t.tensor_input(t.source(fmt::format("t{}", k))));
    (void)samples::functions().at(call.function)(inputs, call.arguments);
  });
  if (graph) return std::nullopt;
  return graph.error();
}

/// The same call with one number of `at`, a place among its arguments, made another in turn.
void change_numbers(const Call& call, const json::json_pointer& at, std::vector<Call>& out) {
  const json& here = call.arguments.at(at);
  if (here.is_array() || here.is_object()) {
    for (const auto& [key, value] : here.items()) change_numbers(call, at / key, out);
    return;
  }
  if (!here.is_number()) return;
  for (const int wrong : {-1000, 0, 1000}) {
    out.push_back(call);
    json& changed = out.back().arguments.at(at);
    if (here.is_number_integer())
      changed = wrong;
    else
      changed = static_cast<double>(wrong);
  }
}

/// Of each tensor: other dtypes, a dim less, a dim more, each size one more.
void change_tensors(const Call& call, std::vector<Call>& out) {
  for (std::size_t k = 0; k < call.tensors.size(); ++k) {
    const Given& given = call.tensors[k];
    const auto with = [&](DType dtype, std::vector<std::int64_t> sizes) {
      out.push_back(call);
      out.back().tensors[k] = {dtype, std::move(sizes)};
    };
    for (const DType dtype :
         {DType::F32, DType::F64, DType::BF16, DType::I64, DType::U8, DType::Bool})
      if (dtype != given.dtype) with(dtype, given.sizes);
    std::vector<std::int64_t> sizes = given.sizes;
    sizes.push_back(3);
    with(given.dtype, sizes);
    for (std::size_t d = 0; d < given.sizes.size(); ++d) {
      sizes = given.sizes;
      ++sizes[d];
      with(given.dtype, sizes);
      sizes[d] = 0;
      with(given.dtype, sizes);
      sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(d));
      with(given.dtype, sizes);
    }
  }
}

std::string text_of(const Call& call) {
  std::string out = call.function + call.arguments.dump();
  for (const Given& given : call.tensors)
    out += fmt::format(" {}[{}]", dtype_name(given.dtype), fmt::join(given.sizes, ","));
  return out;
}

/// Functions of the samples that are not one op: their own code reads the arguments, and each op in
/// them speaks for itself.
bool is_one_op(const std::string& function) {
  static const std::set<std::string> several{
      "arange",  "bernoulli",      "columns",      "cond",    "cond_with_weight",
      "diff",    "dropout",        "fold_columns", "getitem", "index_add",
      "item",    "multinomial",    "narrow",       "normal",  "one_hot",
      "pad",     "permutation",    "randint",      "rates",   "recurrence",
      "roots",   "round_decimals", "scan",         "stepped", "to_padded",
      "uniform", "while_loop"};
  return std::isalpha(static_cast<unsigned char>(function[0])) != 0 && !several.contains(function);
}

/// The sample's own code reads an argument that is no place in a list, or of another kind.
bool is_of_the_sample(const std::string& message) {
  return message.find("_M_range_check") != std::string::npos ||
         message.find("json.exception") != std::string::npos;
}

TEST(OpRefusals, EachArgumentWrongInTurn_IsSaidInTheNameOfTheOpAtTheLineOfTheCall) {
  int refused = 0, taken = 0;
  std::set<std::string> functions;
  for (const Call& call : calls()) {
    functions.insert(call.function);
    EXPECT_EQ(refusal(call), std::nullopt) << text_of(call);
    if (call.function == "segment_reduce") continue;  // the sample counts on its sizes
    std::vector<Call> wrong;
    for (std::size_t i = 0; i < call.arguments.size() && is_one_op(call.function); ++i)
      change_numbers(call, json::json_pointer(fmt::format("/{}", i)), wrong);
    change_tensors(call, wrong);
    for (const Call& one : wrong) {
      const auto error = refusal(one);
      ++(error ? refused : taken);
      if (!error || is_of_the_sample(error->message)) continue;
      const std::string what = is_one_op(call.function) ? call.function : "[A-Za-z_]+";
      const std::regex said("frame step: (samples_[a-z]+|functions)\\.cpp:[0-9]+: (" + what +
                            ": |" + "check\\(.*" + what +
                            (is_one_op(call.function) ? ").*" : "|a tensor with ).*"));
      EXPECT_TRUE(std::regex_match(error->message, said)) << text_of(one) << "\n" << error->message;
    }
  }
  EXPECT_EQ(functions.size(), samples::functions().size());
  EXPECT_GT(refused, 1500);
  EXPECT_GT(taken, 1500);
}

}  // namespace lockstep::worker::op_refusals_test
