#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/agree/process/settings.h>
#include <lockstep/worker/cli/subcommand.h>
#include <lockstep/worker/cli/trace_report.h>

namespace lockstep::worker::cli {
namespace {

using Json = nlohmann::ordered_json;

/// What is known of one rank, from its sheet and the end of its process.
struct Sheet {
  RankEnd end;
  bool made_job = false, finished = false;
  std::optional<std::string> stopped;  // why the trace of this rank stopped
  std::vector<Json> calls, failures, graphs, notes;
};

Result<Sheet> read_sheet(const std::string& folder, const RankEnd& end) {
  Sheet sheet{.end = end};
  std::ifstream in(TraceMode{folder}.sheet(end.rank));
  for (std::string line; std::getline(in, line);) {
    Json json = Json::parse(line, nullptr, false);
    if (json.is_discarded()) break;  // cut off when the rank was killed
    const std::string event = json.value("event", "");
    json.erase("event");
    if (event == "start" && json.value("format", "") != kTraceSheetFormat)
      return Status{Code::Version,
                    "the program was built with another version of lockstep; build it with this "
                    "one."};
    sheet.made_job |= event == "start";
    sheet.finished |= event == "finished";
    if (event == "stop") sheet.stopped = json.value("why", "");
    if (event == "call")
      sheet.calls.push_back(std::move(json));
    else if (event == "failed")
      sheet.failures.push_back(std::move(json));
    else if (event == "graph")
      sheet.graphs.push_back(std::move(json));
    else if (event == "note")
      sheet.notes.push_back(std::move(json));
  }
  return sheet;
}

/// Items of all ranks. Equal items are kept once, at their place on the first rank that has them.
class Shared {
 public:
  /// Adds an item of a rank. `place`: the item's place among those of this rank.
  void add(int rank, Json thing, std::size_t place) {
    const auto [at, fresh] = known_.try_emplace(thing.dump(), things_.size());
    if (fresh) things_.push_back({{}, std::move(thing), place});
    things_[at->second].ranks.insert(Rank{rank});
  }
  /// Returns the items, each with its ranks.
  [[nodiscard]] Json take() && {
    std::stable_sort(things_.begin(), things_.end(),
                     [](const Thing& a, const Thing& b) { return a.place < b.place; });
    Json out = Json::array();
    for (Thing& thing : things_) {
      Json one{{"ranks", thing.ranks.text()}};
      one.update(thing.what);
      out.push_back(std::move(one));
    }
    return out;
  }

