// lockstep infer RECORD_DIR
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/worker/agree/agreement/infer_request.h>
#include <lockstep/worker/cli/infer_report.h>
#include <lockstep/worker/cli/scratch.h>
#include <lockstep/worker/cli/subcommand.h>
#include <lockstep/worker/cli/trace_ranks.h>

namespace lockstep::worker::cli {
namespace {

using simulator::RankRecord;
using simulator::RecordedClasses;

struct InferOptions {
  std::string directory, box = "0..64";
  double limit = 60;
  bool json = false, no_program = false;
};

std::optional<shapes::Range> box_of(std::string_view text) {
  shapes::Range out;
  const char *at = text.data(), *end = at + text.size();
  const auto low = std::from_chars(at, end, out.lower);
  if (low.ec != std::errc{} || end - low.ptr < 3 || low.ptr[0] != '.' || low.ptr[1] != '.')
    return std::nullopt;
  const auto high = std::from_chars(low.ptr + 2, end, out.upper);
  if (high.ec != std::errc{} || high.ptr != end || out.lower < 0 || out.empty() ||
      out.upper == shapes::Range::kMax)
    return std::nullopt;
  return out;
}

/// True if only this user can have written to the path.
bool is_own(const std::string& path) {
  struct stat seen {};
  return ::stat(path.c_str(), &seen) == 0 && seen.st_uid == ::geteuid() &&
         (seen.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// Returns why the recorded program is not started; empty: it is.
std::string why_not_started(const InferOptions& options, const RankRecord& record) {
  if (options.no_program) return "the program was not to be started";
  if (!record.header.program)
    return "the record does not tell how the program was started; record it again";
  if (!is_own(options.directory) || !is_own(record.path))
    return "other users may have written to the record, so the program that it names is not "
           "started; chmod go-w what is yours";
  const RecordHeader::Program& program = *record.header.program;
  std::error_code failed;
  if (!std::filesystem::is_regular_file(program.path, failed) ||
      ::access(program.path.c_str(), X_OK) != 0)
    return fmt::format("the program {} is not there any more, or cannot be run", program.path);
  if (!std::filesystem::is_directory(program.directory, failed))
    return fmt::format("the folder {}, which the program was started in, is not there any more",
                       program.directory);
  return {};
}

std::string command_line(const RecordHeader::Program& program) {
  std::string out = program.path;
  for (const std::string& word : program.arguments) out += " " + word;
  return out;
}

/// Returns the request to the program: one question for each structure of each frame's inputs.
InferRequest request_for(const std::vector<RecordedClasses>& recorded, const shapes::Range& box) {
  InferRequest out{.box = box, .frames = {}};
  for (const RecordedClasses& one : recorded)
    out.frames.push_back({one.group, one.frame, one.structure, one.symbols});
  return out;
}

std::string how_it_ended(const Result<RanksEnd>& ended, double limit) {
  if (!ended) return ended.error().message;
  const RankEnd& rank = ended->ranks.front();
  if (ended->told != 0) return "the command was told to end";
  if (rank.signal != 0 && rank.by_us)
    return fmt::format("the program had not got there after {} s", limit);
  if (rank.signal != 0) return fmt::format("signal {} ended the program", rank.signal);
  if (rank.exit_code != 0) return fmt::format("the program ended with {}", rank.exit_code);
  return {};
}

ProgramAnswer ask_program(const InferOptions& options, const RankRecord& record,
                          const std::vector<RecordedClasses>& recorded, const shapes::Range& box) {
  ProgramAnswer out{{}, why_not_started(options, record)};
  if (!out.reason.empty() || recorded.empty()) return out;
  const Scratch scratch("lockstep-infer");
  if (scratch.path().empty())
    return {{}, "no folder for the program's answer can be made; see TMPDIR"};
  if (auto written = request_for(recorded, box).write(scratch.path()); !written)
    return {{}, written.error().message};
  const RecordHeader::Program& program = *record.header.program;
  std::fprintf(stderr,
               "lockstep: starts, as rank 0 of %d, in %s: %s (what it prints has no meaning)\n",
               record.header.world_size, program.directory.c_str(), command_line(program).c_str());
  TraceRun run{
      .size = record.header.world_size,
      .alone = 0,
      .calls = 0,
      .command = {program.path},
      .folder = scratch.path(),
      .deadline = std::chrono::seconds(5),
      .directory = program.directory,
      .variables = {{"LOCKSTEP_INFER", scratch.path()}, {"LOCKSTEP_RECORD", ""}},
      .limit = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.limit))};
  run.command.insert(run.command.end(), program.arguments.begin(), program.arguments.end());
  const auto ended = run_traced_ranks(run);
  std::ifstream lines(fmt::format("{}/{}", scratch.path(), kInferredLines));
  for (std::string line; std::getline(lines, line);) out.lines.push_back(line);
  if (out.lines.size() == recorded.size()) return out;
  std::string why = how_it_ended(ended, options.limit);
  if (why.empty() && !std::filesystem::exists(scratch.path() + "/rank-00000.jsonl"))
    why = "the program was started, but it made no job of lockstep/worker/job.h";
  out.reason = why;
  return out;
}

int run(const InferOptions& options) {
  const auto box = box_of(options.box);
  if (!box)
    return complain("--box " + options.box +
                        " is no LOW..HIGH with 0 <= LOW <= HIGH, such as 0..64; see lockstep infer "
                        "--help.",
                    kUsage);
  const auto record = simulator::read_record(options.directory);
  if (!record) return complain(record.error());
  const auto replay = simulator::replay(*record, false);
  if (!replay) return complain(replay.error());
  std::vector<std::string> notes = replay->notes;
  if (replay->difference)
    notes.push_back("The record is replayed up to a difference: " + replay->difference->text());
  const std::vector<RecordedClasses> recorded = recorded_classes(*replay, *box);
  const ProgramAnswer answer = ask_program(options, record->front(), recorded, *box);
  const InferReport report = infer_report(options.directory, record->front().header.world_size,
                                          *box, recorded, answer, notes);
  return print_result(options.json ? report.json : report.text, kOk);
}

}  // namespace

std::function<int()> declare_infer(CLI::App& app) {
  auto options = std::make_shared<InferOptions>();
  app.add_option("RECORD_DIR", options->directory, "directory that LOCKSTEP_RECORD named")
      ->type_name("DIR")
      ->required();
  app.add_option("--box", options->box, "the values of each size that is a symbol, 0 or more")
      ->type_name("LOW..HIGH")
      ->capture_default_str();
  app.add_option("--limit", options->limit, "seconds that the program may take to its frames")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 86400.0, "0.1 to 86400"))
      ->capture_default_str();
  app.add_flag("--no-program", options->no_program,
               "do not start the recorded program: its recorded entries only");
  app.add_flag("--json", options->json, "print one JSON document");
  describe(app, {.text = "Starts the recorded program again, as rank 0, with its arguments and in "
                         "its folder.",
                 .codes = {},
                 .variables = {"TMPDIR"},
                 .examples = {"lockstep infer DIR --box 0..64",
                              "lockstep infer DIR --no-program --json"}});
  return [options] { return run(*options); };
}

}  // namespace lockstep::worker::cli
