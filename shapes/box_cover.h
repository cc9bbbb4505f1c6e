// Finds points of a box of sizes that lie in no class, and counts the points of each class. A class
// is the set of points that satisfy all of its predicates; a predicate without a value (a division
// by zero) is not satisfied. The search first works by logic alone: it writes the points outside
// all classes as conjunctions of the same predicates. Then it halves the box as long as intervals
// and the bounds of linear predicates do not decide all predicates. Parts with the same undecided
// predicates are searched once. Internal to this folder.
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

/// One thread. Answers are functions of the box and the sequence of classes.
class BoxCover {
 public:
  /// `steps` is the total number of predicates that may be examined.
  BoxCover(SizeBox box, std::uint64_t steps);

  void add(const std::vector<Guard>& guards);
  /// The least point in lexicographic order that satisfies `promised` and lies in no class. The
  /// result says "not known" if the steps run out.
  [[nodiscard]] SolvedPoint least();
  /// The number of points of class `index` that lie in no earlier class; if `index` is the number
  /// of classes, the number of points in no class. nullopt: the steps ran out, or the number needs
  /// more than 127 bits.
  [[nodiscard]] std::optional<Wide> count(std::size_t index);

 private:
  using Relation = Predicate::Relation;
  using Literal = std::uint32_t;  // even: a predicate; odd: the negation of the literal before
  using Term = std::vector<Literal>;
  enum class Truth : std::uint8_t { Open, True, False };
  using Key = std::vector<std::int64_t>;
  /// A predicate's expression as coefficient * side + rest, where `rest` does not mention the side.
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
  std::vector<Range> now_;                            // range of each side in the current part
  std::vector<Predicate> predicates_;                 // by literal
  std::vector<std::vector<std::uint32_t>> sides_of_;  // by literal
  std::vector<std::vector<Linear>> linear_;           // by literal
  std::map<std::pair<const void*, int>, Literal> known_;
  std::set<Key> empty_;          // parts without a point
  std::map<Key, Wide> counted_;  // numbers of points of parts
};

}  // namespace lockstep::shapes
