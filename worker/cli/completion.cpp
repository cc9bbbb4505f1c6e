// lockstep --completion: the script by which a shell completes command lines, made from the
// declarations of the options.
#include <sstream>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <lockstep/worker/cli/subcommand.h>

namespace lockstep::worker::cli {
namespace {

/// In the script, $before is the word before the one being completed, not counting "="; or "-" if
/// the word being completed is an option.
constexpr std::string_view kScript =
    R"(# Completion of lockstep in bash; zsh runs bashcompinit before.
_lockstep() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words=
  if [[ $word == = ]]; then word=
  elif [[ $before == = ]]; then before=${{COMP_WORDS[COMP_CWORD-2]}}
  elif [[ $word == -* ]]; then before=-
  fi
  local of=${{COMP_WORDS[1]}}
  ((COMP_CWORD > 1)) || of=lockstep
  case "$of $before" in
{}  esac
  if [[ $words == FILE ]]; then
    local IFS=$'\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$word"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  fi
}}
complete -F _lockstep lockstep
)";

/// Returns the completions of a value of kind "shm|tcp|NAME": "FILE" if the value is a file, else
/// the lower-case words of the kind.
std::string words_of(const std::string& kind) {
  std::string out;
  std::istringstream choices(kind.substr(0, kind.find(':')));
  for (std::string choice; std::getline(choices, choice, '|');) {
    if (choice.starts_with("FILE") || choice.starts_with("DIR")) return "FILE";
    if (choice.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == std::string::npos)
      out += (out.empty() ? "" : " ") + choice;
  }
  return out;
}

/// Returns the script's cases for one command. Each gives the completions after one word; the last
/// is for all other words.
std::string cases_of(const CLI::App& app, const std::string& words) {
  std::string options, rows, others = words;
  for (const CLI::Option* option : app.get_options()) {
    const std::string kind = option->get_type_name();
    if (option->get_positional()) others = words_of(kind);
    for (const std::string& name : option->get_lnames()) {
      options += " --" + name;
      if (!kind.empty())
        rows += fmt::format("    '{} --{}') words='{}' ;;\n", app.get_name(), name, words_of(kind));
    }
  }
  return fmt::format("{0}    '{1} -') words='{2}' ;;\n    '{1} '*) words='{3}' ;;\n", rows,
                     app.get_name(), options.substr(1), others);
}

}  // namespace

std::string completion_script(const CLI::App& app) {
  std::string names, cases;
  for (const CLI::App* sub : app.get_subcommands({})) {
    names += (names.empty() ? "" : " ") + sub->get_name();
    cases += cases_of(*sub, sub->get_prefix_command() ? "FILE" : "");
  }
  return fmt::format(kScript, cases + cases_of(app, names));
}

}  // namespace lockstep::worker::cli
