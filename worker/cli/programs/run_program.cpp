// The program that `lockstep run` becomes. It is separate from `lockstep`, which starts faster
// without the libraries of jobs.
//
// usage: lockstep_program, with the options of lockstep run
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/cli/programs/run_options.h>
#include <lockstep/worker/cli/subcommand.h>
#include <lockstep/worker/files/safetensors/file.h>
#include <lockstep/worker/files/safetensors/writer.h>
#include <lockstep/worker/job/job.h>
#include <lockstep/worker/simulator/input/scenario.h>
#include <lockstep/worker/simulator/input/scenario_reader.h>

namespace lockstep::worker::cli {
namespace {

constexpr std::string_view kRank = "{rank}";

/// Replaces each "{rank}" by this rank's number.
std::string of_rank(std::string path, int rank) {
  for (std::size_t at = path.find(kRank); at != path.npos; at = path.find(kRank, at))
    path.replace(at, kRank.size(), std::to_string(rank));
  return path;
}
/// True if this rank writes the file: a path without "{rank}" is written by rank 0 only.
bool is_written(const std::string& path, int rank) {
  return !path.empty() && (rank == 0 || path.find(kRank) != path.npos);
}

/// Returns the name of a group that the command line declares, and the set of its ranks that
/// contains this rank.
Result<std::pair<std::string, RankSet>> group_of(const std::string& text, const Job& job) {
  const std::size_t equals = text.find('=');
  const auto wrong = [&](const std::string& why) {
    return bad_input(
        fmt::format("--group {} is not understood{}; it takes a name and the sets of ranks, "
                    "such as tensor=0-1/2-3",
                    text, why.empty() ? "" : ": " + why));
  };
  if (equals == 0 || equals == text.npos) return wrong("");
  RankSet mine;
  for (std::string rest = text.substr(equals + 1) + "/"; !rest.empty();) {
    const std::size_t end = rest.find('/');
    std::string why;
    const auto set = simulator::parse_ranks(rest.substr(0, end), job.size(), why);
    if (!set) return wrong(why);
    if (set->contains(Rank{job.rank()})) mine = *set;
    rest.erase(0, end + 1);
  }
  return std::pair{text.substr(0, equals), mine};
}

Result<NamedValues> inputs_of(const std::string& path) {
  NamedValues out;
  if (path.empty()) return out;
  auto file = SafetensorsFile::open(path);
  if (!file) return file.error();
  for (const StoredTensor& tensor : file->tensors()) {
    auto array = file->read(tensor.name);
    if (!array) return array.error();
    out.emplace(tensor.name, *std::move(array));
  }
  return out;
}

Result<void> write_outputs(const std::string& path, const NamedValues& outputs) {
  std::vector<NamedArray> tensors;
  for (const auto& [name, array] : outputs) tensors.push_back({name, array});
  return write_safetensors(path, tensors);
}

/// Returns the line of an output: "loss: f64[] = 2.5".
std::string line_of(const std::string& name, const Array& array) {
  std::string out =
      fmt::format("{}: {}[{}]", name, dtype_name(array.dtype()), fmt::join(array.sizes(), ", "));
  return array.sizes().empty() ? fmt::format("{} = {}", out, array.at(0)) : out;
}

std::string report(const RunOptions& options, const Job& job, const std::string& frame,
                   const NamedValues& outputs) {
  if (!options.json) {
    std::string out;
    for (const auto& [name, array] : outputs) out += line_of(name, array) + "\n";
    return out;
  }
  nlohmann::ordered_json document{{"format", "lockstep.run/1"},
                                  {"frame", frame},
                                  {"ranks", job.size()},
                                  {"outputs", nlohmann::ordered_json::object()}};
  for (const auto& [name, array] : outputs) {
    document["outputs"][name] = {{"dtype", dtype_name(array.dtype())}, {"sizes", array.sizes()}};
    if (array.sizes().empty()) document["outputs"][name]["value"] = array.at(0);
  }
  return document_text(document);
}

/// One run, and this rank's results.
class ProgramRun {
 public:
  ProgramRun(const RunOptions& options, Job& job) : options_(options), job_(job) {}

