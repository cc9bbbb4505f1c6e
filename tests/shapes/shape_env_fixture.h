// An environment as a trace uses it, and what it leaves behind, checked after every test.
#pragma once

#include "validation/validation.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/shapes/guard_set.h>

namespace lockstep::shapes {

inline constexpr Range kSize{2, Range::kMax}, kCount{0, Range::kMax}, kAny{};

struct ShapeEnvTest : ::testing::Test {
  ShapeEnv env;
  std::uint32_t line = 0;

  // Whatever a vector says: what was emitted implies what was answered, and so does what an entry
  // keeps of it.
  void TearDown() override {
    Transcript emitted = transcript_of(env), kept = emitted;
    GuardSet all{{}, env.guards()};
    for (const auto& record : env.symbols()) all.ranges[record.symbol] = record.declared;
    kept.guards = minimal_guards(all);
    for (const Transcript& transcript : {emitted, kept}) {
      for (const auto& finding : validate(transcript).findings) {
        EXPECT_NE(finding.kind, Finding::Kind::Unsound) << finding.text;
      }
    }
  }
  Location here() { return {"step.cpp", ++line}; }
  Expr size(std::int64_t hint, Range range = kSize, Constraint constraint = Constraint::None) {
    const auto n = std::to_string(env.symbols().size());
    return env.backed("x.size(" + n + ")", hint, range, constraint);
  }
  Expr item(Range range = kAny) {
    return env.unbacked("n" + std::to_string(env.symbols().size()) + ".item()", range, here());
  }
  bool ask(const Predicate& p) { return env.evaluate(p, here()); }
  void must(const Predicate& p) { env.check(p, here()); }
  std::vector<std::string> guards() const {
    std::vector<std::string> out;
    for (const auto& guard : env.guards()) out.push_back(guard.predicate.text());
    return out;
  }
  std::vector<std::string> asserts() const {
    std::vector<std::string> out;
    for (const auto& a : env.deferred_asserts()) out.push_back(a.predicate.text());
    return out;
  }
  template <class Error, class F>
  std::string message_of(F&& f) {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    ADD_FAILURE() << "nothing of that type was thrown";
    return {};
  }
};

using Texts = std::vector<std::string>;

}  // namespace lockstep::shapes
