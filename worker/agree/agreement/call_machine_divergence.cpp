// The part of CallMachine that finds the difference after a failed verification: the guard that
// does not hold on every rank, or the first node at which the graphs differ.
#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/agree/agreement/call_machine.h>
#include <lockstep/worker/agree/exchange/hints.h>
#include <lockstep/worker/agree/exchange/rank_constant.h>

namespace lockstep::worker {
namespace {

/// One rank's evaluation of a guard.
struct GuardFinding {
  bool holds;
  std::string text;  // "tokens.size(0) = 9: false"

  /// Its line of the rank table, which has `holds` in its first byte.
  [[nodiscard]] std::string line() const { return (holds ? '1' : '0') + text; }
  [[nodiscard]] static GuardFinding of(const std::string& line) {
    return {line.starts_with('1'), line.substr(line.empty() ? 0 : 1)};
  }
};

GuardFinding find(const shapes::Guard& guard, const Decision& decision,
                  const std::vector<HostValue>& host_values, const Observation& observation) {
  std::vector<std::int64_t> values = symbol_values(decision, observation);
  std::vector<shapes::Symbol> symbols = decision.trace_symbols();
  for (const HostValue& value : host_values)
    values.push_back(value_of(value, observation).value_or(0));
  for (const shapes::Symbol symbol : decision.host_symbols(host_values.size()))
    symbols.push_back(symbol);
  const auto value_of = [&](shapes::Symbol symbol) -> std::optional<std::int64_t> {
    for (std::size_t i = 0; i < symbols.size(); ++i)
      if (symbols[i] == symbol) return values[i];
    return std::nullopt;
  };
  const auto namer = decision.source_namer(host_values);
  std::string text;
  for (const shapes::Symbol symbol : guard.predicate.expr.symbols())
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", namer(symbol),
                        value_of(symbol).value_or(0));
  const bool holds = guard.predicate.evaluate(value_of).value_or(false);
  return {holds, fmt::format("{}: {}", text, holds)};
}

struct Branch {
  std::string frame, note;
  std::string where = "a line of another rank", condition = "a size";
  bool caller_built = false;
};

Status branch_status(const Branch& branch, std::vector<RankValue> rank_table) {
  RankSet holds, fails;
  for (RankValue& value : rank_table) {
    GuardFinding found = GuardFinding::of(value.value);
    (found.holds ? holds : fails).insert(value.ranks);
    value.value = std::move(found.text);
  }
  const std::string true_on = holds.empty() ? "no rank" : holds.phrase();
  const std::string not_on = fails.phrase();
  const std::string text =
      branch.caller_built
          ? fmt::format(
                "{}: the version that was built relies on {} ({}), which holds on {} and "
                "not on {}; build without that condition where the sizes of some rank may "
                "break it, or pad the inputs",
                branch.frame, branch.condition, branch.where, true_on, not_on)
      : branch.where.starts_with(kFixedInput)
          ? fmt::format(
                "{}: {} {}, the agreed example, but that holds on {} and not on {}; declare it "
                "SymInt, or SymFloat for a double, and compute with that, or give every rank the "
                "same number",
                branch.frame, branch.where,
                branch.note.empty() ? "is fixed: " + branch.condition : branch.note, true_on,
                not_on)
      : branch.note.starts_with("fixes ")
          ? fmt::format(
                "{}: to_int() at {} {}, the agreed example, but that holds on {} and not on {}; "
                "keep it a SymInt and compute with that, or give every rank that size and mark the "
                "dim static",
                branch.frame, branch.where, branch.note, true_on, not_on)
          : fmt::format(
                "{}: the branch at {} on {} goes one way for the agreed example sizes, but that "
                "holds on {} and not on {}; let the group decide with group_any(cond) or "
                "group_all(cond), compute both sides and select, or give the frame the mode "
                "same_collectives",
                branch.frame, branch.where, branch.condition, true_on, not_on);
  return {Code::BranchDivergence, text, {}, std::move(rank_table)};
}

constexpr const char* kRemedy =
    "remove what makes the traced function differ between ranks (rank numbers, random choices, "
    "state of its own)";

/// Advice on a node that differs; `only`: the programs differ in constants only.
std::string constant_text(const std::vector<RankValue>& rank_table, bool only) {
  const auto constant = rank_constant(rank_table);
  if (!constant) return kRemedy;
  std::string values;
  for (const RankValue& value : constant->values)
    values +=
        fmt::format("{}{} on {}", values.empty() ? "" : ", ", value.value, value.ranks.phrase());
  std::string out =
      fmt::format("{} a constant: {}", only ? "the only difference is" : "it differs in", values);
  if (constant->law.empty()) return fmt::format("{}; {}", out, kRemedy);
  return fmt::format(
      "{}, which is {}; a rank's own number must be a value of the run and no "
      "constant of the program: pass it to the frame as a 0-d tensor",
      out, constant->law);
}

}  // namespace

