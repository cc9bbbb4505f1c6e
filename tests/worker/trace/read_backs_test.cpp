// What the log says of values that the host reads back: each, its line, and the line that needs it.
#include <source_location>

#include "function_runs.h"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/jagged/padding.h>
#include <lockstep/worker/tensor/language/order_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>

namespace lockstep::worker::read_backs_test {
namespace {

using namespace test;  // NOLINT: everything here traces functions

/// values f64 [s0], lengths i64 [4], m bool [s0].
std::vector<std::string> said(const Body& body, bool peers_may_differ = false) {
  const DecisionBuilder decision = DecisionBuilder()
                                       .tensor("aa", DType::F64, {dynamic(5, 0)})
                                       .tensor("ab", DType::I64, {4})
                                       .tensor("ac", DType::Bool, {dynamic(5, 0)});
  TraceSetup all = setup(decision.get());
  all.peers_may_differ = peers_may_differ;
  return must(trace(all,
                    [&](Trace& t) {
                      const Tensors out =
                          body({t.tensor_input(0), t.tensor_input(1), t.tensor_input(2)});
                      for (std::size_t i = 0; i < out.size(); ++i) t.output(numbered(i), out[i]);
                    }))
      .read_backs;
}

int line_now(std::source_location where = std::source_location::current()) {
  return static_cast<int>(where.line());
}
std::string at(int line) { return fmt::format("read_backs_test.cpp:{}", line); }

TEST(ReadBacks, EachIsToldWithTheLineThatNeedsIt) {
  int repeated = 0, padded = 0, counted = 0, listed = 0, needed = 0, unused = 0;
  const auto lines = said([&](const Tensors& in) {
    repeated = line_now() + 1;
    const Tensor wide = repeat_interleave(arange(in[1].size(0)), in[1], 0);
    padded = line_now() + 1;
    const Tensor dense = to_padded({in[0], in[1]});
    counted = line_now() + 1;
    const Tensor often = bincount(in[1]);
    listed = line_now() + 1;
    const Sizes parts = tolist(in[1], Values::NonNegative);
    needed = line_now() + 1;
    const Tensor first = zeros(*in[0].trace(), {parts[0]}, DType::F64);
    unused = line_now() + 1;
    (void)item(amin(in[1]));
    return Tensors{wide, dense, often, first};
  });
  ASSERT_EQ(lines.size(), 5U) << fmt::format("{}", fmt::join(lines, "\n"));
  EXPECT_EQ(
      lines[0].find(fmt::format("repeat_interleave().size(0) of {} is read back: ", at(repeated))),
      0U)
      << lines[0];
  EXPECT_NE(lines[0].find(fmt::format(" in {} needs it", at(repeated))), std::string::npos)
      << lines[0];
  EXPECT_EQ(lines[1].find(fmt::format("item() of {} is read back: ", at(padded))), 0U) << lines[1];
  EXPECT_NE(lines[1].find(fmt::format(" in {} needs it", at(padded))), std::string::npos)
      << lines[1];
  EXPECT_EQ(lines[2],
            fmt::format("bincount().size(0) of {0} is read back: index_add in {0} needs it",
                        at(counted)));
  EXPECT_EQ(lines[3], fmt::format("tolist() of {} is read back: full in {} needs it", at(listed),
                                  at(needed)));
  EXPECT_EQ(lines[4],
            fmt::format("item() of {} is read back, though nothing needs it", at(unused)));
}

TEST(ReadBacks, WhereRanksMayRunOtherGraphs_MasksAreToldToo) {
  int first = 0, second = 0, scanned = 0;
  const Body body = [&](const Tensors& in) {
    first = line_now() + 1;
    const Tensor total = sum(in[0][in[2]]);
    second = line_now() + 1;
    const Tensor few = in[0][in[0] > 0.5];
    scanned = line_now() + 1;
    return Tensors{total, sum(cumsum(few, 0))};
  };
  const auto apart = said(body, true);
  ASSERT_EQ(apart.size(), 2U);
  EXPECT_EQ(apart[0], fmt::format("x[mask].size(0) of {} is read back: nothing needs it, but other "
                                  "ranks may run other graphs",
                                  at(first)));
  EXPECT_EQ(apart[1], fmt::format("x[mask].size(0) of {} is read back: cumsum in {} needs it",
                                  at(second), at(scanned)));
  const auto alike = said(body);
  ASSERT_EQ(alike.size(), 2U);
  EXPECT_EQ(alike[0], fmt::format("x[mask].size(0) of {} is not read back: where() stands in its "
                                  "place",
                                  at(first)));
  EXPECT_EQ(alike[1], apart[1]);
}

}  // namespace
}  // namespace lockstep::worker::read_backs_test
