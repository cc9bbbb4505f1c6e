// lockstep doctor: checks that this machine has everything that a job needs.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/cli/checks.h>
#include <lockstep/worker/cli/subcommand.h>

namespace lockstep::worker::cli {
namespace {

std::string_view grade_name(Check::Grade grade) {
  switch (grade) {
    case Check::Grade::Ok:
      return "ok";
    case Check::Grade::Warn:
      return "warn";
    case Check::Grade::Fail:
      return "fail";
  }
  return "fail";
}

std::string_view colour_of(Check::Grade grade) {
  switch (grade) {
    case Check::Grade::Ok:
      return "\033[32m";
    case Check::Grade::Warn:
      return "\033[33m";
    case Check::Grade::Fail:
      return "\033[31m";
  }
  return "";
}

std::string as_json(const std::vector<Check>& checks, bool healthy) {
  nlohmann::ordered_json out{{"format", "lockstep.doctor/1"}, {"ok", healthy}};
  out["checks"] = nlohmann::ordered_json::array();
  for (const Check& check : checks)
    out["checks"].push_back(
        {{"name", check.name}, {"status", grade_name(check.grade)}, {"detail", check.detail}});
  return document_text(out, 1);
}

std::string as_table(const std::vector<Check>& checks, bool colour) {
  std::string out;
  for (const Check& check : checks)
    out += fmt::format("{}{:<5}{} {:<16} {}\n", colour ? colour_of(check.grade) : "",
                       grade_name(check.grade), colour ? "\033[0m" : "", check.name, check.detail);
  return out;
}

}  // namespace

std::function<int()> declare_doctor(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "print one JSON document instead of a table");
  describe(app,
           {.text = "Looks at the compiler that jobs take, MPI and whether it reduces in rank "
                    "order, the NVIDIA driver, NVRTC, cuBLAS and NCCL, the cache directory and "
                    "limits.",
            .codes = {{kEnvironment, "jobs cannot run here"}},
            .variables = {"LOCKSTEP_CXX", "LOCKSTEP_CACHE_DIR", "NO_COLOR"},
            .examples = {"lockstep doctor", "lockstep doctor --json"}});
  return [json] {
    const std::vector<Check> checks = check_machine();
    bool healthy = true;
    for (const Check& check : checks) healthy = healthy && check.grade != Check::Grade::Fail;
    return print_result(*json ? as_json(checks, healthy) : as_table(checks, colourful()),
                        healthy ? kOk : kEnvironment);
  };
}

}  // namespace lockstep::worker::cli
