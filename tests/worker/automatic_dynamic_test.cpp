// The scenarios of PyTorch's own tests for compiler collectives and automatic dynamic, by the
// numbers of our list of them, with the stronger outcome that follows here.
#include "virtual_ranks.h"
#include <gtest/gtest.h>

namespace lockstep::worker {
namespace {

Inputs x(std::vector<std::int64_t> sizes) { return Inputs().tensor("x", std::move(sizes)); }
Inputs y(std::int64_t v) { return Inputs().tensor("x", {5}).integer("y", v); }

std::vector<std::string> outcomes(VirtualRanks& ranks,
                                  const std::vector<std::vector<Inputs>>& calls) {
  std::vector<std::string> out;
  for (const auto& inputs : calls) out.push_back(outcome_text(ranks.joint(inputs)));
  return out;
}
using Texts = std::vector<std::string>;

TEST(AutomaticDynamic, Scenario1_Tensor_OneCompile) {
  VirtualRanks ranks(2);
  EXPECT_EQ(
      outcomes(ranks,
               {{x({5, 10}), x({6, 10})}, {x({8, 10}), x({6, 10})}, {x({6, 10}), x({3, 10})}}),
      (Texts{"compiled 0", "reused 0", "reused 0"}));
}

TEST(AutomaticDynamic, Scenario2_Scalar_TwoCompilesAtTheSameCalls) {
  VirtualRanks ranks(2);
  EXPECT_EQ(outcomes(ranks, {{y(3), y(3)}, {y(3), y(4)}, {y(7), y(9)}}),
            (Texts{"compiled 0", "compiled 1", "reused 1"}));
}

TEST(AutomaticDynamic, Scenario3_TwoTensors_DynamicAtTheFirstCall) {
  VirtualRanks ranks(2);
  const auto in = [](std::int64_t a, std::int64_t b) {
    return Inputs().tensor("x", {a}).tensor("y", {b});
  };
  EXPECT_EQ(outcomes(ranks, {{in(4, 4), in(3, 4)}}), (Texts{"compiled 0"}));
  EXPECT_EQ(ranks.frame(1).entries[0].decision.symbols.size(), 1U);
}

TEST(AutomaticDynamic, Scenario5_DimMismatch_IsAnError_AndWorksWithSharedSizes) {
  const std::vector<Inputs> inputs{x({4, 2}), x({3})};
  VirtualRanks strict(2);
  EXPECT_EQ(strict.joint(inputs).error->code, Code::NdimMismatch);
  VirtualRanks shared(2, {.consistency = Consistency::SharedSizes});
  EXPECT_EQ(outcomes(shared, {inputs, inputs}), (Texts{"compiled 0", "reused 0"}));
  EXPECT_EQ(shared.frame(0).entries[0].decision.symbols.size(), 2U);
  EXPECT_EQ(shared.frame(1).entries[0].decision.symbols.size(), 1U);
}

TEST(AutomaticDynamic, Scenario6_MissingSource_IsAnError_AndWorksWithSharedSizes) {
  const std::vector<Inputs> inputs{Inputs().tensor("xs[0]", {10}), Inputs().tensor("xs[1]", {10})};
  VirtualRanks strict(2);
  EXPECT_EQ(strict.joint(inputs).error->code, Code::SourceMismatch);
  VirtualRanks shared(2, {.consistency = Consistency::SharedSizes});
  EXPECT_EQ(outcomes(shared, {inputs, inputs}), (Texts{"compiled 0", "reused 0"}));
}

TEST(AutomaticDynamic, Scenario7_MissingScalarSource_Likewise) {
  const std::vector<Inputs> inputs{Inputs().integer("xs[0]", 10), Inputs().integer("xs[1]", 11)};
  VirtualRanks strict(2);
  EXPECT_EQ(strict.joint(inputs).error->code, Code::SourceMismatch);
  VirtualRanks shared(2, {.consistency = Consistency::SharedSizes});
  EXPECT_EQ(outcomes(shared, {inputs, inputs}), (Texts{"compiled 0", "reused 0"}));
}

TEST(AutomaticDynamic, Scenario8_TypeMismatch_DoesNotDeadlockAtTheFollowUp) {
  const std::vector<std::vector<Inputs>> calls{{x({10}), Inputs().integer("x", 12)},
                                               {x({12}), Inputs().integer("x", 10)}};
  VirtualRanks strict(2);
  EXPECT_EQ(strict.joint(calls[0]).error->code, Code::KindMismatch);
  EXPECT_EQ(strict.joint(calls[1]).error->code, Code::KindMismatch);
  VirtualRanks shared(2, {.consistency = Consistency::SharedSizes});
  EXPECT_EQ(outcomes(shared, calls), (Texts{"compiled 0", "reused 0"}));
}

TEST(AutomaticDynamic, Scenario9_OneRankMisses_BothCompileOnce) {
  VirtualRanks ranks(2);
  EXPECT_EQ(outcomes(ranks, {{x({10}), x({10})}, {x({10}), x({12})}, {x({10}), x({10})}}),
            (Texts{"compiled 0", "compiled 1", "reused 0"}));
}

TEST(AutomaticDynamic, Scenario22_Ints_TheOldValueGoesToTheOldGraph) {
  VirtualRanks ranks(1);
  const auto n = [](std::int64_t v) { return std::vector<Inputs>{Inputs().integer("n", v)}; };
  EXPECT_EQ(outcomes(ranks, {n(3), n(5), n(3)}), (Texts{"compiled 0", "compiled 1", "reused 0"}));
}

TEST(AutomaticDynamic, Scenario24_StoredProfile_DynamicAtTheFirstCompile) {
  VirtualRanks first(1);
  EXPECT_EQ(outcomes(first, {{x({2, 3})}, {x({2, 4})}}), (Texts{"compiled 0", "compiled 1"}));
  VirtualRanks second(1);
  second.frame(0).adopt(first.frame(0).state);
  EXPECT_EQ(outcomes(second, {{x({2, 5})}, {x({2, 6})}}), (Texts{"compiled 0", "reused 0"}));
}

}  // namespace
}  // namespace lockstep::worker
