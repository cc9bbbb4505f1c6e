// lockstep show FILE.lsp [--against OTHER.lsp]
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/cli/subcommand.h>
#include <lockstep/worker/compile/toolchain/child_process.h>
#include <lockstep/worker/compile/toolchain/memory_file.h>
#include <lockstep/worker/files/saved/difference.h>
#include <lockstep/worker/files/saved/program_text.h>
#include <lockstep/worker/files/saved/saved_file.h>

namespace lockstep::worker::cli {
namespace {

struct ShowOptions {
  std::string file, against, svg, dot;
  bool json = false;
};

constexpr std::chrono::minutes kDrawingLimit{5};

/// Draws a graph by graphviz. Errors: Environment.
Result<std::string> drawn(const std::string& dot) {
  const auto wrong = [](std::string what) { return environment_error(std::move(what)); };
  auto input = MemoryFile::create(std::as_bytes(std::span(dot)));
  if (!input) return input.error();
  auto output = MemoryFile::create();
  if (!output) return output.error();
  const auto end = run_child({.arguments = {"dot", "-Tsvg", "-o", "/dev/fd/3"},
                              .input = (*input)->descriptor(),
                              .output = (*output)->descriptor(),
                              .limit = kDrawingLimit});
  if (!end)
    return wrong(
        "there is no `dot` on this machine to draw the picture; install graphviz, or take --dot "
        "FILE and draw it elsewhere.");
  if (end->timed_out)
    return wrong(
        "`dot` has not drawn the picture in 5 minutes; take --dot FILE and another layout.");
  const Bytes svg = (*output)->content();
  if (end->signal != 0 || end->status != 0 || svg.empty())
    return wrong(fmt::format("`dot` could not draw the picture ({} {}).",
                             end->signal != 0 ? "signal" : "exit code",
                             end->signal != 0 ? end->signal : end->status));
  return std::string(reinterpret_cast<const char*>(svg.data()), svg.size());
}

int complain_of(const Status& error) {
  return complain(error.message + (error.message.ends_with('.') ? "" : "."), exit_code(error.code));
}

std::string difference_document(const ShowOptions& options,
                                const std::vector<ProgramDifference>& found) {
  nlohmann::ordered_json out{{"format", "lockstep.program_difference/1"},
                             {"a", options.file},
                             {"b", options.against},
                             {"differences", nlohmann::ordered_json::array()}};
  const auto side = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
  };
  for (const ProgramDifference& one : found)
    out["differences"].push_back({{"where", one.where}, {"a", side(one.a)}, {"b", side(one.b)}});
  return document_text(out);
}

int compare(const ShowOptions& options, const SavedProgram& program) {
  const auto other = read_program(options.against, {.known = {}, .stand_ins = true});
  if (!other) return complain_of(other.error());
  const std::vector<ProgramDifference> found = differences(program, *other);
  const int code = found.empty() ? kOk : kDiverged;
  if (options.json) return print_result(difference_document(options, found), code);
  const std::string title =
      found.empty() ? fmt::format("{} and {} are the same program\n", options.file, options.against)
                    : fmt::format("--- {}\n+++ {}\n", options.file, options.against);
  return print_result(title + differences_text(found), code);
}

int run(const ShowOptions& options) {
  if (!options.against.empty() && !(options.svg.empty() && options.dot.empty()))
    return complain("--against compares, and draws no picture; see lockstep show --help.", kUsage);
  const auto program = read_program(options.file, {.known = {}, .stand_ins = true});
  if (!program) return complain_of(program.error());
  if (!options.against.empty()) return compare(options, *program);
  if (!options.dot.empty())
    if (auto made = write_whole("The picture", options.dot, program_dot(*program)); !made)
      return complain(made.error());
  if (!options.svg.empty()) {
    if (auto possible = writable("The picture", options.svg); !possible)
      return complain(possible.error());
    const auto svg = drawn(program_dot(*program));
    if (!svg) return complain(svg.error());
    if (auto made = write_whole("The picture", options.svg, *svg); !made)
      return complain(made.error());
  }
  return print_result(options.json ? program_json(*program) + "\n" : program_text(*program), kOk);
}

}  // namespace

std::function<int()> declare_show(CLI::App& app) {
  auto options = std::make_shared<ShowOptions>();
  app.add_option("FILE", options->file, "a saved program")->type_name("FILE.lsp")->required();
  app.add_option("--against", options->against, "print what it does not have like this one")
      ->type_name("FILE.lsp");
  app.add_option("--svg", options->svg, "draw the graphs, by graphviz")->type_name("FILE.svg");
  app.add_option("--dot", options->dot, "write them in the language of graphviz")
      ->type_name("FILE.dot");
  app.add_flag("--json", options->json, "print one JSON document");
  describe(app, {.usage = {"lockstep show [OPTIONS] FILE.lsp",
                           "lockstep show A.lsp --against B.lsp [--json]"},
                 .text = "Prints the name, inputs, symbols with their sources, guards with their "
                         "lines, and nodes of what a frame's save() or lockstep trace --save has "
                         "written. Own ops need not be known here.",
                 .codes = {{kUsage, "wrong usage, or a file that is damaged or of another version"},
                           {kDiverged, "the programs differ (--against)"},
                           {kEnvironment, "no graphviz (--svg), or a file that cannot be written"}},
                 .variables = {"TMPDIR"},
                 .examples = {"lockstep show step.lsp --svg step.svg",
                              "lockstep show before.lsp --against after.lsp"}});
  return [options] { return run(*options); };
}

}  // namespace lockstep::worker::cli
