// The classes of sizes of a frame's function, asked for on real ranks, each by itself.
#include <algorithm>
#include <map>

#include "job_ranks.h"
#include <nlohmann/json.hpp>

#include <lockstep/worker/job/preview/infer.h>

namespace lockstep::worker::infer_job_test {
namespace {

/// Rows of a table by index, and numbers that the function branches on.
struct In {
  Tensor table, index;
  SymInt most;
  SymFloat rate;
  template <class V>
  void fields(V& v) {
    v("table", table), v("index", index), v("most", most), v("rate", rate);
  }
};

struct Two {
  Tensor x, y;
  template <class V>
  void fields(V& v) {
    v("x", x), v("y", y);
  }
};

class InferJob : public JobRanks {
 protected:
  static std::vector<std::string> outcomes(const InferredFrame& frame) {
    std::vector<std::string> out;
    for (const ExampleTrace& example : frame.examples)
      out.push_back(example.error ? "trace" : example.run_error ? "run" : "ok" + example.not_run);
    return out;
  }
  static std::string guards(const InferredFrame& frame, std::size_t index) {
    const auto json = nlohmann::json::parse(infer_json(frame));
    std::string out;
    for (const auto& guard : json["classes"][index]["guards"])
      out += (out.empty() ? "" : "; ") + guard["text"].get<std::string>();
    return out;
  }
};

TEST_F(InferJob, Branches_AreClassesThatEachRankFindsAlone) {
  int line = 0;
  const auto body = [&](X in) {
    Tensor y = in.x * 2.0;
    line = __LINE__ + 1;
    if (in.x.size(0) > 4) y = y + 1.0;
    if (in.x.size(0) % 3 == 0) y = y * 3.0;
    return Y{all_reduce(sum(y))};
  };
  auto step = job->frame<X, Y>("step", body);
  if (last || rank == 0) {  // the others know nothing of it
    const auto found = step.infer(X{filled({5, 2}, 1)}, {.symbols = {{"x.size(0)"}}});
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_TRUE(found->cover.whole);
    EXPECT_EQ(found->ranks, size);
    ASSERT_EQ(outcomes(*found), (std::vector<std::string>{"ok", "ok", "ok", "ok"}));
    EXPECT_EQ(guards(*found, 0), "x.size(0) <= 4; Mod(x.size(0), 3) == 0");
    std::vector<std::int64_t> examples;
    std::uint64_t points = 0;
    for (const shapes::SizeClass& one : found->cover.classes) {
      examples.push_back(one.example.at(0));
      points += one.points.value();
    }
    EXPECT_EQ(examples, (std::vector<std::int64_t>{0, 1, 5, 6}));
    EXPECT_EQ(points, 65U);
    EXPECT_EQ(found->cover.classes[2].cause->where.line, static_cast<std::uint32_t>(line));
  }
  const auto out = step(X{filled({3, 2}, 1)});
  ASSERT_TRUE(out) << out.error().text();
  EXPECT_EQ(only(out->y), 6.0 * 6 * size);
  EXPECT_TRUE(step.last_compiled());
  EXPECT_TRUE(finish());
}

TEST_F(InferJob, EveryPoint_IsTracedAsItsClassIs) {
  const auto body = [](X in) {
    const SymInt n = in.x.size(0);
    check(n != 7, "not seven");
    Tensor y = in.x;
    if (n == 1) y = y + 1.0;
    if (n * n > 40 && n % 2 == 1) y = slice(y, 0, 0, n - 9);
    return Y{sum(y)};
  };
  auto step = job->frame<X, Y>("step", body);
  const auto all = step.infer(X{filled({3}, 1)}, {.box = {0, 16}});
  ASSERT_TRUE(all) << all.error().text();
  ASSERT_TRUE(all->cover.whole);
  EXPECT_GE(all->examples.size(), 5U);
  for (std::int64_t n = 0; n <= 16; ++n) {
    const auto one = step.infer(X{filled({3}, 1)}, {.box = {n, n}});
    ASSERT_TRUE(one) << one.error().text();
    ASSERT_EQ(one->examples.size(), 1U);
    const auto at = std::ranges::find_if(all->cover.classes, [&](const shapes::SizeClass& c) {
      return std::ranges::all_of(c.guards, [&](const shapes::Guard& guard) {
        return guard.predicate.evaluate([n](shapes::Symbol) { return std::optional(n); }) == true;
      });
    });
    ASSERT_NE(at, all->cover.classes.end()) << n;
    const ExampleTrace& as =
        all->examples[static_cast<std::size_t>(at - all->cover.classes.begin())];
    EXPECT_EQ(outcomes(*one)[0] == "ok", !as.error && !as.run_error) << n;
    ASSERT_EQ(one->examples[0].graph == nullptr, as.graph == nullptr) << n;
    if (as.graph) {
      EXPECT_EQ(one->examples[0].graph->fingerprint(), as.graph->fingerprint()) << n;
    }
  }
  EXPECT_TRUE(finish());
}

TEST_F(InferJob, RunThatFails_IsToldOfItsClass) {
  const auto body = [](const In& in) {
    Tensor rows = index_select(in.table, in.index);
    if (in.rate > 0.5) rows = rows * in.rate;
    if (in.most > 3) rows = rows + 1.0;
    return Y{sum(rows)};
  };
  auto step = job->frame<In, Y>("step", body);
  const auto found =
      step.infer(In{filled({4, 2}, 1), integers({3, 1}), SymInt(9), 0.75},
                 {.box = {0, 5}, .symbols = {{"table.size(0)", "index.size(0)", "most"}}});
  ASSERT_TRUE(found) << found.error().text();
  ASSERT_TRUE(found->cover.whole);
  EXPECT_EQ(outcomes(*found), (std::vector<std::string>{"ok", "ok"}));
  ASSERT_EQ(found->examples[0].given.size(), 1U);
  EXPECT_TRUE(contains(found->examples[0].given[0], "rate > 0.5")) << found->examples[0].given[0];
  // No row, but one is looked up.
  const auto one = step.infer(In{filled({0, 2}, 1), integers({0}), SymInt(1), 0.75},
                              {.box = {1, 1}, .symbols = {{"index.size(0)"}}});
  ASSERT_TRUE(one) << one.error().text();
  ASSERT_EQ(outcomes(*one), (std::vector<std::string>{"run"}));
  EXPECT_EQ(one->examples[0].run_error->code, Code::RuntimeAssert);
  EXPECT_TRUE(finish());
}

TEST_F(InferJob, QuestionsOfTheGroup_AreAnsweredAsIfAllWereAlike) {
  const auto body = [](X in) {
    Tensor y = in.x;
    if (group_any(in.x.size(0) > 4)) y = y + 1.0;
    return Y{all_gather(y)};
  };
  auto step = job->frame<X, Y>("step", body);
  const auto found = step.infer(X{filled({5}, 1)});
  ASSERT_TRUE(found) << found.error().text();
  ASSERT_EQ(outcomes(*found), (std::vector<std::string>{"ok", "ok"}));
  EXPECT_EQ(guards(*found, 0), "x.size(0) <= 4");
  EXPECT_EQ(found->cover.classes[1].example, (shapes::SizePoint{5}));
  EXPECT_TRUE(finish());
}

TEST_F(InferJob, DeclaredRelations_BoundTheBox) {
  const auto body = [](Two in) { return Y{sum(in.x) + sum(in.y)}; };
  auto step = job->frame<Two, Y>(
      "step", {.constraints = {"2 <= x.size(0)", "y.size(0) == 2 * x.size(0)"}}, body);
  const auto found = step.infer(Two{filled({3}, 1), filled({6}, 1)}, {.box = {0, 10}});
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(found->cover.points, 4U);  // 2 to 5
  ASSERT_EQ(outcomes(*found), (std::vector<std::string>{"ok"}));
  EXPECT_EQ(found->cover.classes[0].example, (shapes::SizePoint{2, 4}));
  EXPECT_TRUE(finish());
}

TEST_F(InferJob, WhatCannotBeAsked_IsBadInput) {
  auto step = job->frame<X, Y>("step", [](X in) { return Y{sum(in.x)}; });
  const X like{filled({3}, 1)};
  for (const InferOptions& options : {InferOptions{.box = {3, 2}}, InferOptions{.box = {-1, 2}},
                                      InferOptions{.symbols = {{"y.size(0)"}}}}) {
    const auto found = step.infer(like, options);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, Code::BadInput);
  }
  EXPECT_TRUE(finish());
}

}  // namespace
}  // namespace lockstep::worker::infer_job_test
