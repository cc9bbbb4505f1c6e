// What opcheck and gradcheck find: wrong ops of each kind, each by its sentence; right ones pass.
#include <cmath>
#include <functional>
#include <optional>
#include <regex>

#include "compiled_graph.h"
#include "emulated_device.h"
#include "ops/own_ops.h"

#include <lockstep/worker/compile/opcheck/gradcheck.h>
#include <lockstep/worker/compile/opcheck/opcheck.h>
#include <lockstep/worker/tensor/language/elementwise_ops.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::opcheck_test {
namespace {

using In = const std::vector<Tensor>&;
using Ins = std::span<const Array>;

const std::vector<OpcheckInput> kMatrix{{DType::F64, {"n", "m"}}};
const std::vector<OpcheckInput> kRows{{DType::F64, {"n", "m"}}, {DType::F64, {"m"}}};

testing::AssertionResult holds_part(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in: " << text;
}

std::string found_in(const OwnOp& op, const std::vector<OpcheckInput>& inputs = kMatrix,
                     const OpcheckOptions& options = {}) {
  const auto report = opcheck(op, inputs, options);
  if (!report) return report.error().text();
  return "nothing: " + report->text;
}
std::string found_in(const std::function<void(OwnDefinition&)>& change) {
  OwnDefinition definition = test::swish_definition();
  change(definition);
  return found_in(OwnOp(definition));
}

/// Builds for the emulated device.
class EmulatedToolchain final : public Toolchain {
 public:
  [[nodiscard]] const std::string& identity() const override { return identity_; }
  [[nodiscard]] BuildCost cost() const override { return {}; }
  Result<Bytes> build(std::string_view text) override {
    Program program;
    std::string rest(text.substr(text.find("\n}\n\n") + 4));  // behind what it has of the prelude
    std::smatch name;
    EXPECT_TRUE(std::regex_search(rest, name, std::regex("(k_[0-9a-f]+)\\(")));
    program.kernels.push_back({name[1], rest, 0});
    auto built = build_emulated(std::move(program));
    if (!built) return built.error();
    return built->units[0];
  }