  Result<void> run() {
    LoadOptions how{.other_ranks = options_.other_ranks};
    if (auto declared = declare_groups(how.group); !declared) return declared;
    auto frame = job_.load(of_rank(options_.file, job_.rank()), how);
    if (!frame) return frame.error();
    name_ = frame->name();
    auto inputs = inputs_of(of_rank(options_.inputs, job_.rank()));
    std::optional<Status> trouble;
    if (!inputs) trouble = inputs.error();
    for (const std::string* path : {&options_.outputs, &options_.pack})
      if (!trouble && is_written(*path, job_.rank()))
        if (auto possible = writable("The output", of_rank(*path, job_.rank())); !possible)
          trouble = possible.error();
    auto outputs = trouble ? Result<NamedValues>(frame->refuse(*trouble)) : (*frame)(*inputs);
    if (!outputs) return outputs.error();
    outputs_ = *std::move(outputs);
    for (const auto& [name, array] : outputs_)
      (void)array.data();  // copied while the device exists
    if (is_written(options_.pack, job_.rank()))
      packed_ = frame->save(of_rank(options_.pack, job_.rank()), {.objects = true});
    return {};
  }

  /// Writes and prints the results. Called after the end of the job: an error is this rank's alone.
  int finish() {
    if (!packed_) return complain_once(packed_.error());
    if (is_written(options_.outputs, job_.rank()))
      if (auto done = write_outputs(of_rank(options_.outputs, job_.rank()), outputs_); !done)
        return complain_once(done.error());
    return job_.rank() == 0 ? print_result(report(options_, job_, name_, outputs_), kOk) : kOk;
  }

 private:
  static int complain_once(const Status& error) {
    return complain(error.message + (error.message.ends_with('.') ? "" : "."),
                    exit_code(error.code));
  }

  /// Declares all groups of the command line. Sets `of_frame` to the group that the program's file
  /// names.
  Result<void> declare_groups(Group& of_frame) {
    const auto program =
        read_program(of_rank(options_.file, job_.rank()), {.known = {}, .stand_ins = true});
    for (const std::string& text : options_.groups) {
      const auto mine = group_of(text, job_);
      if (!mine) return mine.error();  // the error is equal on all ranks
      auto made = job_.group(mine->first, mine->second);
      if (!made) return made.error();
      if (program && program->group == mine->first) of_frame = *std::move(made);
    }
    return {};
  }

  const RunOptions& options_;
  Job& job_;
  std::string name_;
  NamedValues outputs_;
  Result<void> packed_;
};

int run_job(const RunOptions& options) {
  // An error that rank 0 can find by itself is reported before the ranks meet.
  if (const int rank = rank_if_known(); rank == 0) {
    if (auto read = read_program(of_rank(options.file, 0), {.known = {}, .stand_ins = true}); !read)
      return complain(read.error().message + ".", exit_code(read.error().code));
  }
  auto settings = Settings::from_environment();
  if (!settings) return Job::report(settings.error());
  if (std::getenv("LOCKSTEP_LOG") == nullptr) settings->log = {"off"};
  auto job = Job::init(nullptr, nullptr, {.settings = *settings, .summary = false});
  if (!job) return Job::report(job.error());
  ProgramRun program(options, **job);
  const int code = (*job)->run([&] { return program.run(); });
  return code == kOk ? program.finish() : code;
}

}  // namespace
}  // namespace lockstep::worker::cli

int main(int argc, char** argv) {
  using namespace lockstep::worker::cli;
  CLI::App app("Runs one call of a saved program.", "lockstep_program");
  RunOptions options;
  declare_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return complain(std::string(error.what()) + "; see lockstep run --help.", kUsage);
  }
  return run_job(options);
}
