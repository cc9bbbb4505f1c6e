// Writes the files of `lockstep trace --save DIR`.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/base/rank.h>
#include <lockstep/worker/agree/process/settings.h>
#include <lockstep/worker/cli/subcommand.h>
#include <lockstep/worker/files/saved/saved_file.h>

namespace lockstep::worker::cli {
namespace {

namespace fs = std::filesystem;

/// A program of a frame, and the ranks that have it.
struct Version {
  SavedProgram program;
  RankSet ranks;
};
using Frames = std::map<std::pair<std::string, std::string>, std::map<Bytes, Version>>;

/// Returns the rank in a file name such as "rank-00003.frame-0.lsp"; nullopt: another kind of file.
std::optional<Rank> rank_of(const fs::path& file) {
  const std::string name = file.filename().string();
  constexpr std::string_view kStart = "rank-";
  if (!name.starts_with(kStart) || !name.ends_with(".lsp")) return std::nullopt;
  Rank rank{};
  const auto read =
      std::from_chars(name.data() + kStart.size(), name.data() + name.size(), rank.value);
  return read.ec == std::errc{} ? std::optional(rank) : std::nullopt;
}

/// Reads the programs in the folder, by group and frame.
Result<Frames> frames_in(const std::string& folder) {
  Frames out;
  std::error_code failed;
  std::set<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, failed)) files.insert(entry.path());
  for (const fs::path& file : files) {
    const auto rank = rank_of(file);
    if (!rank) continue;
    auto program = read_program(file.string(), {.known = {}, .stand_ins = true});
    if (!program) return program.error();
    const auto bytes = encode(*program);
    if (!bytes) return bytes.error();
    Version& version = out[{program->group, program->frame}][*bytes];
    version.ranks.insert(*rank);
    version.program = *std::move(program);
  }
  return out;
}

std::vector<Version> by_lowest_rank(const std::map<Bytes, Version>& versions) {
  std::vector<Version> out;
  for (const auto& [bytes, version] : versions) out.push_back(version);
  std::ranges::sort(out, {}, [](const Version& v) { return v.ranks.lowest(); });
  return out;
}

}  // namespace

Result<std::vector<std::string>> save_traced_programs(const std::string& folder,
                                                      const std::string& directory) {
  const auto frames = frames_in(folder);
  if (!frames) return frames.error();
  std::error_code failed;
  fs::create_directories(directory, failed);
  std::vector<std::string> lines;
  std::set<std::string> taken;
  for (const auto& [frame, of_ranks] : *frames)
    for (const Version& version : by_lowest_rank(of_ranks)) {
      std::string name = file_name_of(frame.second);
      if (!frame.first.empty()) name += "." + file_name_of(frame.first);
      if (of_ranks.size() > 1) name += ".ranks-" + version.ranks.text();
      for (int again = 2; !taken.insert(name).second;
           ++again)  // frames whose file names would be equal
        name = fmt::format("{}.{}", name, again);
      const std::string path = (fs::path(directory) / (name + ".lsp")).string();
      if (auto written = write_program(path, version.program); !written) return written.error();
      lines.push_back(
          fmt::format("saved {} of {} in {}", frame.second, version.ranks.phrase(), path));
    }
  if (lines.empty()) lines.emplace_back("saved nothing: no frame was traced to its end");
  return lines;
}

}  // namespace lockstep::worker::cli