 private:
  struct Thing {
    RankSet ranks;
    Json what;
    std::size_t place = 0;
  };
  std::map<std::string, std::size_t> known_;
  std::vector<Thing> things_;
};

/// Returns an error in the form that it has in a dry-run result.
Json error_of(const Json& error) {
  Json out;
  for (const char* key : {"code", "source", "groups", "message"}) out[key] = error.at(key);
  return out;
}

Json calls_of(const std::vector<Sheet>& sheets) {
  Shared calls;
  for (const Sheet& sheet : sheets) {
    std::map<std::string, std::size_t> made;  // number of calls so far, by frame
    std::map<std::string, Json> collectives;  // by graph
    for (const Json& graph : sheet.graphs)
      collectives[graph.at("fingerprint")] = graph.at("collectives");
    for (std::size_t i = 0; i < sheet.calls.size(); ++i) {
      Json call{{"call", made[sheet.calls[i].at("frame")]++}};
      call.update(sheet.calls[i]);
      if (call.contains("graph")) call["collectives"] = collectives[call.at("graph")];
      if (call.contains("error")) call["error"] = error_of(call.at("error"));
      calls.add(sheet.end.rank, std::move(call), i);
    }
  }
  return std::move(calls).take();
}

/// Returns the items of one kind of all ranks, ordered by the lowest rank that has each.
Json shared_of(const std::vector<Sheet>& sheets, std::vector<Json> Sheet::*which) {
  Shared shared;
  for (const Sheet& sheet : sheets)
    for (const Json& one : sheet.*which) shared.add(sheet.end.rank, one, 0);
  return std::move(shared).take();
}

std::string signal_text(int signal) {
  return fmt::format("signal {} ({})", signal, strsignal(signal));
}

/// Returns how a rank ended, such as "stopped", and why.
Json end_of(const Sheet& sheet) {
  Json out{{"calls", sheet.calls.size()}};
  const RankEnd& end = sheet.end;
  if (end.signal != 0) {
    out["end"] = end.by_us ? "ended" : "killed";
    out["why"] = signal_text(end.signal);
  } else if (sheet.stopped && end.exit_code == 0) {
    out["end"] = "stopped";
    out["why"] = *sheet.stopped;
  } else if (!sheet.made_job) {
    out["end"] = "no job";
    out["why"] = nullptr;
  } else {
    out["end"] = end.exit_code != 0 ? "failed" : sheet.finished ? "finished" : "left";
    out["why"] = nullptr;
  }
  out["exit_code"] = end.signal != 0 ? Json(nullptr) : Json(end.exit_code);
  return out;
}

/// Returns the error of the earliest failing call; among ranks that fail at the same call, the
/// error of the lowest rank. Null: no rank has failed.
Json first_error(const std::vector<Sheet>& sheets) {
  Json first;
  std::size_t place = 0;
  const auto take = [&](const Json& error, std::size_t at) {
    if (!first.is_null() && place <= at) return;
    first = error;
    place = at;
  };
  for (const Sheet& sheet : sheets) {
    for (std::size_t i = 0; i < sheet.calls.size(); ++i)
      if (sheet.calls[i].contains("error")) {
        take(sheet.calls[i].at("error"), i);
        break;
      }
    if (!sheet.failures.empty()) take(sheet.failures.front().at("error"), sheet.calls.size());
  }
  return first;
}

std::string assumption(const TraceRun& run) {
  if (!run.alone || run.size == 1) return {};
  return fmt::format("decisions assume that all {} ranks see the sizes of rank {}", run.size,
                     *run.alone);
}

// The text for people.

std::string counted(std::size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string dims_text(const Json& dims) {
  if (!dims.is_array()) return dims.is_string() ? dims.get<std::string>() : dims.dump();
  std::vector<std::string> texts;
  for (const Json& dim : dims)
    texts.push_back(dim.is_string() ? dim.get<std::string>() : dim.dump());
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string decisions_text(const Json& call) {
  std::string out;
  for (const auto& [source, dims] : call.at("decisions").items())
    out += fmt::format("      {}: {}\n", source, dims_text(dims));
  for (const auto& [symbol, what] : call.at("symbols").items()) {
    out += fmt::format("      {} = {}, like {}", symbol, what.at("source").get<std::string>(),
                       what.at("hint").get<std::int64_t>());
    if (const Json& min = what.at("min"); !min.is_null() && min != 0)
      out += fmt::format(", at least {}", min.get<std::int64_t>());
    out += "\n";
  }
  for (const Json& guard : call.at("guards")) {
    out += fmt::format("      guard {}", guard.at("of").get<std::string>());
    if (guard.contains("over"))
      out += fmt::format(" on {} rank: {}", guard.at("over").get<std::string>(),
                         guard.at("value").get<bool>());
    out += fmt::format("   # {}\n", guard.at("line").get<std::string>());
  }
  return out;
}

std::string call_text(const Json& call) {
  std::string what = call.at("outcome");
  if (call.contains("error"))
    what += fmt::format(" {}", call.at("error").at("code").get<std::string>());
  else if (call.contains("entry"))
    what += fmt::format(" entry {}", call.at("entry").get<int>());
  std::string graph;
  if (call.contains("graph"))
    graph = fmt::format("graph {}, {}", call.at("graph").get<std::string>(),
                        counted(call.at("collectives").get<std::size_t>(), "collective"));
  std::string frame = call.at("frame");
  if (call.contains("group")) frame += fmt::format(" over {}", call.at("group").get<std::string>());
  std::string out =
      fmt::format("  {:<20} {:>4}  {:<10} {:<24} {}", frame, call.at("call").get<std::size_t>(),
                  call.at("ranks").get<std::string>(), what, graph);
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n" + (call.contains("decisions") ? decisions_text(call) : "");
}

std::string end_text(const Json& end) {
  const std::string kind = end.at("end");
  const std::string ranks = end.at("ranks");
  const bool one = ranks.find_first_of("-,") == std::string::npos;
  const auto made = end.at("calls").get<std::size_t>();
  std::string out = fmt::format("  {} {} ", one ? "rank" : "ranks", ranks);
  if (kind == "no job")
    out += "made no job";
  else if (kind == "left")
    out += "ended without finishing its job";
  else if (kind == "finished")
    out += "came to the end of the job";
  else if (kind == "killed" || kind == "ended")
    out += one ? "was ended" : "were ended";
  else
    out += kind;
  out += fmt::format(" after {}", counted(made, "call"));
  if (!end.at("why").is_null()) out += fmt::format(": {}", end.at("why").get<std::string>());
  if (const Json& code = end.at("exit_code"); !code.is_null() && code != 0)
    out += fmt::format(" (exit code {})", code.get<int>());
  return out + "\n";
}

std::string text_of(const Json& report, bool graphs) {
  std::string out =
      fmt::format("{} as {} of {}; nothing was compiled, nothing ran\n",
                  report.at("program").get<std::string>(), report.at("traced").get<std::string>(),
                  report.at("world_size").get<int>());
  if (const Json& assumes = report.at("assumes"); !assumes.is_null())
    out += assumes.get<std::string>() + "\n";
  if (!report.at("calls").empty())
    out += fmt::format("\n  {:<20} {:>4}  {:<10} {}\n", "frame", "call", "ranks", "outcome");
  for (const Json& call : report.at("calls")) out += call_text(call);
  std::size_t checks = 0;
  for (const Json& graph : report.at("graphs")) {
    checks += graph.at("checks").get<std::size_t>();
    if (graphs)
      out += fmt::format("\n{} on ranks {}\n{}", graph.at("fingerprint").get<std::string>(),
                         graph.at("ranks").get<std::string>(), graph.at("text").get<std::string>());
  }
  out += "\n";
  for (const Json& end : report.at("ends")) out += end_text(end);
  if (checks > 0)
    out += fmt::format("  {} of the graphs {} left to a run\n", counted(checks, "check"),
                       checks == 1 ? "is" : "are");
  for (const Json& note : report.at("notes"))
    out += fmt::format("  {}\n", note.at("text").get<std::string>());
  return out;
}

/// Sets the exit code of the command, and its sentence.
void conclude(const TraceRun& run, const RanksEnd& ended, const std::vector<Sheet>& sheets,
              const Json& error, TraceReport& out) {
  RankSet killed, without, failed;
  int code = 0;
  for (const Sheet& sheet : sheets) {
    const RankSet self = RankSet::of(Rank{sheet.end.rank});
    if (sheet.end.signal != 0 && !sheet.end.by_us) killed.insert(self);
    if (!sheet.made_job) without.insert(self);
    if (sheet.end.exit_code == 0) continue;
    if (code == 0) code = sheet.end.exit_code;
    if (code == sheet.end.exit_code) failed.insert(self);
  }
  if (ended.told != 0) {
    out.exit_code = 128 + ended.told;
    out.complaint = fmt::format("the trace was told to end by {}.", signal_text(ended.told));
  } else if (!killed.empty()) {
    out.exit_code = exit_code(Code::RankLost);
    const auto first = std::find_if(sheets.begin(), sheets.end(), [&](const Sheet& sheet) {
      return killed.contains(Rank{sheet.end.rank});
    });
    out.complaint =
        fmt::format("{} {} ended by {}.", killed.phrase(), killed.size() == 1 ? "was" : "were",
                    signal_text(first->end.signal));
  } else if (!without.empty() && out.made_job) {
    out.exit_code = code != 0 ? code : 2;
    out.complaint = fmt::format("{} of {} ended without making the job that the others made{}.",
                                without.phrase(), run.command[0],
                                code == 0 ? "" : fmt::format(" (exit code {})", code));
  } else if (!error.is_null()) {
    out.exit_code = error.at("exit_code");
    out.complaint = error.at("text");
  } else if (!out.made_job) {
    out.exit_code = 2;
    out.complaint = fmt::format(
        "{} ended without making a job{}; only programs with frames of job.h can be traced.",
        run.command[0], code == 0 ? "" : fmt::format(" (exit code {})", code));
  } else if (code != 0) {
    out.exit_code = code;
    out.complaint =
        fmt::format("{} of {} ended with exit code {}.", failed.phrase(), run.command[0], code);
  }
}

}  // namespace

Result<TraceReport> trace_report(const TraceRun& run, const RanksEnd& ended, bool graphs) {
  std::vector<Sheet> sheets;
  RankSet traced;
  for (const RankEnd& end : ended.ranks) {
    auto sheet = read_sheet(run.folder, end);
    if (!sheet) return sheet.error();
    sheets.push_back(std::move(*sheet));
    traced.insert(Rank{end.rank});
  }
  TraceReport out;
  for (const Sheet& sheet : sheets) out.made_job |= sheet.made_job;
  const Json error = first_error(sheets);
  Shared ends;
  for (const Sheet& sheet : sheets) ends.add(sheet.end.rank, end_of(sheet), 0);
  Json report{{"format", "lockstep.trace/1"},
              {"program", run.command[0]},
              {"arguments", std::vector<std::string>(run.command.begin() + 1, run.command.end())},
              {"world_size", run.size},
              {"traced", traced.phrase()},
              {"assumes", assumption(run).empty() ? Json(nullptr) : Json(assumption(run))},
              {"calls", calls_of(sheets)},
              {"graphs", shared_of(sheets, &Sheet::graphs)},
              {"ends", std::move(ends).take()},
              {"notes", shared_of(sheets, &Sheet::notes)},
              {"error", error.is_null() ? Json(nullptr) : error_of(error)}};
  conclude(run, ended, sheets, error, out);
  out.json = document_text(report);
  out.text = text_of(report, graphs);
  return out;
}

}  // namespace lockstep::worker::cli
