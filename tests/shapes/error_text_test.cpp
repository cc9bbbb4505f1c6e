// The texts that users read, whole: one table of what is asked and what is said. A text that
// changes is read here before it is read by anyone else.
#include <functional>

#include "shape_env_fixture.h"

namespace lockstep::shapes::error_text_test {
namespace {

constexpr const char* kFile = "model.py";

// What the questions of the table are about.
struct Scene {
  ShapeEnv env;
  Expr x, y, n, promised, marked, u, v, flag;

  explicit Scene(ShapeOptions options = {}) : env(options) {
    x = env.backed("x.size(0)", 8, {2, Range::kMax});
    y = env.backed("y.size(1)", 12, {2, Range::kMax});
    n = env.backed("n", -3, {});
    promised = env.backed("p.size(0)", 6, {2, 64}, Constraint::WholeRange);
    marked = env.backed("batch.m[2].size(3)", 5, {2, Range::kMax}, Constraint::Varies);
    u = env.unbacked("counts.tolist()[0]", {0, Range::kMax}, {kFile, 11});
    v = env.unbacked("counts.tolist()[1]", {0, 9}, {kFile, 11});
    flag = env.unbacked("f.size(0)", {0, Range::kMax}, {});
  }
  void ask(const Predicate& p, std::uint32_t line) {
    static_cast<void>(env.evaluate(p, {kFile, line}));
  }
  void check(const Predicate& p, std::uint32_t line, const std::string& message = {}) {
    env.check(p, {kFile, line}, message);
  }
};

struct Case {
  const char* name;
  std::function<void(Scene&)> does;
  const char* says;
};

const std::vector<Case>& data_dependent() {
  static const std::vector<Case> all = {
      {"a branch", [](Scene& s) { s.ask(greater(s.u, 4), 20); },
       "model.py:20: this branch on `counts.tolist()[0] >= 5` needs counts.tolist()[0] (made at "
       "model.py:11, at least 0), known only when the graph runs (true for counts.tolist()[0] = 5; "
       "false for counts.tolist()[0] = 0); write the general path that is right either way, call "
       "check(counts.tolist()[0] >= 5) or check(counts.tolist()[0] <= 4) before it if one of them "
       "always holds"},
      {"of two values", [](Scene& s) { s.ask(less(s.u, s.v), 20); },
       "model.py:20: this branch on `counts.tolist()[0] < counts.tolist()[1]` needs "
       "counts.tolist()[0] (made at model.py:11, at least 0) and counts.tolist()[1] (made at "
       "model.py:11, between 0 and 9), known only when the graph runs (true for counts.tolist()[0] "
       "= 0, counts.tolist()[1] = 1; false for counts.tolist()[0] = 0, counts.tolist()[1] = 0); "
       "write the general path that is right either way, call check(counts.tolist()[0] < "
       "counts.tolist()[1]) or check(counts.tolist()[0] >= counts.tolist()[1]) before it if one of "
       "them always holds"},
      {"of a value and a size", [](Scene& s) { s.ask(equal(s.u, s.x), 20); },
       "model.py:20: this branch on `x.size(0) == counts.tolist()[0]` needs counts.tolist()[0] "
       "(made at model.py:11, at least 0), known only when the graph runs (true for "
       "counts.tolist()[0] = 8; false for counts.tolist()[0] = 0); write the general path that is "
       "right either way, call check(x.size(0) == counts.tolist()[0]) or check(x.size(0) != "
       "counts.tolist()[0]) before it if one of them always holds"},
      {"of values that a check ties",
       [](Scene& s) {
         s.check(equal(s.u, 2 * s.v), 12);
         s.ask(equal(mod(s.u + s.v, 5), 0), 20);
       },
       "model.py:20: this branch on `Mod(counts.tolist()[0] + counts.tolist()[1], 5) == 0` needs "
       "counts.tolist()[0] (made at model.py:11, between 0 and 18) and counts.tolist()[1] (made at "
       "model.py:11, between 0 and 9), known only when the graph runs (true for counts.tolist()[0] "
       "= 0, counts.tolist()[1] = 0; false for counts.tolist()[0] = 2, counts.tolist()[1] = 1); "
       "write the general path that is right either way, call check(Mod(counts.tolist()[0] + "
       "counts.tolist()[1], 5) == 0) or check(Mod(counts.tolist()[0] + counts.tolist()[1], 5) != "
       "0) before it if one of them always holds"},
      {"that comes down to less",
       [](Scene& s) {
         s.check(equal(s.v, 4), 12);
         s.ask(less_equal(s.u * s.v, s.x), 20);
       },
       "model.py:20: this branch on `counts.tolist()[0]*counts.tolist()[1] <= x.size(0)` needs "
       "counts.tolist()[0] (made at model.py:11, at least 0), known only when the graph runs, and "
       "comes down to `x.size(0) >= 4*counts.tolist()[0]` (true for counts.tolist()[0] = 0; false "
       "for counts.tolist()[0] = 3); write the general path that is right either way, call "
       "check(counts.tolist()[0]*counts.tolist()[1] <= x.size(0)) or "
       "check(counts.tolist()[0]*counts.tolist()[1] > x.size(0)) before it if one of them always "
       "holds"},
      {"of many values",
       [](Scene& s) {
         s.ask(equal(s.u + s.v + s.flag + s.env.unbacked("k", {}, {kFile, 13}), 3), 20);
       },
       "model.py:20: this branch on `counts.tolist()[0] + counts.tolist()[1] + f.size(0) + k == 3` "
       "needs counts.tolist()[0] (made at model.py:11, at least 0) and counts.tolist()[1] (made at "
       "model.py:11, between 0 and 9) and f.size(0) (at least 0) and 1 more, known only when the "
       "graph runs; write the general path that is right either way, call check(counts.tolist()[0] "
       "+ counts.tolist()[1] + f.size(0) + k == 3) or check(counts.tolist()[0] + "
       "counts.tolist()[1] + f.size(0) + k != 3) before it if one of them always holds, or do not "
       "mark the dim unbacked"},
      {"of a square, after a check",
       [](Scene& s) {
         s.check(less(s.u, s.x), 12);
         s.ask(less(s.u * s.u, 49), 20);
       },
       "model.py:20: this branch on `counts.tolist()[0]*counts.tolist()[0] <= 48` needs "
       "counts.tolist()[0] (made at model.py:11, at least 0), known only when the graph runs (true "
       "for counts.tolist()[0] = 0; false for counts.tolist()[0] = 7); write the general path that "
       "is right either way, call check(counts.tolist()[0]*counts.tolist()[0] <= 48) or "
       "check(counts.tolist()[0]*counts.tolist()[0] >= 49) before it if one of them always holds"},
      {"of a dim that is marked unbacked", [](Scene& s) { s.ask(equal(s.flag, 1), 20); },
       "model.py:20: this branch on `f.size(0) == 1` needs f.size(0) (at least 0), known only when "
       "the graph runs (true for f.size(0) = 1; false for f.size(0) = 0); write the general path "
       "that is right either way, call check(f.size(0) == 1) or check(f.size(0) != 1) before it if "
       "one of them always holds, or do not mark the dim unbacked"},
      {"a number",
       [](Scene& s) {
         static_cast<void>(s.env.to_int(3 * s.u + 1, {kFile, 20}));
       },
       "model.py:20: a number is needed for `3*counts.tolist()[0] + 1`, which needs "
       "counts.tolist()[0] (made at model.py:11, at least 0), known only when the graph runs; keep "
       "the size symbolic, or call check(3*counts.tolist()[0] + 1 == N) before it if it always is "
       "N"},
      {"a number of two values",
       [](Scene& s) {
         static_cast<void>(s.env.to_int(s.u + s.v, {kFile, 20}));
       },
       "model.py:20: a number is needed for `counts.tolist()[0] + counts.tolist()[1]`, which needs "
       "counts.tolist()[0] (made at model.py:11, at least 0) and counts.tolist()[1] (made at "
       "model.py:11, between 0 and 9), known only when the graph runs; keep the size symbolic, or "
       "call check(counts.tolist()[0] + counts.tolist()[1] == N) before it if it always is N"},
      {"a root",
       [](Scene& s) {
         static_cast<void>(s.env.isqrt(s.u, {kFile, 20}));
       },
       "model.py:20: a number is needed for `counts.tolist()[0]`, which needs counts.tolist()[0] "
       "(made at model.py:11, at least 0), known only when the graph runs; keep the size symbolic, "
       "or call check(counts.tolist()[0] == N) before it if it always is N"},
  };
  return all;
}

const std::vector<Case>& constraints() {
  static const std::vector<Case> all = {
      {"pinned by a branch", [](Scene& s) { s.ask(equal(s.marked, 5), 20); },
       "model.py:20: `batch.m[2].size(3) == 5` fixes batch.m[2].size(3) to 5, but that dim is "
       "marked dynamic; write code that is right for every size, or, if it always is 5, call "
       "mark_static(batch.m[2], 3) or remove the mark"},
      {"pinned by a number",
       [](Scene& s) {
         static_cast<void>(s.env.to_int(s.marked + 1, {kFile, 20}));
       },
       "model.py:20: `batch.m[2].size(3) == 5` fixes batch.m[2].size(3) to 5, but that dim is "
       "marked dynamic; write code that is right for every size, or, if it always is 5, call "
       "mark_static(batch.m[2], 3) or remove the mark"},
      {"pinned by two bounds",
       [](Scene& s) {
         s.ask(less(s.marked, 6), 18);
         s.ask(less(s.y, 100), 19);
         s.ask(greater(s.marked, 4), 20);
       },
       "model.py:20: `batch.m[2].size(3) >= 5` together with `batch.m[2].size(3) <= 5` at "
       "model.py:18 fixes batch.m[2].size(3) to 5, but that dim is marked dynamic; write code that "
       "is right for every size, or, if it always is 5, call mark_static(batch.m[2], 3) or remove "
       "the mark"},
      {"pinned by a chain",
       [](Scene& s) {
         s.ask(equal(s.x, s.marked + 3), 18);
         s.ask(equal(2 * s.y, 3 * s.x), 19);
         s.ask(equal(s.y, 12), 20);
       },
       "model.py:20: `y.size(1) == 12` together with `x.size(0) == batch.m[2].size(3) + 3` at "
       "model.py:18, `3*x.size(0) == 2*y.size(1)` at model.py:19 fixes batch.m[2].size(3) to 5, "
       "but that dim is marked dynamic; write code that is right for every size, or, if it always "
       "is 5, call mark_static(batch.m[2], 3) or remove the mark"},
      {"pinned by a check", [](Scene& s) { s.check(equal(s.marked, 5), 20); },
       "model.py:20: `batch.m[2].size(3) == 5` fixes batch.m[2].size(3) to 5, but that dim is "
       "marked dynamic; write code that is right for every size, or, if it always is 5, call "
       "mark_static(batch.m[2], 3) or remove the mark"},
      {"narrowed from above", [](Scene& s) { s.ask(less(s.promised, 33), 20); },
       "model.py:20: `p.size(0) <= 32` leaves p.size(0) only between 2 and 32, but it was declared "
       "to be between 2 and 64; write code that is right for all of it, or declare \"p.size(0) <= "
       "32\" in the frame's constraints"},
      {"narrowed from below", [](Scene& s) { s.ask(greater(s.promised, 3), 20); },
       "model.py:20: `p.size(0) >= 4` leaves p.size(0) only between 4 and 64, but it was declared "
       "to be between 2 and 64; write code that is right for all of it, or declare \"p.size(0) >= "
       "4\" in the frame's constraints"},
      {"tied to a remainder", [](Scene& s) { s.ask(equal(mod(s.promised, 3), 0), 20); },
       "model.py:20: this branch on `Mod(p.size(0), 3) == 0` was traced for sizes with "
       "`Mod(p.size(0), 3) == 0` only, but p.size(0) was declared to be between 2 and 64; write "
       "code that is right either way, or declare \"p.size(0) % 3 == 0\" in the frame's "
       "constraints"},
      {"tied to another size", [](Scene& s) { s.ask(equal(s.y, 2 * s.promised), 20); },
       "model.py:20: this branch on `y.size(1) == 2*p.size(0)` was traced for sizes with "
       "`y.size(1) == 2*p.size(0)` only, but p.size(0) was declared to be between 2 and 64, "
       "whatever the other sizes are; write code that is right either way, or declare \"y.size(1) "
       "== 2*p.size(0)\" in the frame's constraints"},
      {"tied by not being another number", [](Scene& s) { s.ask(equal(s.promised, 7), 20); },
       "model.py:20: this branch on `p.size(0) != 7` was traced for sizes with `p.size(0) != 7` "
       "only, but p.size(0) was declared to be between 2 and 64; write code that is right either "
       "way, or declare \"p.size(0) != 7\" in the frame's constraints"},
      {"tied by a number of two sizes",
       [](Scene& s) {
         static_cast<void>(s.env.to_int(s.y + 2 * s.promised, {kFile, 20}));
       },
       "model.py:20: to_int(y.size(1) + 2*p.size(0)) was traced for sizes with `y.size(1) + "
       "2*p.size(0) == 24` only, but p.size(0) was declared to be between 2 and 64, whatever the "
       "other sizes are; keep the size symbolic, or declare \"y.size(1) == -2*p.size(0) + 24\" in "
       "the frame's constraints"},
      {"a check that fails", [](Scene& s) { s.check(equal(s.x, s.y), 20, "rows match"); },
       "model.py:20: check(x.size(0) == y.size(1)) does not hold (rows match): x.size(0) is 8, "
       "y.size(1) is 12; correct the sizes or the check"},
      {"a check that can never hold", [](Scene& s) { s.check(greater(s.v, 9), 20); },
       "model.py:20: check(counts.tolist()[1] >= 10) can never hold: counts.tolist()[1] (made at "
       "model.py:11, between 0 and 9); correct the sizes or the check"},
      {"a check of a value that fails",
       [](Scene& s) {
         s.check(less(s.u, s.x), 12);
         s.check(greater(s.u, s.x), 20, "enough");
       },
       "model.py:20: check(x.size(0) < counts.tolist()[0]) can never hold (enough): x.size(0) is "
       "8, counts.tolist()[0] (made at model.py:11, at least 0); correct the sizes or the check"},
      {"checks that contradict each other",
       [](Scene& s) {
         s.check(less_equal(s.u, s.x), 12);
         s.check(less_equal(s.x, s.y), 13);
         s.check(less(s.y, s.v), 14);
         s.check(equal(s.u, s.v), 20);
       },
       "model.py:20: `counts.tolist()[0] == counts.tolist()[1]` contradicts what earlier checks "
       "and branches say; correct one of them"},
      {"no value", [](Scene& s) { s.ask(equal(floor_div(s.x, s.y - 12), 1), 20); },
       "model.py:20: `x.size(0) // (y.size(1) - 12) == 1` has no value at the agreed sizes, by "
       "division by zero or overflow: x.size(0) is 8, y.size(1) is 12; test the sizes before it"},
      {"a root of less than nothing",
       [](Scene& s) {
         static_cast<void>(s.env.isqrt(s.n, {kFile, 20}));
       },
       "model.py:20: the square root of `n` is asked for, but that is -3; test that it is not "
       "negative before"},
      {"a declaration that does not hold",
       [](Scene& s) {
         s.env.declare(equal(s.y, 2 * s.x), {"the frame's declaration", 0});
       },
       "the frame's declaration: `2*x.size(0) == y.size(1)` was declared, but it does not hold: "
       "x.size(0) is 8, y.size(1) is 12; correct the sizes or the declaration"},
  };
  return all;
}

template <class Error>
void expect_texts(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    Scene scene;
    std::string said;
    try {
      one.does(scene);
    } catch (const Error& error) {
      said = error.what();
    }
    EXPECT_EQ(said, one.says) << one.name;
  }
}

// What a RUNTIME_ASSERT quotes: the predicate in source names, the line, what the user said.
std::vector<std::string> asserts_of(const Scene& scene) {
  std::vector<std::string> out;
  for (const DeferredAssert& one : scene.env.deferred_asserts()) {
    out.push_back(one.where.text() + ": `" + one.predicate.text(scene.env.source_namer()) + "` (" +
                  one.message + ")");
  }
  return out;
}

TEST(ErrorTexts, WhatAnAssertSays) {
  Scene scene;
  scene.check(equal(scene.x * 3, 2 * scene.y), 12, "three heads per pair");
  scene.check(less_equal(scene.u + scene.v, scene.x), 13, "no more than there are");
  scene.check(equal(mod(scene.u, 4), 0), 14);
  scene.check(greater(scene.y, 12 - scene.v), 15);
  scene.check(not_equal(scene.v, 3), 16);
  scene.check(less(scene.v, 10), 17, "known, so no assert");
  EXPECT_EQ(asserts_of(scene),
            (Texts{"model.py:12: `3*x.size(0) == 2*y.size(1)` (three heads per pair)",
                   "model.py:13: `x.size(0) >= counts.tolist()[0] + counts.tolist()[1]` (no more "
                   "than there are)",
                   "model.py:14: `Mod(counts.tolist()[0], 4) == 0` ()",
                   "model.py:15: `y.size(1) + counts.tolist()[1] >= 13` ()",
                   "model.py:16: `counts.tolist()[1] != 3` ()"}));
  Scene deferred({.complex = ShapeOptions::Complex::Assert});
  deferred.ask(less(deferred.x * deferred.y, 100), 20);
  EXPECT_EQ(
      asserts_of(deferred),
      Texts{"model.py:20: `x.size(0)*y.size(1) <= 99` (the branch that was traced is right for "
            "this only)"});
}

TEST(ErrorTexts, WhatIsKnownOnlyWhenTheGraphRuns) {
  expect_texts<DataDependentError>(data_dependent());
}

TEST(ErrorTexts, WhatBreaksAPromise) { expect_texts<ConstraintError>(constraints()); }

}  // namespace
}  // namespace lockstep::shapes::error_text_test
