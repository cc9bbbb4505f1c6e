// What --help tells of each subcommand, and that a shell completes what it tells.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::worker::cli::help_test {
namespace {

using Words = std::set<std::string>;

std::string shell(const std::string& command) {
  std::string out;
  FILE* pipe = ::popen(command.c_str(), "r");
  for (char part[4096]; const std::size_t n = std::fread(part, 1, sizeof part, pipe);)
    out.append(part, n);
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return out;
}

std::string help_of(const std::string& subcommand) {
  return shell(LOCKSTEP_BINARY " " + subcommand + " --help");
}

/// The first words of the lines between the heading and the next empty line.
std::vector<std::string> rows(const std::string& help, const std::string& heading) {
  std::vector<std::string> out;
  std::istringstream lines(help.substr(std::min(help.find(heading + ":\n"), help.size())));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line) && !line.empty())
    if (line.starts_with("  ") && line[2] != ' ')
      out.push_back(line.substr(2, line.find(' ', 2) - 2));
  return out;
}

std::vector<std::string> subcommands() { return rows(help_of(""), "Subcommands"); }

Words options_in(const std::string& text) {
  static const std::regex kOption("--[a-z][a-z-]*");
  return {std::sregex_token_iterator(text.begin(), text.end(), kOption), {}};
}

Words options_of(const std::string& subcommand) {
  Words out;
  for (const std::string& row : rows(help_of(subcommand), "Options")) out.merge(options_in(row));
  return out;
}

/// What a bash that has loaded the installed file offers for the last of the words of `line`.
Words completed(const std::string& line) {
  const std::string script = ". " LOCKSTEP_COMPLETION " " LOCKSTEP_BINARY
                             " && complete -p lockstep >/dev/null && "
                             "COMP_WORDS=(lockstep " +
                             line +
                             ") && COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) && _lockstep; "
                             "printf '%s\\n' \"${COMPREPLY[@]}\"";
  std::istringstream offered(
      shell("bash --norc -c '" + std::regex_replace(script, std::regex("'"), "'\\''") + "'"));
  Words out;
  for (std::string word; std::getline(offered, word);)
    if (!word.empty()) out.insert(word);
  return out;
}

TEST(Help, EverySubcommand_HasUsageExitCodesAndExamplesWithinAHundredColumns) {
  ASSERT_GE(subcommands().size(), 9U);
  std::vector<std::string> all = subcommands();
  all.emplace_back();
  for (const std::string& name : all) {
    const std::string help = help_of(name);
    EXPECT_NE(help.find("\nUsage: "), std::string::npos) << help;
    EXPECT_GE(rows(help, "Environment").size(), 1U) << help;
    EXPECT_GE(rows(help, "Examples").size(), 1U) << help;
    const auto codes = rows(help, "Exit codes");
    for (const char* code : {"0", "2", "7"})
      EXPECT_NE(std::find(codes.begin(), codes.end(), code), codes.end()) << name << code;
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
  }
  EXPECT_EQ(rows(help_of("status"), "Exit codes"),
            (std::vector<std::string>{"0", "2", "4", "5", "6", "7"}));
  EXPECT_EQ(rows(help_of("dryrun"), "Exit codes"), (std::vector<std::string>{"0", "2", "3", "7"}));
}

TEST(Help, ExamplesAndUsage_TakeOptionsThatThereAre) {
  for (const std::string& name : subcommands()) {
    const std::string help = help_of(name);
    const Words known = options_of(name);
    std::string examples = help.substr(help.find("\nExamples:"));
    if (name == "trace") examples = examples.substr(0, examples.find("./"));  // a program's own
    const std::size_t usage = help.find("Usage:");
    for (const std::string& text : {examples, help.substr(usage, help.find("\n\n", usage) - usage)})
      for (const std::string& option : options_in(text))
        EXPECT_TRUE(known.contains(option)) << name << " " << option;
  }
}

TEST(Help, Options_TellKindRangeAndDefault) {
  const std::string help = std::regex_replace(help_of("dryrun"), std::regex("\\s+"), " ");
  for (const char* told :
       {"--ranks N ", "1 to 16777216; default the scenario's", "--report FILE.html",
        "--network shm|tcp|rdma|NAME|alpha=US,beta=GBPS", "default local; with"})
    EXPECT_NE(help.find(told), std::string::npos) << told << help;
}

TEST(Completion, Subcommands_AreThoseOfHelp) {
  const std::vector<std::string> names = subcommands();
  EXPECT_EQ(completed("''"), Words(names.begin(), names.end()));
  EXPECT_EQ(completed("dry"), Words{"dryrun"});
  EXPECT_EQ(completed("--v"), Words{"--version"});
}

TEST(Completion, OptionsOfASubcommand_AreThoseOfItsHelp) {
  for (const std::string& name : subcommands()) {
    EXPECT_EQ(completed(name + " --"), options_of(name)) << name;
    EXPECT_TRUE(options_of(name).contains("--help")) << name;
  }
  EXPECT_EQ(completed("dryrun --re"), Words{"--report"});
}

TEST(Completion, Values_AreNamesOrFilesOrNothing) {
  const std::string folder = testing::TempDir() + "lockstep completion";
  std::filesystem::create_directories(folder);
  for (const char* name : {"/one.json", "/one two.json"}) std::ofstream(folder + name) << "{}";
  const std::string begun = "\"" + folder + "/on\"";
  const Words files{folder + "/one.json", folder + "/one two.json"};
  for (const char* before :
       {"dryrun", "dryrun --report", "dryrun --report =", "explain", "infer", "status",
        "status --token-file", "trace --of 4 --all", "coordinator --store"})
    EXPECT_EQ(completed(before + (" " + begun)), files) << before;
  for (const char* before : {"dryrun --ranks", "trace --of", "history", "doctor"})
    EXPECT_EQ(completed(before + (" " + begun)), Words{}) << before;
  EXPECT_EQ(completed("dryrun x --network ''"), (Words{"rdma", "shm", "tcp"}));
  EXPECT_EQ(completed("dryrun x --network = r"), Words{"rdma"});
  EXPECT_EQ(completed("dryrun x --network ="), (Words{"rdma", "shm", "tcp"}));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep::worker::cli::help_test
