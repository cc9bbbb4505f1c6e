// What the user holds a trace to, and modes of deciding: constraints and the reasons of a broken
// one, declared relations, branches that become asserts, sufficient guards.
#include "shape_env_fixture.h"

#include "validation/solver.h"

namespace lockstep::shapes::constraint_test {
namespace {

// Deferred mode: what is more than a bound of one symbol or a line between two is an assert.
struct DeferredModeTest : ShapeEnvTest {
  DeferredModeTest() { env = ShapeEnv({.complex = ShapeOptions::Complex::Assert}); }
};

TEST_F(DeferredModeTest, Vector_42_FlattenedSize_KeepsItsSymbol) {
  const Expr a = size(3), b = size(4), c = size(12);
  EXPECT_TRUE(ask(equal(a * b, c)));
  EXPECT_EQ(guards(), Texts{});
  EXPECT_EQ(asserts(), Texts{"s0*s1 == s2"});
  EXPECT_EQ(env.deferred_asserts()[0].due(), std::nullopt);
  EXPECT_EQ(env.simplify(c), c);
  EXPECT_EQ(env.prove(equal(2 * a * b, 2 * c)), true);
}

TEST_F(DeferredModeTest, Vector_43_RemainderByASize_IsAnAssert) {
  const Expr a = size(5), b = size(4);
  EXPECT_TRUE(ask(equal(mod(a * b, a - 1), 0)));
  EXPECT_EQ(guards(), Texts{});
  EXPECT_EQ(asserts(), Texts{"Mod(s1, s0 - 1) == 0"});
  const auto five_by_six = [](Symbol s) {
    return std::optional<std::int64_t>(s.serial == 0 ? 5 : 6);
  };
  EXPECT_EQ(env.deferred_asserts()[0].predicate.evaluate(five_by_six), false);
}

TEST_F(DeferredModeTest, NegatedComparisons_AreAsserts_SimpleOnesGuards) {
  const Expr a = size(6), b = size(12);
  EXPECT_FALSE(ask(equal(a, b)));
  EXPECT_FALSE(ask(equal(a, 7)));
  EXPECT_TRUE(ask(less(a, 100)));
  EXPECT_TRUE(ask(equal(mod(b, 4), 0)));
  EXPECT_TRUE(ask(equal(b, a + 6)));
  EXPECT_EQ(asserts(), (Texts{"s0 != s1", "s0 != 7"}));
  EXPECT_EQ(guards(), (Texts{"s0 <= 99", "Mod(s1, 4) == 0", "s0 + 6 == s1"}));
}

// What the user promised for every call is known and is no guard.
TEST_F(ShapeEnvTest, Declared_IsKnownAndNoGuard) {
  const Expr a = size(6), b = size(12);
  env.declare(equal(b, 2 * a), here());
  EXPECT_TRUE(ask(equal(mod(b, 2), 0)));
  EXPECT_EQ(env.simplify(b), 2 * a);
  EXPECT_EQ(guards(), Texts{});
  EXPECT_EQ(env.declared().size(), 1u);
  EXPECT_THROW(env.declare(equal(a, 7), here()), ConstraintError);
}

// What the op that makes a value promises of it: known, with no assert, and validation holds the
// trace to it on both sides.
TEST_F(ShapeEnvTest, DeclaredOfAnUnbackedCount_IsKnownAndNoAssert) {
  const Expr s = size(6), rows = size(9), u = item(kCount);
  EXPECT_EQ(env.prove(less_equal(u, s)), std::nullopt);
  env.declare(less_equal(u, s), here());
  must(less_equal(u, s));
  must(less_equal(2 * u, s + u));
  EXPECT_TRUE(ask(greater_equal(s - u, 0)));
  EXPECT_FALSE(ask(greater(u, s)));
  EXPECT_EQ(asserts(), Texts{});
  EXPECT_EQ(guards(), Texts{});
  must(equal(rows, s + 3));
  EXPECT_TRUE(ask(less(u, rows)));
  const Validation validation = validate(transcript_of(env));
  EXPECT_TRUE(validation.findings.empty()) << validation.text();
  if (solver_is_available()) {
    EXPECT_TRUE(validation.holds()) << validation.text();
  }
}

TEST_F(ShapeEnvTest, DeclaredOfAnUnbackedCount_ThatCannotHold_Throws) {
  const Expr s = size(4), u = item({5, 9});
  must(less_equal(s, 4));
  EXPECT_THROW(env.declare(less_equal(u, s), here()), ConstraintError);
}

TEST_F(ShapeEnvTest, Vector_45_DeclaredRelation_PinsWithABranch) {
  const Expr a = size(6, kSize, Constraint::Varies), b = size(12);
  env.declare(equal(b, a + 6), {"declared.cpp", 1});
  const auto text = message_of<ConstraintError>([&] {
    static_cast<void>(env.evaluate(equal(2 * a, b), {"model.cpp", 9}));
  });
  EXPECT_EQ(text,
            "model.cpp:9: `2*x.size(0) == x.size(1)` together with `x.size(0) + 6 == x.size(1)` at "
            "declared.cpp:1 fixes x.size(0) to 6, but that dim is marked dynamic; write code that "
            "is right for every size, or, if it always is 6, call mark_static(x, 0) or remove the "
            "mark");
}

TEST_F(ShapeEnvTest, ChainThatPins_LeavesOutWhatIsNotNeeded) {
  const Expr a = size(8, kSize, Constraint::Varies), b = size(4), c = size(2);
  EXPECT_TRUE(env.evaluate(greater(b, 3), {"m.cpp", 1}));
  EXPECT_TRUE(env.evaluate(equal(a, 2 * b), {"m.cpp", 2}));
  EXPECT_TRUE(env.evaluate(less(a, 100), {"m.cpp", 3}));
  EXPECT_TRUE(env.evaluate(equal(b, 2 * c), {"m.cpp", 4}));
  const auto text = message_of<ConstraintError>([&] {
    static_cast<void>(env.evaluate(equal(c, 2), {"m.cpp", 5}));
  });
  EXPECT_EQ(text.substr(0, text.find(", but")),
            "m.cpp:5: `x.size(2) == 2` together with `x.size(0) == 2*x.size(1)` at m.cpp:2, "
            "`x.size(1) == 2*x.size(2)` at m.cpp:4 fixes x.size(0) to 8");
}

TEST_F(ShapeEnvTest, PromisedRange_IsNotNarrowed) {
  const Expr a = size(6, {2, 64}, Constraint::WholeRange);
  EXPECT_TRUE(ask(less_equal(a, 64)));
  const auto text = message_of<ConstraintError>([&] {
    static_cast<void>(env.evaluate(less_equal(a, 32), {"m.cpp", 5}));
  });
  EXPECT_EQ(
      text,
      "m.cpp:5: `x.size(0) <= 32` leaves x.size(0) only between 2 and 32, but it was declared "
      "to be between 2 and 64; write code that is right for all of it, or declare \"x.size(0) <= "
      "32\" in the frame's constraints");
}

TEST_F(ShapeEnvTest, PromisedRange_IsNotTiedToRemaindersOrOtherSizes) {
  const Expr a = size(6, {2, 64}, Constraint::WholeRange), b = size(12, {2, 128});
  const auto remainder = message_of<ConstraintError>([&] {
    static_cast<void>(env.evaluate(equal(mod(a, 2), 0), {"m.cpp", 5}));
  });
  EXPECT_EQ(remainder,
            "m.cpp:5: this branch on `Mod(x.size(0), 2) == 0` was traced for sizes with "
            "`Mod(x.size(0), 2) == 0` only, but x.size(0) was declared to be between 2 and 64; "
            "write code that is right either way, or declare \"x.size(0) % 2 == 0\" in the frame's "
            "constraints");
  EXPECT_THROW(static_cast<void>(ask(equal(b, 2 * a))), ConstraintError);
  EXPECT_THROW(static_cast<void>(ask(not_equal(a, 7))), ConstraintError);
  EXPECT_THROW(static_cast<void>(env.to_int(a, here())), ConstraintError);
}

TEST_F(ShapeEnvTest, PromisedRange_TiedAsDeclared_IsFine) {
  const Expr a = size(6, {2, 64}, Constraint::WholeRange), b = size(12, {2, 128});
  env.declare(equal(b, 2 * a), here());
  EXPECT_TRUE(ask(equal(b, 2 * a)));
  EXPECT_EQ(guards(), Texts{});
}

TEST_F(ShapeEnvTest, PromisedRange_NarrowedByADeclaredRelation_IsWhatItLeaves) {
  const Expr a = size(6, {2, 64}, Constraint::WholeRange), b = size(9, {2, 20});
  env.declare(equal(b, a + 3), here());
  EXPECT_TRUE(ask(less_equal(a, 17)));
  EXPECT_EQ(guards(), Texts{});
  const auto text = message_of<ConstraintError>([&] {
    static_cast<void>(env.evaluate(less_equal(a, 16), {"m.cpp", 5}));
  });
  EXPECT_NE(text.find("only between 2 and 16, but it was declared to be between 2 and 17"),
            std::string::npos)
      << text;
}

TEST_F(ShapeEnvTest, SufficientGuard_SaysWhatItAnswers) {
  const Expr s = size(3), u = item();
  EXPECT_TRUE(ask(equal(u * s * s, 9 * u)));
  ASSERT_EQ(env.guards().size(), 1u);
  EXPECT_EQ(env.guards()[0].note,
            "answers `x.size(0)*x.size(0)*n1.item() == 9*n1.item()` for every value of n1.item() "
            "(made at step.cpp:1, any integer)");
}

TEST_F(ShapeEnvTest, RemaindersOfTwoModuli_Combine) {
  const Expr s = size(24), u = item(kCount);
  must(equal(mod(u, 4), 1));
  must(equal(mod(u, 6), 3));
  EXPECT_EQ(env.simplify(mod(u, 12)), Expr(9));
  EXPECT_EQ(env.prove(equal(u + 12 * s, 4)), false);
  EXPECT_EQ(env.prove(not_equal(5 * u + 3 * mod(u, 12), 0)), true);
  EXPECT_THROW(must(equal(mod(u, 3), 1)), ConstraintError);
}

TEST_F(ShapeEnvTest, DataDependentBranch_ShowsTheResidueAndBothAnswers) {
  const Expr u = item(kCount), s = size(7);
  must(less(u, 4));
  const auto text = message_of<DataDependentError>([&] {
    static_cast<void>(env.evaluate(less(36 * u, 36), {"m.cpp", 8}));
  });
  EXPECT_EQ(text,
            "m.cpp:8: this branch on `n0.item() <= 0` needs n0.item() (made at step.cpp:1, between "
            "0 and 3), known only when the graph runs (true for n0.item() = 0; false for n0.item() "
            "= 1); write the general path that is right either way, call check(n0.item() <= 0) or "
            "check(n0.item() >= 1) before it if one of them always holds");
  must(equal(s, 7));
}

}  // namespace
}  // namespace lockstep::shapes::constraint_test
