#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/simulator/answers/explain.h>
#include <lockstep/worker/simulator/answers/replay.h>
#include <lockstep/worker/simulator/draw/json_document.h>

namespace lockstep::worker::simulator {
namespace {

/// Call or round of one rank that ended in an error.
struct LastError {
  const RoundKey* key = nullptr;
  const Status* error = nullptr;
};

/// Last error of a rank: that of a round outside of calls, else that of its own call.
LastError last_error_of(const RankRecord& rank) {
  if (rank.failed_round) return {&rank.failed_round->key, &rank.failed_round->error};
  if (rank.last_error) return {&rank.last_error->key, &rank.last_error->error};
  return {};
}

/// Groups ranks with equal lines, by lowest rank.
std::vector<RankValue> table(const std::vector<RankRecord>& ranks,
                             std::string (*line_of)(const RankRecord&)) {
  std::vector<RankValue> out;
  for (const RankRecord& rank : ranks) {
    const std::string line = line_of(rank);
    auto same = std::find_if(out.begin(), out.end(),
                             [&](const RankValue& value) { return value.value == line; });
    if (same == out.end()) same = out.insert(out.end(), {RankSet{}, line});
    same->ranks.insert(rank.header.rank);
  }
  return out;
}

std::string table_text(const std::vector<RankValue>& values) {
  std::string out;
  for (const RankValue& value : values)
    out += fmt::format("  rank{} {:<12} {}\n", value.ranks.size() == 1 ? " " : "s",
                       value.ranks.text(), value.value.empty() ? "(none)" : value.value);
  return out;
}

std::string next_step(Code code) {
  switch (code) {
    case Code::AbsentRanks:
    case Code::Stuck:
    case Code::RankLost:
      return "look at the ranks that stopped first, in their own logs around that call";
    case Code::GraphDivergence:
    case Code::BranchDivergence:
      return "make the traced function the same on every rank at the line named above";
    case Code::TraceError:
    case Code::CompileError:
    case Code::RuntimeAssert:
      return "mend it on the rank named above; the others only heard of it";
    case Code::ConfigMismatch:
    case Code::Version:
      return "start every rank with the same build and settings";
    default:
      return "mend the inputs of the ranks in the table, then run the recorded inputs again with "
             "lockstep dryrun";
  }
}

std::string history(const RankRecord& rank) {
  const auto& count = rank.outcomes;
  return fmt::format(
      "before    rank 0: {} calls, {} compiled, {} reused, {} fallbacks, {} errors{}\n",
      rank.calls.size(), count[1], count[0], count[2], count[3],
      rank.first_error ? "; the first error was in " + rank.first_error->text() : "");
}

std::string replay_line(const Result<Replay>& again) {
  if (!again) return "replay    not possible: " + again.error().message + "\n";
  if (again->difference) return "replay    " + again->difference->text() + "\n";
  return "replay    every recorded action comes out again, byte for byte\n";
}

}  // namespace

std::string last_step(const RankRecord& rank) {
  if (!rank.last_call) return "has made no call";
  const RecordedCall& call = *rank.last_call;
  if (call.outcome) return call.key.text() + ": done";
  if (call.events.empty()) return call.key.text() + ": just entered";
  const RecordedEvent& event = call.events.back();
  switch (event.kind) {
    case RecordedEvent::Kind::Trace:
      return call.key.text() + ": traced";
    case RecordedEvent::Kind::Compile:
      return call.key.text() + ": compiled";
    default:
      return call.key.text() + ": in " + event.text.substr(0, event.text.find(' '));
  }
}

Explanation explain_record(const std::vector<RankRecord>& ranks) {
  const auto lost = std::find_if(ranks.begin(), ranks.end(),
                                 [](const RankRecord& rank) { return rank.ends_within_a_call(); });
  LastError failed;
  for (const RankRecord& rank : ranks)
    if (failed.error == nullptr) failed = last_error_of(rank);
  Explanation told;
  if (failed.error != nullptr) {
    told.verdict = fmt::format("{} in {}", code_name(failed.error->code), failed.key->text());
    told.cause = failed.error->message;
  } else if (lost != ranks.end()) {
    told.verdict = fmt::format("the record of rank {} ends within {}", lost->header.rank.value,
                               lost->last_call->key.text());
    told.cause =
        "the process ended there, or still runs: killed, crashed, or stopped by the watchdog";
  } else {
    told.verdict = "no failure: every recorded call came to its end on every rank";
  }
  std::string& out = told.text;
  out = fmt::format("verdict   {}\n", told.verdict);
  if (!told.cause.empty()) out += fmt::format("cause     {}\n", told.cause);
  if (failed.error != nullptr) {
    if (!failed.error->source.empty()) out += "input     " + failed.error->source + "\n";
    if (!failed.error->groups.empty()) out += "values\n" + table_text(failed.error->groups);
  }
  if (lost != ranks.end() || (failed.error != nullptr && (failed.error->code == Code::Stuck ||
                                                          failed.error->code == Code::RankLost)))
    out += "last steps\n" + table_text(table(ranks, last_step));
  if (failed.error != nullptr || lost != ranks.end())
    out += fmt::format("next step {}\n",
                       next_step(failed.error != nullptr ? failed.error->code : Code::RankLost));
  const auto again = replay(ranks, false);
  out += history(ranks.front());
  if (again)
    for (const std::string& advice : again->advice) out += "advice    " + advice + "\n";
  out += replay_line(again);
  told.replay_differs = again && again->difference.has_value();
  return told;
}

}  // namespace lockstep::worker::simulator
