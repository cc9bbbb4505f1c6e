// The subcommands of the `lockstep` binary: one table, one file each. A subcommand writes its
// result to stdout and everything else to stderr; its --help lists the exit codes.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <lockstep/collectives/base/status.h>

namespace CLI {
class App;
}
namespace lockstep::worker {
struct CoordinatorAddress;
}

namespace lockstep::worker::cli {

inline constexpr int kOk = 0, kUsage = 2, kDiverged = 3, kEnvironment = 7;

struct Subcommand {
  std::string_view name, summary;
  /// Declares options and arguments on `app`. Returns the function that, once they are parsed, runs
  /// the subcommand and returns the exit code.
  std::function<int()> (*declare)(CLI::App& app);
};

[[nodiscard]] std::function<int()> declare_checkpoint(CLI::App& app);
[[nodiscard]] std::function<int()> declare_dryrun(CLI::App& app);
[[nodiscard]] std::function<int()> declare_doctor(CLI::App& app);
[[nodiscard]] std::function<int()> declare_explain(CLI::App& app);
[[nodiscard]] std::function<int()> declare_coordinator(CLI::App& app);
[[nodiscard]] std::function<int()> declare_history(CLI::App& app);
[[nodiscard]] std::function<int()> declare_infer(CLI::App& app);
[[nodiscard]] std::function<int()> declare_status(CLI::App& app);
[[nodiscard]] std::function<int()> declare_dump(CLI::App& app);
[[nodiscard]] std::function<int()> declare_trace(CLI::App& app);
// Implemented in the folder programs, as is declare_checkpoint().
[[nodiscard]] std::function<int()> declare_run(CLI::App& app);
[[nodiscard]] std::function<int()> declare_show(CLI::App& app);
[[nodiscard]] std::function<int()> declare_worker(CLI::App& app);
/// Writes the programs that traced ranks have left in `folder` to `directory`: FRAME.lsp if all
/// ranks that made the frame have the same program, else a file per rank set, FRAME.ranks-0-2.lsp.
/// Returns a line for each. Errors: Environment.
[[nodiscard]] Result<std::vector<std::string>> save_traced_programs(const std::string& folder,
                                                                    const std::string& directory);

/// The text of --help besides the options.
struct HelpNotes {
  std::vector<std::string> usage;        // whole command lines; empty: made from the options
  std::string text;                      // a paragraph
  std::map<int, std::string> codes;      // exit codes besides 0, 2 and 7, or other texts for these
  std::set<std::string_view> variables;  // environment variables that are read; empty: all
  std::vector<std::string> examples;
};
void describe(CLI::App& app, HelpNotes notes);
/// Returns a bash script that completes command lines of `app`.
[[nodiscard]] std::string completion_script(const CLI::App& app);

/// The coordinator to ask: ADDRESS and --token-file.
struct AskedCoordinator {
  std::string address, token_file;
  [[nodiscard]] Result<CoordinatorAddress> find() const;
};
/// Declares the options of `asked`, and describes `app` by `notes`, to which it adds the variables
/// and exit codes of these options.
void ask_coordinator(CLI::App& app, AskedCoordinator& asked, HelpNotes notes);

/// Returns one document and a line feed; invalid UTF-8 is replaced. `indent`: -1 for one line.
[[nodiscard]] std::string document_text(const nlohmann::ordered_json& document, int indent = -1);
/// Writes all of `text` to stdout. Returns `code`, or 7 with a sentence on stderr if that fails.
[[nodiscard]] int print_result(std::string_view text, int code);
/// Prints one sentence on stderr. Returns `code`.
int complain(std::string_view sentence, int code);
/// Prints the sentence of a failure on stderr. Returns the failure's exit code.
int complain(const Status& failure);
/// Writes the file atomically, even if this process is interrupted; an existing device or pipe is
/// written to. `what` begins the error message: "The report". Errors: Environment.
[[nodiscard]] Result<void> write_whole(std::string_view what, const std::string& file,
                                       std::string_view text, unsigned mode = 0644);
/// Checks that the file could be written now: an existing one, or a new one in its folder. Errors:
/// those of write_whole().
[[nodiscard]] Result<void> writable(std::string_view what, const std::string& file);
/// True if writing to the file would replace a file that a rank has recorded in the directory.
[[nodiscard]] bool part_of_record(const std::string& file, const std::string& directory);
/// True if stdout is a terminal that shows colours.
[[nodiscard]] bool colourful();

}  // namespace lockstep::worker::cli
