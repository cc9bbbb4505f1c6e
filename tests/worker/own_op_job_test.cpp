// Own ops and host calls on real ranks: what differs between ranks is found at the first call, what
// one rank throws is the error of all.
#include <functional>
#include <stdexcept>

#include "job_ranks.h"

namespace lockstep::worker::own_op_job_test {
namespace {

class OwnOpJob : public JobRanks {
 protected:
  template <class Out>
  Status refused(const Result<Out>& result, Code code) {
    if (result) {
      ADD_FAILURE() << "went well, wanted " << code_name(code);
      return {};
    }
    EXPECT_EQ(code_name(result.error().code), code_name(code)) << result.error().text();
    expect_joint(result.error());
    return result.error();
  }
  void expect_goes_on() {
    auto next = job->frame<X, Y>("next", [](X in) { return Y{all_reduce(sum(in.x))}; });
    const auto out = next({filled({3}, 1)});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_EQ(only(out->y), 3 * size);
    EXPECT_TRUE(finish());
  }
};

OwnDefinition twice() {
  OwnDefinition out;
  out.name = "test.twice";
  out.version = "1";
  out.shape_rule = [](auto in) { return in[0]; };
  out.reference = [](auto in, Array& result) {
    for (std::int64_t i = 0; i < result.elements(); ++i) result.set(i, 2 * in[0].at(i));
  };
  out.host_text = "for (long i = 0; i < count; ++i) out[i] = 2 * in0[i];";
  return out;
}

TEST_F(OwnOpJob, EqualDefinitions_CompileOnceAndRunOnAllRanks) {
  const OwnOp op(twice(),
                 [](const BackwardCall& call) { return std::vector{call.grads[0] * 2.0}; });
  auto step = job->frame<X, Y>("step", [&](X in) {
    const Tensor loss = all_reduce(sum(op({in.x})));
    return Y{loss + sum(grad(loss, {in.x})[0])};
  });
  for (int call = 0; call < 6; ++call) {
    const auto out = step({filled({2 + call + rank}, 1)});
    ASSERT_TRUE(out) << out.error().text();
    double total = 0;
    for (int r = 0; r < size; ++r) total += 2 * (2 + call + r);
    EXPECT_EQ(only(out->y), total + 2 * size * (2 + call + rank));
  }
  EXPECT_FALSE(step.last_compiled());
  EXPECT_TRUE(finish());
}

TEST_F(OwnOpJob, DefinitionsThatDiffer_FailAtTheFirstCallNamingTheOp) {
  if (size == 1) return;
  const std::vector<std::function<void(OwnDefinition&)>> changes = {
      [](OwnDefinition& d) { d.host_text += " // faster"; },
      [](OwnDefinition& d) { d.cuda_text = d.host_text; },
      [](OwnDefinition& d) { d.version = "2"; },
      [](OwnDefinition& d) { d.claims.deterministic = false; },
      [](OwnDefinition& d) {
        d.shape_rule = [](auto in) { return TensorMeta{DType::F32, in[0].sizes}; };
      }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    OwnDefinition mine = twice();
    if (last) changes[i](mine);
    const OwnOp op(mine);
    auto step = job->frame<X, Y>("step" + std::to_string(i),
                                 [&](X in) { return Y{all_reduce(sum(op({in.x})))}; });
    const Status error = refused(step({filled({3}, 1)}), Code::GraphDivergence);
    EXPECT_TRUE(contains(error.text(), "test.twice")) << error.text();
    EXPECT_TRUE(contains(error.text(), last_text())) << error.text();
  }
  expect_goes_on();
}

TEST_F(OwnOpJob, TextThatDoesNotCompile_IsOneErrorWithTheOpsName) {
  OwnDefinition wrong = twice();
  wrong.host_text = "\nout[0] = nothing;";
  const OwnOp op(wrong);
  auto step = job->frame<X, Y>("step", [&](X in) { return Y{all_reduce(sum(op({in.x})))}; });
  const Status error = refused(step({filled({3}, 1)}), Code::CompileError);
  EXPECT_TRUE(contains(error.text(), "test.twice:2")) << error.text();
  expect_goes_on();
}

/// x once `body` has seen it on the host.
Tensor seen(const std::string& name, const Tensor& x,
            const std::function<void(const Array&)>& body) {
  return host_call(
      name, {x}, [](auto in) { return in[0]; },
      [body](auto in, Array& out) {
        body(in[0]);
        out = in[0].clone();
      });
}

TEST_F(OwnOpJob, HostCall_SeesEachRanksValuesInEveryCall) {
  std::vector<double> log;
  auto step = job->frame<X, Y>("step", [&](X in) {
    const Tensor total = all_reduce(sum(in.x));
    (void)seen("log.mine", sum(in.x), [&](const Array& x) { log.push_back(x.at(0)); });
    return Y{seen("log.total", total, [&](const Array& x) { log.push_back(x.at(0)); })};
  });
  std::vector<double> expected;
  for (int call = 0; call < 4; ++call) {
    const auto out = step({filled({2 + rank, 1 + call}, 1)});
    ASSERT_TRUE(out) << out.error().text();
    double total = 0;
    for (int r = 0; r < size; ++r) total += (2 + r) * (1 + call);
    expected.insert(expected.end(), {static_cast<double>((2 + rank) * (1 + call)), total});
    EXPECT_EQ(only(out->y), total);
  }
  EXPECT_EQ(log, expected);
  EXPECT_TRUE(finish());
}

TEST_F(OwnOpJob, HostCallThatThrowsOnOneRank_IsOneErrorWithRankAndLineAndTheJobGoesOn) {
  int line = 0;
  bool bad = false;
  auto step = job->frame<X, Y>("step", [&](X in) {
    line = __LINE__ + 1;
    const Tensor x = host_call(
        "test.check", {in.x}, [](auto metas) { return metas[0]; },
        [&](auto arrays, Array& out) {
          if (bad) throw std::runtime_error("the disk is full");
          out = arrays[0].clone();
        });
    return Y{all_reduce(sum(x))};
  });
  for (int call = 0; call < 3; ++call) {
    bad = last && call == 1;
    const auto out = step({filled({3}, 1)});
    if (call == 1) {
      const Status error = refused(out, Code::RuntimeAssert);
      for (const std::string& part :
           {std::string("host_call test.check"), "own_op_job_test.cpp:" + std::to_string(line),
            std::string("threw: the disk is full"), last_text()})
        EXPECT_TRUE(contains(error.text(), part)) << part << " is not in " << error.text();
    } else {
      ASSERT_TRUE(out) << out.error().text();
      EXPECT_EQ(only(out->y), 3 * size);
    }
  }
  expect_goes_on();
}

TEST_F(OwnOpJob, HostCallsInAnotherOrder_AreFoundAlsoWhereGraphsMayDiffer) {
  if (size == 1) return;
  for (const Consistency consistency : {Consistency::SameGraph, Consistency::SameCollectives}) {
    const bool graph = consistency == Consistency::SameGraph;
    int runs = 0;
    auto step =
        job->frame<X, Y>(graph ? "strict" : "loose", {.consistency = consistency}, [&](X in) {
          const auto count = [&](const Array&) { ++runs; };
          (void)seen(last ? "b" : "a", in.x, count);
          (void)seen(last ? "a" : "b", in.x, count);
          return Y{all_reduce(sum(in.x))};
        });
    const Status error = refused(step({filled({3}, 1)}), Code::GraphDivergence);
    EXPECT_TRUE(contains(error.text(), "host_call \"a\"")) << error.text();
    EXPECT_TRUE(contains(error.text(), "host_call \"b\"")) << error.text();
    EXPECT_EQ(runs, 0);
  }
  expect_goes_on();
}

}  // namespace
}  // namespace lockstep::worker::own_op_job_test
