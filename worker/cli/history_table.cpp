#include <algorithm>
#include <cctype>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/cli/history_table.h>
#include <lockstep/worker/cli/subcommand.h>

namespace lockstep::worker::cli {
namespace {

using namespace coordinator;
using Json = nlohmann::ordered_json;

/// Time without an observation after which a run counts as no longer watched.
constexpr std::chrono::seconds kWatched{30};

double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

/// Formats a time for people, in this machine's time zone.
std::string local(HistoryTime time) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}",
                     fmt::localtime(std::chrono::system_clock::to_time_t(
                         std::chrono::time_point_cast<std::chrono::system_clock::duration>(time))));
}

std::string utc(HistoryTime time) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(whole)),
                     (time - whole).count());
}

/// Replaces control characters, because the text is shown on a terminal: it comes from a rank, and
/// may have been altered on disk.
std::string plain(std::string text) {
  for (char& c : text)
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = ' ';
  return text;
}

std::string lasted(const HistoryRun& run) {
  const auto span = (run.ended ? *run.ended : run.seen) - run.began;
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(span).count();
  if (whole < 100) return fmt::format("{:.1f} s", std::chrono::duration<double>(span).count());
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

/// Returns how a run ended, or that it is running.
std::string end_of(const HistoryRun& run, HistoryTime now) {
  if (run.ended) return run.word == "OK" || run.word == "WAITING" ? "LEFT" : run.word;
  if (now - run.seen <= kWatched) return "running, " + run.word;
  // The coordinator ended before the run: it ended with rank 0, or was killed.
  const bool well = run.word == "OK" || run.word == "WAITING";
  return fmt::format("{}; last watched {}", well ? "not known" : run.word, local(run.seen));
}

std::string run_line(const HistoryRun& run, HistoryTime now) {
  return fmt::format("{:<24} {:>4}  {:<19}  {:>9}  {:>6}  {:>8}  {:>9}  {:>6}  {}\n",
                     plain(run.job), run.number, local(run.began), lasted(run), run.size,
                     run.compiled, run.fallbacks, run.errors, plain(end_of(run, now)));
}

std::string head_line() {
  return fmt::format("{:<24} {:>4}  {:<19}  {:>9}  {:>6}  {:>8}  {:>9}  {:>6}  {}\n", "job", "run",
                     "began", "lasted", "ranks", "compiled", "fallbacks", "errors", "how it ended");
}

std::string call_text(const HistoryCall& call) {
  const std::string came_to = call.outcome == "error" ? call.code : call.outcome;
  std::string out =
      fmt::format("  {:>6}  {:<20} {:>5}  {:<10} {:>8.3f}  {}\n", call.call,
                  plain(call.group.empty() ? call.frame : call.frame + " of " + call.group),
                  call.entry < 0 ? "-" : std::to_string(call.entry), came_to, seconds(call.compile),
                  call.ranks);
  for (const HistoryReason& reason : call.reasons)
    out += fmt::format("          {}{}\n", plain(reason.text),
                       call.reasons.size() > 1 ? " [ranks " + reason.ranks + "]" : "");
  if (call.versions.size() > 1)
    for (const HistoryVersion& version : call.versions)
      out += fmt::format("          ranks {}: {}, graph {}\n", version.ranks,
                         version.outcome == "error" ? version.code : version.outcome,
                         version.graph.empty() ? "none" : version.graph);
  return out;
}

std::string run_text(const RecordedRun& recorded, HistoryTime now) {
  std::string out = head_line() + run_line(recorded.run, now);
  out += "  " + plain(recorded.run.sentence) + "\n";
  for (const HistoryNote& note : recorded.notes)
    out += fmt::format("  {}  {}: {}\n", local(note.at), plain(note.kind), plain(note.message));
  if (!recorded.calls.empty())
    out += "    call  frame                entry  came to     seconds  ranks\n";
  for (const HistoryCall& call : recorded.calls) out += call_text(call);
  return out + "\n";
}

std::string cell(const shapes::Seen& seen, std::int64_t smallest) {
  if (seen.state == shapes::Seen::State::Static) return std::to_string(seen.value);
  if (seen.state == shapes::Seen::State::Unset) return "?";
  return fmt::format("dynamic>={}", smallest);
}

/// Returns the dims or values of a source that vary, as "x = [dynamic>=4, 8]"; empty if none does.
std::string varying(const std::string& name, const shapes::Dynamism& seen) {
  if (seen.scalar.state == shapes::Seen::State::Dynamic &&
      seen.size.state != shapes::SeenDims::State::Tuple)
    return plain(name) + " = dynamic";
  std::string dims;
  bool any = false;
  for (std::size_t d = 0; d < seen.size.dims.size(); ++d) {
    dims += (d > 0 ? ", " : "") +
            cell(seen.size.dims[d], d < seen.smallest.size() ? seen.smallest[d] : 0);
    any = any || seen.size.dims[d].state == shapes::Seen::State::Dynamic;
  }
  return any ? fmt::format("{} = [{}]", plain(name), dims) : std::string();
}

std::string profile_text(const RecordedJobs& recorded) {
  std::string out;
  for (const auto& [frame, profile] : recorded.profile) {
    std::string lines;
    for (const auto& [name, source] : profile)
      if (const std::string line = varying(name, source.seen); !line.empty())
        lines += "    " + line + "\n";
    out += fmt::format("  {}: {}\n{}", plain(frame.name),
                       lines.empty() ? "nothing varies" : "starts with", lines);
  }
  return out.empty() ? out : "profile that the next run starts from\n" + out;
}

Json call_json(const HistoryCall& call) {
  Json versions = Json::array(), reasons = Json::array();
  for (const HistoryVersion& version : call.versions)
    versions.push_back({{"ranks", version.ranks},
                        {"graph", version.graph},
                        {"outcome", version.outcome},
                        {"code", version.code},
                        {"decisions", version.decisions}});
  for (const HistoryReason& reason : call.reasons)
    reasons.push_back({{"ranks", reason.ranks}, {"reason", reason.text}});
  return {{"serial", call.serial},
          {"at", utc(call.at)},
          {"frame", call.frame},
          {"group", call.group},
          {"epoch", call.epoch},
          {"call", call.call},
          {"outcome", call.outcome},
          {"code", call.code},
          {"entry", call.entry},
          {"attempts", call.attempts},
          {"ranks", call.ranks},
          {"exchange_seconds", seconds(call.exchange)},
          {"trace_seconds", seconds(call.trace)},
          {"compile_seconds", seconds(call.compile)},
          {"compile_slowest", call.slowest},
          {"waited_seconds", seconds(call.waited)},
          {"reasons", reasons},
          {"versions", versions}};
}

Json run_json(const RecordedRun& recorded, bool whole) {
  const HistoryRun& run = recorded.run;
  Json out{{"job", run.job},
           {"run", run.number},
           {"began", utc(run.began)},
           {"seen", utc(run.seen)},
           {"ended", run.ended ? Json(utc(*run.ended)) : Json()},
           {"ranks", run.size},
           {"build", run.build},
           {"configuration", run.configuration},
           {"verdict", run.word},
           {"sentence", run.sentence},
           {"compiled", run.compiled},
           {"fallbacks", run.fallbacks},
           {"errors", run.errors}};
  if (!whole) return out;
  out["calls"] = Json::array();
  for (const HistoryCall& call : recorded.calls) out["calls"].push_back(call_json(call));
  out["notes"] = Json::array();
  for (const HistoryNote& note : recorded.notes)
    out["notes"].push_back({{"at", utc(note.at)}, {"kind", note.kind}, {"message", note.message}});
  return out;
}

Json profile_json(const RecordedJobs& recorded) {
  Json frames = Json::array();
  for (const auto& [frame, profile] : recorded.profile) {
    Json sources = Json::object();
    for (const auto& [name, source] : profile) sources[name] = varying(name, source.seen);
    frames.push_back({{"frame", frame.name}, {"sources", sources}});
  }
  return frames;
}

}  // namespace

std::string history_table(const RecordedJobs& recorded) {
  std::string out;
  if (recorded.job.empty()) {
    out = head_line();
    for (const RecordedRun& run : recorded.runs) out += run_line(run.run, recorded.now);
    return out;
  }
  for (const RecordedRun& run : recorded.runs) out += run_text(run, recorded.now);
  return out + profile_text(recorded);
}

std::string history_document(const RecordedJobs& recorded) {
  Json runs = Json::array();
  for (const RecordedRun& run : recorded.runs) runs.push_back(run_json(run, !recorded.job.empty()));
  Json out{{"format", "lockstep.history/1"}, {"runs", runs}};
  if (!recorded.job.empty()) out["profile"] = profile_json(recorded);
  return document_text(out);
}

}  // namespace lockstep::worker::cli
