// The library call between real processes.
#include "virtual_ranks.h"
#include <gtest/gtest.h>
#include <mpi.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/worker/agreement.h>

namespace lockstep::worker::agreement_mpi_test {
namespace {

class AgreementMpi : public testing::Test {
 protected:
  AgreementMpi() : group(std::move(collectives::mpi_communicator(nullptr, {}).value())) {}
  bool last() const { return group->rank().value == group->size() - 1; }
  std::unique_ptr<collectives::Communicator> group;
};

const Agreement::Build kBuild = [](int, const Decision& decision) -> Result<Built> {
  return Built{decision.digest(), {}};
};

TEST_F(AgreementMpi, JaggedSizes_SettleOnOneDynamicEntry) {
  Agreement agreement(*group, "world", {});
  const std::int64_t rank = group->rank().value;
  for (std::int64_t call = 0; call < 50; ++call) {
    const std::int64_t size = 2 + (rank * 7 + call * 3) % 11;
    const auto agreed = agreement.agree("step", Inputs().tensor("x", {size, 3}).build(), kBuild);
    ASSERT_TRUE(agreed) << agreed.error().text();
    EXPECT_LE(agreed->entry, 1);
    EXPECT_EQ(agreed->decision->sources[0].dims[1], (DimDecision{.value = 3}));
  }
  EXPECT_LE(agreement.frame("step").entries.size(), 2U);
  EXPECT_GE(agreement.times().vote, agreement.times().vote_wait);
}

TEST_F(AgreementMpi, AnErrorOfOneRank_IsTheSameOnAll_AndTheNextCallWorks) {
  if (group->size() == 1) return;
  Agreement agreement(*group, "world", {});
  Inputs inputs;
  inputs.tensor("x", last() ? std::vector<std::int64_t>{4, 4} : std::vector<std::int64_t>{4});
  const auto agreed = agreement.agree("step", inputs.build(), kBuild);
  ASSERT_FALSE(agreed);
  EXPECT_EQ(agreed.error().code, Code::NdimMismatch);
  ASSERT_EQ(agreed.error().groups.size(), 2U);
  EXPECT_EQ(agreed.error().groups[1].ranks, RankSet::of({group->size() - 1}));
  EXPECT_TRUE(agreement.agree("step", Inputs().tensor("x", {4}).build(), kBuild));
}

TEST_F(AgreementMpi, DifferentFrames_AreAnErrorAtOnce) {
  if (group->size() == 1) return;
  Agreement agreement(*group, "world", {});
  const auto agreed = agreement.agree(last() ? "evaluate" : "train", Inputs().build(), kBuild);
  ASSERT_FALSE(agreed);
  EXPECT_EQ(agreed.error().code, Code::FrameMismatch);
  EXPECT_TRUE(agreement.agree("train", Inputs().build(), kBuild));
}

TEST_F(AgreementMpi, BuildFailsOnOneRank_FailsOnAll) {
  Agreement agreement(*group, "world", {});
  const auto agreed = agreement.agree(
      "step", Inputs().build(), [this](int, const Decision& decision) -> Result<Built> {
        if (last()) return Status{Code::CompileError, "no space left", {}, {}};
        return kBuild(0, decision);
      });
  ASSERT_FALSE(agreed);
  EXPECT_EQ(agreed.error().code, Code::CompileError);
  EXPECT_NE(agreed.error().message.find("no space left"), std::string::npos);
}

TEST_F(AgreementMpi, Audit_FindsAnotherProgram_StopsBeforeOtherCollectives_AndGoesOn) {
  Agreement agreement(*group, "world", {});
  const auto call = [&](const char* program, const char* collectives) {
    AuditedCall own;
    own.observation = Inputs().tensor("x", {last() ? 9 : 8}).build();
    own.program = shapes::fingerprint(program);
    own.collectives = shapes::fingerprint(collectives);
    return agreement.audit("step", std::move(own));
  };
  const bool alone = group->size() == 1;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const auto same = call("p", "a");
    ASSERT_TRUE(same) << same.error().text();
    EXPECT_FALSE(same->finding);
    const auto found = call(last() ? "q" : "p", "a");
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_EQ(found->finding.has_value(), !alone);
    EXPECT_EQ(found->times, alone ? 0 : i);
    if (found->finding) {
      EXPECT_EQ(found->finding->source, "x.size(0)");
    }
    const auto stopped = call(last() ? "q" : "p", last() ? "b" : "a");
    EXPECT_EQ(stopped.has_error(), !alone);
    if (stopped.has_error()) {
      EXPECT_EQ(stopped.error().code, Code::GraphDivergence);
    }
  }
  EXPECT_EQ(agreement.findings().calls(), 9U);
  EXPECT_TRUE(agreement.frame("step").entries.empty()) << "an audit leaves no trace";
}

TEST_F(AgreementMpi, Audit_MeetsAnAgreedCall_IsTheSameErrorOnBothSides) {
  if (group->size() == 1) return;
  Agreement agreement(*group, "world", {});
  AuditedCall own;
  own.observation = Inputs().build();
  const Status error = last() ? agreement.agree("step", Inputs().build(), kBuild).error()
                              : agreement.audit("step", std::move(own)).error();
  EXPECT_EQ(error.code, Code::FrameMismatch);
  ASSERT_EQ(error.groups.size(), 2U);
  EXPECT_EQ(error.groups[0].value, "audited call 0 of step in group world");
  EXPECT_TRUE(agreement.agree("step", Inputs().build(), kBuild));
}

}  // namespace
}  // namespace lockstep::worker::agreement_mpi_test
