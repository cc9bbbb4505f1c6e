#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "claim.h"
#include "solver.h"
#include "validation.h"

namespace lockstep::shapes {
namespace {

using Kind = Conclusion::Kind;

class Validator {
 public:
  Validator(const Transcript& transcript, const ValidationLimits& limits)
      : transcript_(transcript), limits_(limits) {
    for (const auto& relation : transcript.declared) {
      target_.push_back({relation.predicate});
      source_.push_back({relation.predicate});
    }
    for (const auto& guard : transcript.guards) target_.push_back({guard.predicate});
    for (const auto& a : transcript.asserts) target_.push_back({a.predicate});
    for (const auto& asked : transcript.asked) source_.push_back({asked.predicate, asked.answer});
  }

  Validation run() {
    for (const auto& guard : transcript_.guards) backed_only(guard);
    for (const auto& asked : transcript_.asked) answer(asked);
    for (const auto& record : transcript_.symbols) known_range(record);
    for (const auto& [symbol, by] : transcript_.replacements) {
      rewritten(Expr::symbol(symbol), by, "is replaced by");
    }
    for (const auto& [before, after] : transcript_.rewritten) rewritten(before, after, "became");
    for (const auto& guard : transcript_.guards) {
      const bool settles = asks_unbacked(guard.where);
      decide(source_, {Kind::Met, {guard.predicate}, {}, {}},
             fmt::format("{}: the guard `{}`", guard.where.text(), text_of(guard.predicate)),
             settles ? Finding::Kind::Sufficient : Finding::Kind::Stronger);
    }
    for (const auto& a : transcript_.asserts) {
      decide(source_, {Kind::Met, {a.predicate}, {}, {}},
             fmt::format("{}: the assert `{}`", a.where.text(), text_of(a.predicate)),
             Finding::Kind::Stronger);
    }
    return std::move(out_);
  }

 private:
  void backed_only(const Guard& guard) {
    if (!guard.predicate.expr.has_unbacked()) return;
    report(Finding::Kind::Unsound,
           fmt::format("{}: the guard `{}` holds a value that is known only when the graph runs",
                       guard.where.text(), text_of(guard.predicate)),
           {});
  }

  void answer(const ShapeEnv::Asked& asked) {
    decide(target_, {Kind::NotOther, {asked.predicate, asked.answer}, {}, {}},
           fmt::format("{}: `{}` was answered {}", asked.where.text(), text_of(asked.predicate),
                       asked.answer));
  }

  void known_range(const ShapeEnv::SymbolRecord& record) {
    const Expr e = Expr::symbol(record.symbol);
    const auto bound = [&](const Predicate& p) {
      decide(target_, {Kind::NotOther, {p}, {}, {}},
             fmt::format("`{}` is taken as known", text_of(p)));
    };
    if (record.range.lower != record.declared.lower) bound(greater_equal(e, record.range.lower));
    if (record.range.upper != record.declared.upper) bound(less_equal(e, record.range.upper));
  }

  void rewritten(const Expr& before, const Expr& after, const char* how) {
    decide(target_, {Kind::Same, {}, before, after},
           fmt::format("`{}` {} `{}`", text_of(before), how, text_of(after)));
  }

  [[nodiscard]] bool asks_unbacked(const Location& where) const {
    return std::any_of(transcript_.asked.begin(), transcript_.asked.end(), [&](const auto& asked) {
      return asked.where == where && asked.predicate.expr.has_unbacked();
    });
  }

  void decide(const std::vector<Premise>& premises, Conclusion conclusion,
              const std::string& subject, Finding::Kind kind = Finding::Kind::Unsound) {
    const auto same = [&](const Premise& p) { return p == conclusion.premise; };
    if (conclusion.kind == Kind::Same ? conclusion.before == conclusion.after
                                      : std::any_of(premises.begin(), premises.end(), same)) {
      ++out_.proven;
      return;
    }
    const Claim claim = Claim::of(premises, std::move(conclusion), transcript_.symbols);
    const SolverAnswer solved = solve(claim.query(), limits_.solver_steps);
    if (solved.outcome == SolverAnswer::Outcome::Unsatisfiable) {
      ++out_.proven;
      return;
    }
    const PointSearch search(claim.symbols, limits_.points);
    auto point = model_of(claim, solved);
    if (!point || !claim.fails_at(*point)) {
      point = search.first([&](const Point& p) { return claim.fails_at(p); });
    }
    if (point) {
      refuted(kind, subject, *point);
    } else if (search.is_whole()) {
      ++out_.searched;
    } else {
      out_.open.push_back(subject);
    }
  }

  void refuted(Finding::Kind kind, const std::string& subject, const Point& point) {
    const std::string values = values_at(point);
    report(kind,
           kind == Finding::Kind::Unsound
               ? fmt::format("{}, but guards and asserts let {} through", subject, values)
               : fmt::format("{} turns away {}, where every answer is as traced", subject, values),
           point);
  }

  static std::optional<Point> model_of(const Claim& claim, const SolverAnswer& solved) {
    if (solved.outcome != SolverAnswer::Outcome::Satisfiable) return std::nullopt;
    Point out;
    for (const auto& record : claim.symbols) {
      const auto found = solved.model.find(record.symbol.name());
      if (found == solved.model.end()) return std::nullopt;
      out[record.symbol] = found->second;
    }
    return out;
  }

  void report(Finding::Kind kind, std::string text, Point point) {
    out_.findings.push_back({kind, std::move(text), std::move(point)});
  }

  [[nodiscard]] std::string source_of(Symbol symbol) const {
    for (const auto& record : transcript_.symbols) {
      if (record.symbol == symbol) return record.source;
    }
    return symbol.name();
  }
  template <class T>
  [[nodiscard]] std::string text_of(const T& of) const {
    return of.text([this](Symbol symbol) { return source_of(symbol); });
  }
  [[nodiscard]] std::string values_at(const Point& point) const {
    std::string out;
    for (const auto& [symbol, value] : point) {
      out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", source_of(symbol), value);
    }
    return out.empty() ? "every size" : out;
  }

  const Transcript& transcript_;
  const ValidationLimits& limits_;
  std::vector<Premise> target_, source_;
  Validation out_;
};

}  // namespace

Transcript transcript_of(const ShapeEnv& env) {
  return {env.symbols(),          env.declared(),     env.asked(), env.guards(),
          env.deferred_asserts(), env.replacements(), {}};
}

Validation validate(const Transcript& transcript, const ValidationLimits& limits) {
  return Validator(transcript, limits).run();
}

bool Validation::holds() const {
  return open.empty() && std::all_of(findings.begin(), findings.end(), [](const Finding& finding) {
           return finding.kind == Finding::Kind::Sufficient;
         });
}

std::string Validation::text() const {
  std::string out = fmt::format("{} proven, {} searched, {} open, {} findings", proven, searched,
                                open.size(), findings.size());
  for (const auto& line : open) out += "\nopen: " + line;
  for (const auto& finding : findings) {
    constexpr std::array kNames = {"unsound", "stronger than asked", "sufficient"};
    out += fmt::format("\n{}: {}", kNames[static_cast<std::size_t>(finding.kind)], finding.text);
  }
  return out;
}

}  // namespace lockstep::shapes