 private:
  std::string identity_ = "emulated";
};

TEST(Opcheck, ARightOp_PassesInEveryWay) {
  EmulatedToolchain toolchain;
  OpcheckOptions options;
  options.device = std::make_shared<EmulatedDevice>();
  options.device_toolchain = &toolchain;
  const auto report = opcheck(test::swish(), kMatrix, options);
  ASSERT_TRUE(report.has_value()) << report.error().text();
  EXPECT_EQ(report->text,
            "test.swish: 15 tuples of sizes; the reference, the function, the host text, a program "
            "for the host, a program for the device; gradient checked");
  EXPECT_EQ(report->sizes, 15);
  const auto rows = opcheck(test::weighted_rows(), kRows);
  ASSERT_TRUE(rows.has_value()) << rows.error().text();
  EXPECT_EQ(rows->text,
            "test.weighted_rows: 15 tuples of sizes; the reference, a program for the host; "
            "gradient checked");
  EXPECT_TRUE(holds_part(found_in(OwnOp(test::swish_definition())), "gradient none"));
}

TEST(Opcheck, OtherDtypesAndFixedSizes_AreTriedToo) {
  OwnDefinition twice;
  twice.name = "test.twice";
  twice.shape_rule = [](auto in) { return in[0]; };
  twice.reference = [](Ins in, Array& out) {
    for (std::int64_t i = 0; i < out.elements(); ++i) out.set(i, 2 * in[0].at(i));
  };
  twice.host_text = "for (long i = 0; i < count; ++i) out[i] = (T)(2 * in0[i]);";
  const BackwardFunction gradient = [](const BackwardCall& c) {
    return std::vector{c.grads[0] * 2.0};
  };
  for (const DType dtype : {DType::F32, DType::I64, DType::I32, DType::U8}) {
    const auto report =
        opcheck(OwnOp(twice, gradient), {{dtype, {"n", 3}, 0, 100}}, {.sizes = {0, 1, 7}});
    ASSERT_TRUE(report.has_value()) << report.error().text();
    EXPECT_EQ(report->gradient,
              dtype == DType::F32 ? "checked in f32" : "not checked: it takes no floats");
  }
  const auto fixed = opcheck(OwnOp(twice, gradient), {{DType::F64, {4, 3}}});
  ASSERT_TRUE(fixed.has_value()) << fixed.error().text();
  EXPECT_EQ(fixed->sizes, 1);
}

TEST(Opcheck, WaysThatDisagree_AreNamedWithSizesElementAndValues) {
  const std::string function = found_in([](OwnDefinition& d) {
    d.function = [](const void* const*, void* result, const std::int64_t* sizes) {
      for (std::int64_t i = 0; i < sizes[0] * sizes[1]; ++i) static_cast<double*>(result)[i] = 7;
    };
  });
  EXPECT_TRUE(holds_part(function,
                         "opcheck of test.swish at m = 1, n = 1: the function gives 7 "
                         "for element 0, but the reference gives "));
  EXPECT_TRUE(holds_part(
      found_in([](OwnDefinition& d) {
        d.host_text = "for (long i = 0; i < count; ++i) out[i] = in0[i] / (1 + exp_(in0[i]));";
      }),
      "the host text gives"));
  EmulatedToolchain toolchain;
  OwnDefinition other = test::swish_definition();
  other.cuda_text = "for (long i = thread + 1; i <= count; i += threads) out[i - 1] = 1;";
  OpcheckOptions options;
  options.device = std::make_shared<EmulatedDevice>();
  options.device_toolchain = &toolchain;
  EXPECT_TRUE(holds_part(found_in(OwnOp(other), kMatrix, options),
                         "a program for the device gives 1 for element 0"));
}

TEST(Opcheck, ATextForADevice_IsRunTwiceAndItsInputsAreLookedAt) {
  const auto found = [](const std::string& text, bool deterministic = true) {
    EmulatedToolchain toolchain;
    OwnDefinition definition = test::swish_definition();
    definition.cuda_text = text;
    definition.claims.deterministic = deterministic;
    OpcheckOptions options{.sizes = {0, 2}};
    options.device = std::make_shared<EmulatedDevice>();
    options.device_toolchain = &toolchain;
    return found_in(OwnOp(definition), kMatrix, options);
  };
  const std::string right = test::swish_definition().cuda_text;
  EXPECT_TRUE(holds_part(found(right), "nothing: "));
  EXPECT_TRUE(holds_part(found(right + "\nif (thread == 0 && count > 1) ((T0*)in0)[1] = 9;"),
                         "a program for the device writes to its input 0: element 1 was "));
  // What an earlier run has left behind: less than the reference may differ by.
  const std::string counting =
      "static int calls = 0; if (thread == 0) ++calls;\n"
      "for (long i = thread; i < count; i += threads)\n"
      "  out[i] = in0[i] / (T(1) + exp_(-in0[i])) * (T(1) + calls * 1e-15);";
  EXPECT_TRUE(
      holds_part(found(counting), "a program for the device gives other bits for equal inputs: "));
  EXPECT_TRUE(holds_part(found(counting, false), "nothing: "));
}

TEST(Opcheck, AFunctionThatWritesElsewhere_IsFound) {
  EXPECT_TRUE(holds_part(found_in([](OwnDefinition& d) {
                           d.function = nullptr;
                           d.host_text.clear();
                           d.reference = [](Ins in, Array& out) {
                             Array same = in[0];
                             for (std::int64_t i = 0; i < out.elements(); ++i) {
                               out.set(i, in[0].at(i));
                               if (i == 3) same.set(i, 9);
                             }
                           };
                         }),
                         "at m = 2, n = 2: the reference writes to its input 0: element 3 was "));
  const std::string beyond = found_in([](OwnDefinition& d) {
    d.function = [](const void* const*, void* result, const std::int64_t* sizes) {
      for (std::int64_t i = 0; i <= sizes[0] * sizes[1]; ++i) static_cast<double*>(result)[i] = 1;
    };
  });
  EXPECT_TRUE(holds_part(beyond, "the function writes beyond the end of its result"));
  EXPECT_TRUE(
      holds_part(found_in([](OwnDefinition& d) { d.host_text = "out[-1] = 0; " + d.host_text; }),
                 "the host text writes before the start of its result"));
  EXPECT_TRUE(holds_part(
      found_in([](OwnDefinition& d) { d.host_text = "((T*)in0)[count] = 0; " + d.host_text; }),
      "the host text writes beyond the end of its input 0"));
}

TEST(Opcheck, AFunctionThatReadsElsewhere_IsFound) {
  EXPECT_TRUE(holds_part(found_in([](OwnDefinition& d) {
                           d.function = nullptr;
                           d.host_text.clear();
                           d.reference = [](Ins in, Array& out) {
                             for (std::int64_t i = 0; i < out.elements(); ++i)
                               out.set(i, in[0].data_as<double>()[i + 1]);
                           };
                         }),
                         "the reference reads outside of its inputs: element 0 is "));
  EXPECT_TRUE(holds_part(found_in([](OwnDefinition& d) {
                           d.host_text = "for (long i = 0; i < count; ++i) out[i] += in0[i];";
                         }),
                         "the host text reads its result before it writes it: element 0 is "));
  EXPECT_TRUE(holds_part(
      found_in([](OwnDefinition& d) {
        d.host_text = "for (long i = 1; i < count; ++i) out[i] = in0[i] / (1 + exp_(-in0[i]));";
      }),
      "the host text does not write element 0 of its result"));
}

TEST(Opcheck, AClaimThatIsNotKept_IsFound) {
  const auto counting = [](bool claimed) {
    return [claimed](OwnDefinition& d) {
      d.claims.deterministic = claimed;
      d.function = nullptr;
      d.host_text.clear();
      d.reference = [calls = std::make_shared<int>(0)](Ins in, Array& out) {
        ++*calls;
        for (std::int64_t i = 0; i < out.elements(); ++i) out.set(i, in[0].at(i) + *calls * 1e-15);
      };
    };
  };
  EXPECT_TRUE(holds_part(found_in(counting(true)),
                         "the reference gives other bits for equal inputs: element 0 is "));
  EXPECT_TRUE(holds_part(found_in(counting(false)), "nothing: "));
  // What an earlier call has left behind.
  EXPECT_TRUE(holds_part(found_in([](OwnDefinition& d) {
                           d.function = [](const void* const* inputs, void* result,
                                           const std::int64_t* sizes) {
                             static double last = 0;
                             const auto* x = static_cast<const double*>(inputs[0]);
                             for (std::int64_t i = 0; i < sizes[0] * sizes[1]; ++i) {
                               static_cast<double*>(result)[i] = last;
                               last = x[i];
                             }
                           };
                         }),
                         "the function gives other bits for equal inputs"));
  const auto alias = [](bool claimed) {
    return [claimed](OwnDefinition& d) {
      d.claims.may_alias = claimed;
      d.function = nullptr;
      d.host_text.clear();
      d.reference = [](Ins in, Array& out) { out = in[0]; };
    };
  };
  EXPECT_TRUE(holds_part(found_in(alias(false)),
                         "gave the memory of its input 0 as its result; write to the result"));
  EXPECT_TRUE(holds_part(found_in(alias(true)), "nothing: "));
}

TEST(Opcheck, AWrongShapeRule_IsFound) {
  const std::string rank = found_in([](OwnDefinition& d) {
    d.shape_rule = [](auto in) { return TensorMeta{in[0].dtype, {in[0].sizes[0]}}; };
    d.reference = [](Ins in, Array& out) { out = in[0].clone(); };
  });
  EXPECT_TRUE(holds_part(rank, "at m = 0, n = 0: "));
  EXPECT_TRUE(holds_part(rank, "gave f64[0, 0], but its shape rule says f64[0]"));
  EXPECT_TRUE(holds_part(found_in([](OwnDefinition& d) {
                           d.shape_rule = [](auto in) {
                             TensorMeta out = in[0];
                             if (!out.sizes[0].constant()) out.sizes[0] = out.sizes[0] + 1;
                             return out;
                           };
                         }),
                         "it must not look at the value of a size"));
  EXPECT_TRUE(
      holds_part(found_in([](OwnDefinition& d) { d.name = "relu"; }), "the name relu is taken"));
  EXPECT_TRUE(holds_part(found_in(test::swish(), {{DType::F32, {"n", "m"}}}),
                         "it takes one matrix of f64"));
  EXPECT_TRUE(holds_part(found_in([](OwnDefinition& d) { d.host_text = "out[0] = nothing;"; }),
                         "test.swish:1"));
}

TEST(Opcheck, AWrongGradient_IsFoundWithElementAndValues) {
  const OwnOp wrong(test::swish_definition(), [](const BackwardCall& call) {
    return std::vector{call.grads[0] * sigmoid(call.inputs[0])};
  });
  const std::string text = found_in(wrong);
  EXPECT_TRUE(holds_part(text,
                         "opcheck of test.swish at m = 1, n = 1: gradcheck: the gradient by "
                         "input 0 at [0, 0] is "));
  EXPECT_TRUE(holds_part(text, ", but finite differences give "));
}

TEST(Opcheck, AGradientThatIsWrongAtSomeSizesOnly_IsFound) {
  const auto wrong_if = [](const std::function<bool(const Tensor&)>& wrong) {
    return found_in(OwnOp(test::swish_definition(), [wrong](const BackwardCall& call) {
      const Tensor& x = call.inputs[0];
      const Tensor s = sigmoid(x), right = call.grads[0] * (s + call.outputs[0] * (1.0 - s));
      return std::vector{wrong(x) ? right * 2.0 : right};
    }));
  };
  EXPECT_TRUE(holds_part(wrong_if([](const Tensor& x) -> bool { return bool(x.size(0) > 100); }),
                         "at m = 300, n = 300: gradcheck: the gradient by input 0 at ["));
  EXPECT_TRUE(
      holds_part(wrong_if([](const Tensor& x) -> bool { return bool(x.size(0) != x.size(1)); }),
                 "at m = 3, n = 1: gradcheck: the gradient by input 0 at ["));
  EXPECT_TRUE(
      holds_part(wrong_if([](const Tensor& x) { return !x.size(0).expr().constant().has_value(); }),
                 "at m = 1, n = 1: gradcheck: "));
  EXPECT_TRUE(
      holds_part(wrong_if([](const Tensor& x) { return !x.size(0).expr().constant().has_value(); }),
                 ", traced with symbols as sizes"));
  const OwnOp never_empty(test::swish_definition(), [](const BackwardCall& call) {
    check(call.inputs[0].size(0) > 0, "it has rows");
    return std::vector{call.grads[0]};
  });
  EXPECT_TRUE(holds_part(found_in(never_empty), "at m = 0, n = 0: "));
}

TEST(Opcheck, AGradientInF32_IsCheckedWithWiderBounds) {
  OwnDefinition square;
  square.name = "test.square";
  square.shape_rule = [](auto in) { return in[0]; };
  square.reference = [](Ins in, Array& out) {
    for (std::int64_t i = 0; i < out.elements(); ++i) out.set(i, in[0].at(i) * in[0].at(i));
  };
  const auto found = [&](DType dtype, double factor) {
    return found_in(OwnOp(square,
                          [factor](const BackwardCall& call) {
                            return std::vector{call.grads[0] * call.inputs[0] * factor};
                          }),
                    {{dtype, {"n"}}}, {.sizes = {0, 1, 5}});
  };
  EXPECT_TRUE(holds_part(found(DType::F32, 2), "gradient checked in f32"));
  EXPECT_TRUE(holds_part(found(DType::F32, 2.1), "but finite differences give "));
  EXPECT_TRUE(holds_part(found(DType::BF16, 2),
                         "gradient not checked: input 0 is bf16, and differences need f64 or f32"));
}

const Array kPoint = Array::of(DType::F64, {2, 2}, std::vector{0.5, -1.25, 2.0, 3.0});

TEST(Gradcheck, WhatLockstepRecords_Passes) {
  const auto checked = gradcheck(
      [](In x) {
        return std::vector{exp(x[0]) * tanh(x[1]), sum(x[0] * x[0]), argmax(x[0], 0)};
      },
      {kPoint, kPoint});
  EXPECT_TRUE(checked.has_value()) << checked.error().text();
}

TEST(Gradcheck, AWrongBackward_IsFoundWithElementAndValues) {
  const auto cube = [](double third) {
    return custom_backward([](In x) { return std::vector{x[0] * x[0] * x[0]}; },
                           [third](const BackwardCall& call) {
                             const Tensor right =
                                 call.grads[0] * 3.0 * call.inputs[0] * call.inputs[0];
                             return std::vector{where(call.inputs[0] == 2.0, right * third, right)};
                           });
  };
  const auto right = gradcheck(cube(1), {kPoint});
  EXPECT_TRUE(right.has_value()) << right.error().text();
  const auto wrong = gradcheck(cube(0.5), {kPoint});
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().code, Code::BadInput);
  std::smatch values;
  const std::string text = wrong.error().text();
  ASSERT_TRUE(std::regex_search(
      text, values,
      std::regex("the gradient by input 0 at \\[1, 0\\] is ([0-9.]+), but finite differences "
                 "give ([0-9.]+) \\(the input is 2 there\\)")))
      << text;
  EXPECT_NEAR(std::stod(values[2]) / std::stod(values[1]), 2, 1e-6);
}

