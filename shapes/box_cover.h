// Which points of a box of sizes lie in none of some classes, and how many lie in each. A class is
// what satisfies all of its predicates; a predicate without a value (a division by zero) is not
// satisfied. First by logic alone: what no class has, as conjunctions of the same predicates. Then
// by halving the box, as far as intervals and the bounds that linear predicates set leave them
// open; parts that come to the same open predicates are looked at once. Internal to this folder.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/shapes/expr/range.h>
#include <lockstep/shapes/expr/wide.h>
#include <lockstep/shapes/size_classes.h>

namespace lockstep::shapes {

/// One thread. Answers are functions of the box and of the classes in their order.
class BoxCover {
 public:
  /// `steps`: how many predicates may be looked at in all.
  BoxCover(SizeBox box, std::uint64_t steps);

  void add(const std::vector<Guard>& guards);
  /// The least point in lexicographic order that the box promises and no class has. Not known: out
  /// of steps.
  [[nodiscard]] SolvedPoint least();
  /// The points of that class which no earlier one has; of the number of classes: of no class.
  /// nullopt: out of steps, or more than 127 bits.
  [[nodiscard]] std::optional<Wide> count(std::size_t index);

 private:
  using Relation = Predicate::Relation;
  using Literal = std::uint32_t;  // even: a predicate; odd: the negation of the one before
  using Term = std::vector<Literal>;
  enum class Truth : std::uint8_t { Open, True, False };
  using Key = std::vector<std::int64_t>;
  /// A side that a predicate holds once, times a number, and what is added to that.
  struct Linear {
    std::uint32_t side = 0;
    std::int64_t coefficient = 0;
    Expr rest;
  };

  [[nodiscard]] Literal intern(const Predicate& predicate);
  Literal make(const Predicate& predicate, Literal as);
  [[nodiscard]] Term literals(const std::vector<Predicate>& predicates);
  void start();
  [[nodiscard]] std::vector<Linear> linear_in(const Expr& e) const;
  [[nodiscard]] Range range(const Expr& e) const;
  [[nodiscard]] bool spend();
  [[nodiscard]] bool narrow(const Term& term);
  [[nodiscard]] bool narrow(Relation relation, const Linear& linear, bool& changed);
  [[nodiscard]] Truth truth(Literal literal);
  [[nodiscard]] std::vector<Term> beyond(std::size_t classes, const Term& within);
  void split(Term& assumed, std::vector<Term> classes, std::vector<Term>& out);
  [[nodiscard]] bool drop_true(Term& term);
  [[nodiscard]] bool mentions(const Term& term, std::size_t side) const;
  void fix(Term& term, std::size_t side);
  [[nodiscard]] Key key(const Term& term, const std::vector<std::uint32_t>& sides) const;
  [[nodiscard]] std::optional<SizePoint> least_in(Term term, std::size_t side);
  [[nodiscard]] std::optional<SizePoint> least_within(Term term, std::size_t side);
  [[nodiscard]] Wide count_in(Term term, const std::vector<std::uint32_t>& sides);
  [[nodiscard]] Wide count_part(const Term& term, std::vector<std::uint32_t>& left);
  [[nodiscard]] Wide count_halves(Term term, const std::vector<std::uint32_t>& sides);

  SizeBox box_;
  std::uint64_t steps_;
  bool spent_ = false;
  std::vector<std::uint32_t> all_sides_;
  Term promised_;
  std::vector<Term> classes_;
  std::vector<Range> now_;                            // of each side, in the part that is looked at
  std::vector<Predicate> predicates_;                 // by literal
  std::vector<std::vector<std::uint32_t>> sides_of_;  // by literal
  std::vector<std::vector<Linear>> linear_;           // by literal
  std::map<std::pair<const void*, int>, Literal> known_;
  std::set<Key> empty_;          // parts without a point
  std::map<Key, Wide> counted_;  // points of parts
};

}  // namespace lockstep::shapes
