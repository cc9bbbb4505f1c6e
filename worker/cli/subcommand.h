// The subcommands of the `lockstep` binary: one table, one file each. A subcommand writes its
// result to stdout and everything else to stderr; its exit codes are in README.md.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/status.h>

namespace CLI {
class App;
}

namespace lockstep::worker::cli {

inline constexpr int kOk = 0, kUsage = 2, kDiverged = 3, kEnvironment = 7;

struct Subcommand {
  std::string_view name, summary;
  /// Declares options and arguments on `app`; gives what runs the subcommand once they are parsed,
  /// returning the exit code.
  std::function<int()> (*declare)(CLI::App& app);
};

[[nodiscard]] std::function<int()> declare_dryrun(CLI::App& app);
[[nodiscard]] std::function<int()> declare_doctor(CLI::App& app);
[[nodiscard]] std::function<int()> declare_explain(CLI::App& app);
[[nodiscard]] std::function<int()> declare_coordinator(CLI::App& app);
[[nodiscard]] std::function<int()> declare_history(CLI::App& app);
[[nodiscard]] std::function<int()> declare_infer(CLI::App& app);
[[nodiscard]] std::function<int()> declare_status(CLI::App& app);
[[nodiscard]] std::function<int()> declare_dump(CLI::App& app);
[[nodiscard]] std::function<int()> declare_trace(CLI::App& app);

/// Writes all of `text` to stdout. Returns `code`, or 7 with a sentence on stderr where stdout does
/// not take it.
[[nodiscard]] int print_result(std::string_view text, int code);
/// One sentence on stderr. Returns `code`.
int complain(std::string_view sentence, int code);
/// The exit code of a failure, after its sentence on stderr.
int complain(const Status& failure);
/// Writes the file as a whole or not at all: also where this process is interrupted; a device or a
/// pipe of that name is written to. `what` stands in the message: "The report". Errors:
/// Environment.
[[nodiscard]] Result<void> write_whole(std::string_view what, const std::string& file,
                                       std::string_view text, unsigned mode = 0644);
/// The file, or a new one in its folder, can be written as things stand. Errors: as write_whole().
[[nodiscard]] Result<void> writable(std::string_view what, const std::string& file);
/// Writing to the file would replace what a rank recorded in the directory.
[[nodiscard]] bool part_of_record(const std::string& file, const std::string& directory);
/// True if stdout is a terminal that shows colours.
[[nodiscard]] bool colourful();

}  // namespace lockstep::worker::cli
