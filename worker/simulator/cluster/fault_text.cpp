// The report on faults as JSON and as a table.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/simulator/cluster/fault_report.h>
#include <lockstep/worker/simulator/cluster/json_text.h>

namespace lockstep::worker::simulator {
namespace {

using nlohmann::ordered_json;

std::string seconds(Duration time) {
  return fmt::format("{:.4g} s", std::chrono::duration<double>(time).count());
}

ordered_json ranks_json(const RankSet& ranks) {
  return ranks.empty() ? ordered_json(nullptr) : ordered_json(ranks.text());
}

ordered_json outcome_json(const Fault& fault, const FaultOutcome& outcome) {
  ordered_json out{{"fault", row_of(fault.kind).name}, {"ranks", fault.ranks.text()}};
  if (fault.call) out["call"] = *fault.call;
  if (fault.at) out["at_ns"] = fault.at->count();
  out["struck_ns"] = outcome.struck ? ordered_json(outcome.struck->count()) : nullptr;
  out["detected"] =
      outcome.detected ? ordered_json(code_name(outcome.detected->code)) : ordered_json("none");
  if (!outcome.detected) return out;
  out["after_ns"] = outcome.after.count();
  out["named"] = ranks_json(outcome.named);
  out["message"] = outcome.detected->message;
  return out;
}

void add_job(ordered_json& out, const JobOutcome& job) {
  out["job"] = job.ends ? "ends" : "goes on";
  if (job.ends) out["exit_code"] = job.exit_code ? ordered_json(*job.exit_code) : nullptr;
  out["calls"] = job.calls;
  out["more_compiles"] = job.more_compiles;
  out["more_errors"] = job.more_errors;
  if (!job.ends) out["longer_ns"] = job.longer.count();
  out["wait_ns"] = {{"median", job.wait_median.count()}, {"max", job.wait_max.count()}};
  out["last"] = ranks_json(job.last);
}

std::string after_calls(std::size_t calls) {
  return fmt::format("after {} call{}", calls, calls == 1 ? "" : "s");
}

}  // namespace

std::string job_text(const JobOutcome& job) {
  std::string out;
  if (!job.ends)
    out = "goes on";
  else if (job.exit_code)
    out = fmt::format("ends with exit code {} {}", *job.exit_code, after_calls(job.calls));
  else
    out = fmt::format("hangs {}: nobody is left who could notice", after_calls(job.calls));
  if (!job.ends && job.longer >= std::chrono::milliseconds(1))
    out += fmt::format(", {} longer", seconds(job.longer));
  if (job.more_compiles != 0) out += fmt::format(", {:+} compiles", job.more_compiles);
  if (job.more_errors != 0) out += fmt::format(", {:+} calls in error", job.more_errors);
  if (job.wait_max >= std::chrono::milliseconds(1)) {
    out +=
        fmt::format(", ranks wait {} (median {})", seconds(job.wait_max), seconds(job.wait_median));
    if (!job.last.empty()) out += " for " + job.last.phrase();
  }
  return out;
}

namespace {

/// `cut`: the job ended before this could be detected.
std::string line(const std::string& fault, const std::string& ranks, const FaultOutcome& outcome,
                 const std::string& job, bool cut = false) {
  const std::string detected = !outcome.struck    ? "never strikes"
                               : outcome.detected ? std::string(code_name(outcome.detected->code))
                               : cut              ? "job ended first"
                                                  : "none";
  return fmt::format("{:<34} {:<9} {:<17} {:<9} {:<9} {}\n", fault, ranks, detected,
                     outcome.detected ? seconds(outcome.after) : "-",
                     outcome.named.empty() ? "-" : outcome.named.text(), job);
}

}  // namespace

std::string fault_json(const FaultReport& report) {
  ordered_json without = nullptr;
  if (report.ends_alone)
    without = {{"code", code_name(report.ends_alone->code)},
               {"message", report.ends_alone->message}};
  std::string out = fmt::format(
      "{{\"deadline_ns\": {}, \"without_ns\": {}, \"without_error\": {},\n  \"alone\": [",
      report.plan.deadline.count(), report.without.count(), json_text(without));
  for (std::size_t i = 0; i < report.alone.size(); ++i) {
    ordered_json one = outcome_json(report.plan.list[i], report.alone[i].fault);
    add_job(one, report.alone[i].job);
    out += fmt::format("{}\n   {}", i == 0 ? "" : ",", json_text(one));
  }
  out += "],\n  \"together\": [";
  for (std::size_t i = 0; i < report.together.size(); ++i)
    out += fmt::format("{}\n   {}", i == 0 ? "" : ",",
                       json_text(outcome_json(report.plan.list[i], report.together[i])));
  ordered_json job = ordered_json::object();
  add_job(job, report.job);
  return out + "],\n  \"together_job\": " + json_text(job) + "}";
}

std::string fault_rows_json(const FaultReport& report) {
  ordered_json rows = ordered_json::array();
  for (std::size_t i = 0; i < report.alone.size(); ++i) {
    const FaultOutcome& outcome = report.alone[i].fault;
    rows.push_back(
        {{"fault", fault_text(report.plan.list[i])},
         {"ranks", report.plan.list[i].ranks.text()},
         {"struck", outcome.struck.has_value()},
         {"detected", outcome.detected ? std::string(code_name(outcome.detected->code)) : ""},
         {"after", outcome.detected ? seconds(outcome.after) : ""},
         {"named", outcome.named.text()},
         {"ends", report.alone[i].job.ends},
         {"job", job_text(report.alone[i].job)},
         {"message", outcome.detected ? outcome.detected->message : ""}});
  }
  return json_text(rows);
}

std::string fault_summary(const FaultReport& report) {
  std::string out =
      fmt::format("\nfaults, each alone; the job takes {} without any\n", seconds(report.without));
  if (report.ends_alone)
    out = fmt::format("\nfaults, each alone; without any the job ends after {}: {}\n",
                      seconds(report.without), report.ends_alone->message);
  out += fmt::format("{:<34} {:<9} {:<17} {:<9} {:<9} {}\n", "fault", "ranks", "detected", "after",
                     "named", "the job");
  for (std::size_t i = 0; i < report.alone.size(); ++i)
    out += line(fault_text(report.plan.list[i]), report.plan.list[i].ranks.text(),
                report.alone[i].fault, job_text(report.alone[i].job));
  for (std::size_t i = 0; i < report.alone.size(); ++i)
    if (const auto& detected = report.alone[i].fault.detected)
      out += fmt::format("  {}: {}\n", fault_text(report.plan.list[i]), detected->message);
  if (report.alone.size() < 2) return out;
  out += "faults, all together\n";
  for (std::size_t i = 0; i < report.together.size(); ++i)
    out += line(fault_text(report.plan.list[i]), report.plan.list[i].ranks.text(),
                report.together[i], "", report.job.ends && report.alone[i].fault.detected);
  return out + fmt::format("the job {}\n", job_text(report.job));
}

}  // namespace lockstep::worker::simulator
