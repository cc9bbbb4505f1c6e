#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/cli/status_table.h>

namespace lockstep::worker::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Most lines of a section in the table; the JSON document has all of them.
constexpr std::size_t kMostLines = 20;
constexpr std::string_view kRed = "\033[31m", kYellow = "\033[33m", kGreen = "\033[32m",
                           kPlain = "\033[0m";

std::string text(const Json& json, const char* key) { return json.at(key).get<std::string>(); }

/// Shortens a long list of ranges to its beginning; the JSON document has all of it.
std::string shortened(const std::string& ranks) {
  constexpr std::size_t kMost = 40;
  if (ranks.size() <= kMost) return ranks;
  const std::size_t end = ranks.rfind(',', kMost);
  const auto more = std::count(ranks.begin() + static_cast<std::ptrdiff_t>(end), ranks.end(), ',');
  return fmt::format("{} and {} more ranges", ranks.substr(0, end), more);
}

std::string operation_of(const Json& at) {
  if (text(at, "operation").empty()) return "-";
  std::string out =
      fmt::format("{} {}", text(at, "operation"), at.at("ordinal").get<std::uint64_t>());
  if (text(at, "group") == "0") return out;
  return out + " of " +
         (text(at, "group_name").empty() ? text(at, "group") : text(at, "group_name"));
}

std::string verdict(const Json& job, bool colour) {
  const Json& findings = job.at("findings");
  const bool act = !findings.empty() && text(findings[0], "severity") == "act";
  const std::string_view word = findings.empty() ? "OK" : act ? "ACT" : "WARNING";
  const std::string_view shade = findings.empty() ? kGreen : act ? kRed : kYellow;
  return colour ? fmt::format("{}{}{}", shade, word, kPlain) : std::string(word);
}

std::string head(const Json& job, bool colour) {
  const auto size = job.at("size").get<int>();
  std::string out = fmt::format("{}  job {}: {} rank{}, build {}, {:.0f} s", verdict(job, colour),
                                text(job, "job"), size, size == 1 ? "" : "s", text(job, "build"),
                                job.at("age_seconds").get<double>());
  if (const int run = job.at("run").get<int>(); run > 1) out += fmt::format(", run {}", run);
  for (const char* state : {"finished", "absent"})
    if (const std::string ranks = text(job, state); !ranks.empty())
      out += fmt::format(", {} {}", state, shortened(ranks));
  return out + "\n";
}

/// Returns a section: the title, then a line for each item, at most kMostLines.
template <class Line>
std::string section(const Json& list, std::string_view title, const Line& line) {
  if (list.empty()) return {};
  std::string out = fmt::format("  {}\n", title);
  for (std::size_t i = 0; i < std::min(list.size(), kMostLines); ++i)
    out += fmt::format("    {}\n", line(list[i]));
  if (list.size() > kMostLines)
    out += fmt::format("    and {} more; --json has them all\n", list.size() - kMostLines);
  return out;
}

std::string job_text(const Json& job, bool colour) {
  std::string out = head(job, colour);
  for (const Json& finding : job.at("findings"))
    out += fmt::format("  {}: {}\n", text(finding, "kind"), text(finding, "message"));
  out += section(
      job.at("operations"), "waited in              for s  in / not in", [](const Json& at) {
        return fmt::format(
            "{:<20} {:>6.1f}  {} / {}{}", operation_of(at), at.at("seconds").get<double>(),
            shortened(text(at, "in")),
            text(at, "not_in").empty() ? "-" : shortened(text(at, "not_in")),
            text(at, "beside").empty() ? "" : ", left by " + shortened(text(at, "beside")));
      });
  out += section(
      job.at("doing"), "ranks            phase      operation, last event", [](const Json& at) {
        const std::string link = text(at, "link") == "connected" ? "" : text(at, "link") + ", ";
        return fmt::format("{:<15}  {:<9}  {}{}{}{}{}", shortened(text(at, "ranks")),
                           at.at("waiting").get<bool>() ? "waiting" : text(at, "phase"), link,
                           operation_of(at), at.at("busy").get<bool>() ? " (lease valid)" : "",
                           text(at, "event").empty() ? "" : ", ", text(at, "event"));
      });
  return out;
}

}  // namespace

std::string status_table(const std::string& document, bool colour) {
  const Json status = Json::parse(document, nullptr, false);
  if (status.is_discarded() || status.value("format", "") != "lockstep.status/1") return {};
  const Json& self = status.at("coordinator");
  std::string out = fmt::format("coordinator {} at {}, process {}, up {:.0f} s\n",
                                text(self, "version"), text(self, "listening"),
                                self.at("pid").get<int>(), self.at("uptime_seconds").get<double>());
  if (status.at("jobs").empty()) out += "no job has come yet\n";
  for (const Json& job : status.at("jobs")) out += job_text(job, colour);
  return out;
}

}  // namespace lockstep::worker::cli
