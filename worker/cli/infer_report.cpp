#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/cli/infer_report.h>
#include <lockstep/worker/cli/subcommand.h>

namespace lockstep::worker::cli {
namespace {

using Json = nlohmann::ordered_json;
using simulator::RecordedClasses;
using simulator::ServedSizes;

Json point_json(const RecordedClasses& of, const std::optional<shapes::SizePoint>& point) {
  if (!point) return nullptr;
  Json out = Json::object();
  for (std::size_t i = 0; i < point->size(); ++i) out[of.names[i]] = (*point)[i];
  return out;
}

Json entry_json(const RecordedClasses& of, const ServedSizes& entry) {
  const shapes::Namer namer = [&of](shapes::Symbol symbol) { return of.names.at(symbol.serial); };
  Json guards = Json::array();
  for (const shapes::Guard& guard : entry.guards)
    guards.push_back({{"text", guard.predicate.text(namer)},
                      {"line", guard.where.file.empty() ? "" : guard.where.text()},
                      {"note", guard.note}});
  return {{"entry", entry.entry},
          {"example", point_json(of, entry.served.example)},
          {"points", entry.served.points ? Json(*entry.served.points) : Json(nullptr)},
          {"guards", std::move(guards)},
          {"given", entry.given}};
}

/// Returns the document of one structure of a frame's inputs, with its recorded entries;
/// put_answer() adds the program's results.
Json frame_json(const RecordedClasses& of) {
  Json entries = Json::array();
  for (const ServedSizes& entry : of.entries) entries.push_back(entry_json(of, entry));
  Json box = Json::object();
  for (std::size_t i = 0; i < of.names.size(); ++i)
    box[of.names[i]] = {of.box.sides[i].range.lower, of.box.sides[i].range.upper};
  return {{"frame", of.frame},
          {"group", of.group},
          {"box", std::move(box)},
          {"recorded", std::move(entries)},
          {"unserved", point_json(of, of.unserved.example)},
          {"unserved_points", of.unserved.points ? Json(*of.unserved.points) : Json(nullptr)},
          {"inferred", nullptr}};
}

/// Adds a line of the program's answer to the document of its frame and structure.
void put_answer(Json& frames, const std::vector<RecordedClasses>& recorded,
                const std::string& line) {
  const std::size_t tab = std::min(line.find('\t'), line.size());
  Json answer = Json::parse(line.substr(std::min(tab + 1, line.size())), nullptr, false);
  if (!answer.is_object()) return;
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    if (recorded[i].frame != answer["frame"] || recorded[i].group != answer["group"] ||
        recorded[i].structure != line.substr(0, tab))
      continue;
    for (const char* key : {"frame", "group"}) answer.erase(key);
    frames[i]["inferred"] = std::move(answer);
    return;
  }
}

std::string point_words(const Json& point) {
  if (point.is_null()) return "none in the box";
  std::string out;
  for (const auto& [name, value] : point.items())
    out += fmt::format("{}{} = {}", out.empty() ? "" : ", ", name, value.get<std::int64_t>());
  return out.empty() ? "every size a constant" : out;
}

/// Returns the share of a box's points: "2,016 of 4,225 points", with a percentage.
std::string share(const Json& points, const Json& all) {
  if (points.is_null()) return "not counted";
  if (all.is_null() || all == 0) return fmt::format("{} points", points.get<std::uint64_t>());
  const double percent = 100.0 * points.get<double>() / all.get<double>();
  return fmt::format("{} of {} points ({:.2g} %)", points.get<std::uint64_t>(),
                     all.get<std::uint64_t>(), percent);
}

std::string guards_words(const Json& guards, const Json& given, std::string_view indent) {
  std::string out;
  for (const Json& guard : guards) {
    std::string why = guard["line"].get<std::string>();
    const std::string note = guard["note"].get<std::string>();
    if (!note.empty()) why += (why.empty() ? "" : ", ") + note;
    out += fmt::format("{}{}{}{}\n", indent, guard["text"].get<std::string>(),
                       why.empty() ? "" : "   # ", why);
  }
  for (const Json& text : given)
    out +=
        fmt::format("{}{} (as in the inputs that were given)\n", indent, text.get<std::string>());
  return out.empty() ? fmt::format("{}every size\n", indent) : out;
}

std::string class_words(std::size_t number, const Json& one, const Json& all) {
  std::string outcome = one["outcome"] == "ok" ? "ok" : one["error"]["code"].get<std::string>();
  if (outcome == "ok" && !one["ran"].get<bool>())
    outcome += fmt::format(", not run: {}", one["not_run"].get<std::string>());
  std::string out = fmt::format("  class {}: {}; {}\n    example: {}\n", number, outcome,
                                share(one["points"], all), point_words(one["example"]));
  if (const Json& cause = one["cause"]; !cause.is_null())
    out += fmt::format("    caused by {}: {}{}\n", cause["line"].get<std::string>(),
                       cause["text"].get<std::string>(),
                       cause["no_value"].get<bool>() ? " has no value" : "");
  if (!one["error"].is_null())
    out += fmt::format("    {}\n", one["error"]["message"].get<std::string>());
  return out + guards_words(one["guards"], one["given"], "    ");
}

std::string frame_words(const Json& frame) {
  const std::string group = frame["group"].get<std::string>();
  std::string out = fmt::format("{}{}\n", frame["frame"].get<std::string>(),
                                group.empty() ? "" : " (" + group + ")");
  const Json& inferred = frame["inferred"];
  if (!inferred.is_null()) {
    std::size_t number = 0;
    for (const Json& one : inferred["classes"])
      out += class_words(++number, one, inferred["points"]);
    if (!inferred["whole"].get<bool>())
      out += fmt::format("  not all of the box: {}{}\n", inferred["limit"].get<std::string>(),
                         inferred["beyond"].is_null()
                             ? ""
                             : "; the first point in none: " + point_words(inferred["beyond"]));
  }
  for (const Json& entry : frame["recorded"]) {
    out += fmt::format("  recorded entry {}: {}; example: {}\n", entry["entry"].get<int>(),
                       entry["points"].is_null()
                           ? "not counted"
                           : fmt::format("{} points", entry["points"].get<std::uint64_t>()),
                       point_words(entry["example"]));
    out += guards_words(entry["guards"], entry["given"], "    ");
  }
  out += fmt::format(
      "  served by no recorded entry: {}{}\n",
      frame["unserved_points"].is_null()
          ? ""
          : fmt::format("{} points; first: ", frame["unserved_points"].get<std::uint64_t>()),
      point_words(frame["unserved"]));
  return out;
}

}  // namespace

