// The layout of --help for all subcommands, and the texts that their notes share.
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <lockstep/worker/cli/subcommand.h>

namespace lockstep::worker::cli {
namespace {

constexpr std::size_t kWidth = 100, kColumn = 28;

const std::map<int, std::string> kExitCodes{
    {0, "done, whatever was found of a job or a scenario's calls"},
    {2, "wrong usage or input"},
    {3, "divergence or joint failure"},
    {4, "time-out or stuck"},
    {5, "a rank is lost"},
    {6, "authentication or version"},
    {7, "the environment, such as a file that cannot be written"},
};

/// The environment variables that jobs and subcommands read, with defaults.
constexpr std::pair<std::string_view, std::string_view> kVariables[] = {
    {"LOCKSTEP_LOG",
     "what jobs say: a comma list of off, info, debug, guards, graph, output_code (default "
     "info)"},
    {"LOCKSTEP_RECORD",
     "directory where each rank records what it sees and decides (default: no record)"},
    {"LOCKSTEP_CACHE_DIR",
     "directory of kernels, profiles, history, port files, reports and calibrated networks "
     "(default $XDG_CACHE_HOME/lockstep, else ~/.cache/lockstep)"},
    {"LOCKSTEP_CACHE_LIMIT", "bytes that kernels may take there, with K, M, G or T (default 10G)"},
    {"LOCKSTEP_DEADLINE_SECONDS",
     "seconds without progress until a job is stuck, above 0 (default 60)"},
    {"LOCKSTEP_JOB_ID", "name of the job; a restart under it starts from what was learnt"},
    {"LOCKSTEP_COORDINATOR",
     "address or port file of the coordinator, or off (default: the job's rank 0 hosts one)"},
    {"LOCKSTEP_TOKEN", "the secret shared with the coordinator"},
    {"LOCKSTEP_TOKEN_FILE", "file of mode 0600 that holds it"},
    {"LOCKSTEP_ENCRYPTION", "off: connections to other machines are not encrypted"},
    {"LOCKSTEP_COORDINATION",
     "on or off; off shows what goes wrong without agreement (default on)"},
    {"LOCKSTEP_CHECK_CAPTURES",
     "every so many reuses a frame is traced again; 0: never (default 0)"},
    {"LOCKSTEP_THREADS",
     "threads that compute a rank's steps (default: its share of the host's cores)"},
    {"LOCKSTEP_CXX", "the compiler of kernels (default c++; without one kernels are interpreted)"},
    {"LOCKSTEP_RENDEZVOUS", "without mpirun: address or file where ranks meet over TCP"},
    {"LOCKSTEP_RANK", "without mpirun: which rank a process is, from 0"},
    {"LOCKSTEP_WORLD_SIZE", "without mpirun: how many ranks there are, from 1"},
    {"TMPDIR", "directory of temporary files (default /tmp)"},
    {"NO_COLOR", "set: no colours on a terminal"},
};

/// Returns the text in lines of at most `width` columns, broken at spaces.
std::string wrapped(const std::string& text, std::size_t width) {
  std::string out;
  std::size_t used = 0;
  std::istringstream words(text);
  for (std::string word; words >> word; used += word.size()) {
    const bool fits = used + 1 + word.size() <= width;
    if (used > 0) out += fits ? ' ' : '\n';
    used = used > 0 && fits ? used + 1 : 0;
    out += word;
  }
  return out;
}

std::string row(std::string_view name, std::string_view text) {
  std::ostringstream out;
  CLI::detail::format_help(out, std::string(name), wrapped(std::string(text), kWidth - kColumn),
                           kColumn);
  return out.str();
}

/// Formats an option: the kind of its value, its purpose, range and default.
class Layout : public CLI::Formatter {
 public:
  explicit Layout(std::vector<std::string> usage) : usage_(std::move(usage)) {
    column_width(kColumn);
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    if (usage_.empty()) return CLI::Formatter::make_usage(app, name);
    std::string out;
    for (const std::string& line : usage_)
      out += (out.empty() ? "Usage: " : "       ") + line + "\n";
    return out;
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string kind = kind_and_range(*option).first;
    return option->get_positional() || kind.empty() ? "" : " " + kind;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    std::vector<std::string> notes;
    if (option->get_required()) notes.emplace_back("required");
    if (const std::string range = kind_and_range(*option).second; !range.empty())
      notes.push_back(range);
    if (const std::string value = option->get_default_str(); !value.empty())
      notes.push_back("default " + value);
    for (const CLI::Option* needed : option->get_needs())
      notes.push_back("with " + needed->get_name());
    const std::string said = fmt::format("{}", fmt::join(notes, "; "));
    return wrapped(option->get_description() + (said.empty() ? "" : " (" + said + ")"),
                   kWidth - kColumn);
  }

 private:
  /// Returns kind and range of a value, which CLI11 has in one type name: "N:1 to 8".
  static std::pair<std::string, std::string> kind_and_range(const CLI::Option& option) {
    const std::string text = option.get_type_name();
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) return {text, ""};
    return {text.substr(0, colon), text.substr(colon + 1)};
  }

  std::vector<std::string> usage_;
};

}  // namespace

void describe(CLI::App& app, HelpNotes notes) {
  std::string footer = notes.text.empty() ? "" : wrapped(notes.text, kWidth) + "\n\n";
  footer += "Environment:\n";
  for (const auto& [name, text] : kVariables)
    if (notes.variables.empty() || notes.variables.contains(name)) footer += row(name, text);
  footer += "\nExit codes:\n";
  const bool all = app.get_parent() == nullptr;
  for (const auto& [code, text] : kExitCodes)
    if (const auto own = notes.codes.find(code); own != notes.codes.end())
      footer += row(std::to_string(code), own->second);
    else if (all || code == kOk || code == kUsage || code == kEnvironment)
      footer += row(std::to_string(code), text);
  footer += "\nExamples:";
  for (const std::string& example : notes.examples) footer += "\n  " + example;
  app.footer(footer);
  app.formatter(std::make_shared<Layout>(std::move(notes.usage)));
}

}  // namespace lockstep::worker::cli
