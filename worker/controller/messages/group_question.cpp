#include <algorithm>
#include <utility>

#include <lockstep/worker/controller/messages/group_question.h>
#include <lockstep/worker/files/saved/start_entries.h>

namespace lockstep::worker {
namespace {

/// Returns an entry without a graph, with two questions: `asked` and its opposite. If the predicate
/// has no value, neither holds.
Entry entry_of(const Decision& decision, const shapes::Predicate& asked) {
  const auto any = [](const shapes::Predicate& predicate) {
    return GroupGuard{predicate, GroupGuard::Over::Any, true, {}};
  };
  return Entry::make(decision, decision, decision.list(), {}, {},
                     {any(asked), any(asked.negated())});
}

Status no_question(std::string what) { return {Code::TraceError, std::move(what)}; }

}  // namespace

Result<std::string> encode_question(const Decision& decision, const shapes::Predicate& asked) {
  const std::vector<shapes::Symbol> known = decision.trace_symbols();
  for (const shapes::Symbol symbol : asked.expr.symbols())
    if (std::ranges::find(known, symbol) == known.end())
      return no_question(
          "group_any() and group_all() under a controller ask for sizes and ints of inputs only");
  const Bytes bytes = encode_starts({entry_of(decision, asked)});
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<bool> answer_question(const std::string& question, const Decision& decision,
                             const Observation& seen) {
  const auto entries = decode_starts(std::as_bytes(std::span(question)));
  if (!entries || entries->size() != 1 || entries->front().decision != decision ||
      entries->front().group_guards.size() != 2 || entries->front().questions() != 2)
    return no_question("the controller asks what no trace of this call asks");
  const Entry& entry = entries->front();
  if (!entry.same_sources(*seen.list))
    return no_question("the controller asks for other inputs than the call has");
  if (entry.witnesses(0, seen)) return true;
  if (entry.witnesses(1, seen)) return false;
  return no_question(
      "what group_any() or group_all() asks for has no value here: a product that does not fit, or "
      "a "
      "division by zero");
}

}  // namespace lockstep::worker
