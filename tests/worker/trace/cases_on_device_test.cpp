// Every op case, forward and backward, as CUDA text that runs on this processor, and those of several
// ranks as host text, too: beside the interpreter, with symbolic sizes, threads in both orders. A few
// graphs, each compiled once.
#include "compiled_graph.h"
#include "on_ranks.h"
#include "ops/joined_cases.h"
#include <gtest/gtest.h>

namespace lockstep::worker::cases_on_device_test {
namespace {

struct Part {
  int ranks;
  std::size_t part, parts;
};

class CasesOnDevice : public testing::TestWithParam<Part> {
 protected:
  static void compare(const OnRanks::Run& got, const OnRanks::Run& expected, const Graph& graph) {
    for (std::size_t r = 0; r < expected.ranks.size(); ++r) {
      ASSERT_TRUE(expected.ranks[r]->has_value()) << expected.ranks[r]->error().text();
      ASSERT_TRUE(got.ranks[r]->has_value()) << got.ranks[r]->error().text();
      const std::vector<Array>&mine = got.ranks[r]->value(), &right = expected.ranks[r]->value();
      ASSERT_EQ(mine.size(), right.size());
      for (std::size_t i = 0; i < right.size(); ++i)
        EXPECT_TRUE(same({mine[i]}, {right[i]}, 1e-9)) << "rank " << r << ", " << graph.outputs[i].name;
    }
  }
};

TEST_P(CasesOnDevice, AgreeWithTheInterpreter_AtSizes0125) {
  const test::JoinedCases cases(GetParam().ranks, GetParam().part, GetParam().parts);
  ASSERT_GT(cases.count(), 0U);
  const Result<Graph> graph = cases.traced();
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  OnRanks ranks(*graph, cases.ranks());
  bool down = false;
  for (const auto& [n, m] : test::case_sizes()) {
    SCOPED_TRACE("n " + std::to_string(n) + " m " + std::to_string(m));
    const std::vector<Inputs> inputs = cases.inputs(n, m, 5);
    const OnRanks::Run expected = ranks.interpreted(inputs);
    down = !down;
    const auto turn = [&](int, EmulatedDevice& device) { device.set_down(down); };
    compare(ranks.on_devices(inputs, OnRanks::Way::Staged, turn), expected, *graph);
    if (cases.ranks() == 1) continue;
    compare(ranks.on_devices(inputs, OnRanks::Way::Direct, turn), expected, *graph);
    compare(ranks.compiled(inputs), expected, *graph);
  }
}

constexpr std::size_t kParts = 6;
std::vector<Part> parts() {
  std::vector<Part> out{{2, 0, 1}, {3, 0, 1}};
  for (std::size_t part = 0; part < kParts; ++part) out.push_back({1, part, kParts});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Parts, CasesOnDevice, testing::ValuesIn(parts()), [](const auto& p) {
  return "ranks" + std::to_string(p.param.ranks) + "part" + std::to_string(p.param.part);
});

}  // namespace
}  // namespace lockstep::worker::cases_on_device_test