InferReport infer_report(const std::string& directory, int world_size, const shapes::Range& box,
                         const std::vector<RecordedClasses>& recorded, const ProgramAnswer& answer,
                         const std::vector<std::string>& notes) {
  Json frames = Json::array();
  for (const RecordedClasses& one : recorded) frames.push_back(frame_json(one));
  for (const std::string& line : answer.lines) put_answer(frames, recorded, line);
  std::string reason = answer.reason;
  for (const Json& frame : frames) {
    const Json& inferred = frame["inferred"];
    if (reason.empty() && inferred.is_null())
      reason = fmt::format("the program ended before it called {} as recorded",
                           frame["frame"].get<std::string>());
    if (reason.empty() && !inferred["whole"].get<bool>())
      reason = fmt::format("{}: {}", frame["frame"].get<std::string>(),
                           inferred["limit"].get<std::string>());
  }
  std::string text;
  for (const Json& frame : frames) text += (text.empty() ? "" : "\n") + frame_words(frame);
  if (frames.empty()) text = "The record has no entry: nothing was compiled.\n";
  if (!reason.empty()) text += fmt::format("\nnot complete: {}\n", reason);
  for (const std::string& note : notes) text += note + "\n";
  const Json out{{"format", "lockstep.infer/1"},
                 {"record", directory},
                 {"world_size", world_size},
                 {"box", {box.lower, box.upper}},
                 {"complete", reason.empty()},
                 {"reason", reason},
                 {"notes", notes},
                 {"frames", std::move(frames)}};
  return {document_text(out, 1), text};
}

}  // namespace lockstep::worker::cli