TEST(Gradcheck, OfManyElements_SomeAreDrawnAndAnErrorInAllIsFound) {
  const Array many = Array::zeros(DType::F64, {1000});
  const auto none =
      custom_backward([](In x) { return std::vector{x[0] * 2.0}; },
                      [](const BackwardCall& call) { return std::vector{call.grads[0]}; });
  EXPECT_FALSE(gradcheck(none, {many}, {.elements = 3}).has_value());
}

TEST(Gradcheck, WhatHasNoDifferences_IsRefusedInASentence) {
  const auto words = [](const TracedFunction& f, const std::vector<Array>& inputs) {
    const auto checked = gradcheck(f, inputs);
    return checked ? std::string() : checked.error().text();
  };
  const TracedFunction same = [](In x) { return x; };
  EXPECT_TRUE(holds_part(words(same, {Array::zeros(DType::F16, {2})}),
                         "gradcheck: input 0 is f16, and differences need f64 or f32"));
  EXPECT_TRUE(
      holds_part(words(same, {Array::zeros(DType::I64, {2})}), "gradcheck: it takes no floats"));
  EXPECT_TRUE(holds_part(words([](In x) { return std::vector{x[0] > 0.0}; }, {kPoint}),
                         "gradcheck: the function gives no floats"));
  EXPECT_TRUE(holds_part(words(
                             [](In x) -> std::vector<Tensor> {
                               if (x[0].size(0) == 2) throw std::runtime_error("not today");
                               return x;
                             },
                             {kPoint}),
                         "not today"));
  EXPECT_TRUE(gradcheck(same, {Array::zeros(DType::F64, {0, 3})}).has_value());
}

}  // namespace
}  // namespace lockstep::worker::opcheck_test