void CallMachine::elect_guard() {
  elect(Stage::GuardElect,
        failed_guard_ < report_.guards.size() ? failed_guard_ : collectives::Vote::kOnes);
}

void CallMachine::elected_guard(std::uint64_t guard) {
  // Equal graphs have equal guards; where graphs may differ, a rank may lack this guard.
  std::optional<std::string> mine;
  Branch branch{.frame = cache_.name, .caller_built = report_.caller_built};
  if (guard < report_.guards.size()) {
    const shapes::Guard& failed = report_.guards[guard];
    branch.where = failed.where.text();
    branch.note = failed.note;
    branch.condition = failed.predicate.text(decision_.source_namer(report_.host_values));
    mine = find(failed, decision_, report_.host_values, observation_).line();
  }
  collect_rank_table(mine, [branch = std::move(branch)](auto rank_table) {
    return branch_status(branch, std::move(rank_table));
  });
}

void CallMachine::count_nodes() {
  // The complement of a word turns the minimum over the ranks into a maximum. The result has the
  // largest number of nodes, and the least and the greatest skeleton.
  collectives::Vote mine;
  const bool searched = config_.consistency != Consistency::SharedSizes;
  mine.words[0] = ~std::uint64_t{searched ? report_.prefixes.size() : 0};
  const shapes::Fingerprint& skeleton = report_.skeleton;
  mine.words[1] = skeleton.high, mine.words[2] = ~skeleton.high;
  mine.words[3] = skeleton.low, mine.words[4] = ~skeleton.low;
  ask(Stage::NodeCount, action::Vote{mine, collectives::Combine::Min});
}

void CallMachine::counted_nodes(const collectives::Vote& result) {
  most_nodes_ = unequal_nodes_ = static_cast<std::size_t>(~result.words[0]);
  only_constants_ = report_.skeleton != shapes::Fingerprint{} &&
                    result.words[1] == ~result.words[2] && result.words[3] == ~result.words[4];
  search_node();
}

// The graphs are equal in their first equal_nodes_ nodes and differ within their first
// unequal_nodes_ + 1, unless all nodes are equal.
void CallMachine::search_node() {
  if (equal_nodes_ >= unequal_nodes_) {
    // Equal nodes in different graphs: the guards or the outputs differ.
    if (equal_nodes_ == most_nodes_) return report_graphs();
    return ask(Stage::Explain, action::Explain{equal_nodes_});
  }
  const std::size_t node = middle();
  const bool mine = node < report_.prefixes.size();
  const shapes::Fingerprint prefix = mine ? report_.prefixes[node] : shapes::Fingerprint{};
  vote(Stage::NodeSearch, RoundKey::Kind::Verify, collectives::Vote::kOnes, prefix.high, prefix.low,
       std::nullopt);
}

void CallMachine::searched(bool equal) {
  if (equal)
    equal_nodes_ = middle() + 1;
  else
    unequal_nodes_ = middle();
  search_node();
}

std::size_t CallMachine::middle() const {
  return equal_nodes_ + (unequal_nodes_ - equal_nodes_) / 2;
}

void CallMachine::explained(std::string text) {
  expect(Stage::Explain, "explained");
  if (text.empty()) text = "(the graph ends here)";
  if (!compares_graphs())
    return collect_rank_table(std::move(text), [frame = cache_.name,
                                                at = equal_nodes_](auto rank_table) {
      return Status{Code::GraphDivergence,
                    fmt::format("{}: the ranks traced different collectives, first at number {} of "
                                "their list; {}{}",
                                frame, at, majority_text(rank_table), kRemedy),
                    {},
                    std::move(rank_table)};
    });
  collect_rank_table(std::move(text), [frame = cache_.name, node = equal_nodes_,
                                       only = only_constants_](auto rank_table) {
    return Status{
        Code::GraphDivergence,
        fmt::format("{}: the ranks traced different programs, first at node %{}; {}{}", frame, node,
                    majority_text(rank_table), constant_text(rank_table, only)),
        {},
        std::move(rank_table)};
  });
}

void CallMachine::report_graphs() {
  std::string_view what = "programs";
  if (config_.consistency == Consistency::SameCollectives)
    what = "lists of collectives or questions to the group";
  if (config_.consistency == Consistency::SharedSizes) what = "questions to the group";
  std::string mine = compared_.text();
  const shapes::Namer namer = decision_.source_namer(report_.host_values);
  for (const shapes::Guard& guard : report_.guards)
    mine += fmt::format(", guard {} at {}", guard.predicate.text(namer), guard.where.text());
  collect_rank_table(mine, [frame = cache_.name, what](auto rank_table) {
    return Status{Code::GraphDivergence,
                  fmt::format("{}: the ranks traced different {}; {}{}", frame, what,
                              majority_text(rank_table), kRemedy),
                  {},
                  std::move(rank_table)};
  });
}

}  // namespace lockstep::worker
