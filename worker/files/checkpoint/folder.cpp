#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/collectives/base/number_text.h>
#include <lockstep/worker/files/checkpoint/folder.h>

namespace lockstep::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step-", kSaving = ".saving-", kOlder = ".older-";

Status folder_error(const std::string& what, const std::error_code& error) {
  return environment_error(fmt::format("cannot {}: {}.", what, error.message()));
}

Result<void> remove_folder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return folder_error("remove " + path, error);
  return {};
}

Result<void> write_index(const std::string& saving, int world_size, const StageObserver& at) {
  std::vector<RankFile> files;
  for (int rank = 0; rank < world_size; ++rank) {
    auto file = read_rank_file(fmt::format("{}/{}", saving, rank_file_name(rank)));
    if (!file) return file.error();
    files.push_back(std::move(*file));
  }
  const auto index = make_index(files);
  if (!index) return index.error();
  const std::string text = index_text(*index);
  const std::string path = fmt::format("{}/{}", saving, kIndexName);
  DraftFile file(path, {.draft = path + ".tmp"});
  if (!file.write(text)) return file_error(*file.fault(), path);
  at(CheckpointStage::IndexWritten);
  if (!file.flush()) return file_error(*file.fault(), path);
  at(CheckpointStage::IndexSynced);
  if (!file.name() || !file.flush_folder()) return file_error(*file.fault(), path);
  at(CheckpointStage::IndexNamed);
  return {};
}

/// Renames `from` to `to` in one step. A folder that was at `to` is then at `from`.
Result<void> name_checkpoint(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
  const bool there = errno == EEXIST || ::access(to.c_str(), F_OK) == 0;
  if (there && ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0)
    return {};
  // Some file systems support plain renames only.
  if (!there && ::rename(from.c_str(), to.c_str()) == 0) return {};
  if (there)
    return environment_error(
        fmt::format("there is a checkpoint {} already, and this file system cannot swap "
                    "two folders; move it away, or save to another folder.",
                    to));
  return file_error("name the checkpoint", to);
}

}  // namespace

std::string step_folder_name(std::int64_t step) { return fmt::format("{}{:06}", kStep, step); }

std::optional<std::int64_t> step_of_folder(const std::string& name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  const auto step = number_in<std::int64_t>(std::string_view(name).substr(kStep.size()));
  return step && *step >= 0 && step_folder_name(*step) == name ? step : std::nullopt;
}

Result<std::vector<FoundCheckpoint>> list_checkpoints(const std::string& folder) {
  std::error_code error;
  const auto kind = fs::status(folder, error).type();
  if (kind != fs::file_type::directory)
    return bad_input(fmt::format("{}: there is no such folder of checkpoints.", folder));
  std::vector<FoundCheckpoint> out;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (const auto step = step_of_folder(at->path().filename().string()))
      out.push_back({*step, at->path().string()});
  if (error) return folder_error("list the folder " + folder, error);
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return out;
}

std::string saving_folder(const std::string& folder, std::int64_t step, const std::string& name) {
  return fmt::format("{}/{}{:06}-{}", folder, kSaving, step, name);
}

Result<void> make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return folder_error("make the folder " + folder, error);
  return {};
}

Result<void> remove_leftovers(const std::string& folder) {
  std::vector<std::string> left;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(kSaving) || name.starts_with(kOlder)) left.push_back(at->path().string());
  }
  if (error) return folder_error("list the folder " + folder, error);
  for (const std::string& path : left)
    if (auto gone = remove_folder(path); !gone) return gone;
  return {};
}

Result<void> remove_older(const std::string& folder, int keep, const StageObserver& at) {
  if (keep == 0) return {};
  const auto all = list_checkpoints(folder);
  if (!all) return all.error();
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < all->size(); ++i) {
    // Renamed first, so that a half-removed folder does not have a checkpoint's name.
    const std::string away = fmt::format("{}/{}{:06}", folder, kOlder, (*all)[i].step);
    if (auto gone = remove_folder(away); !gone) return gone;
    if (::rename((*all)[i].folder.c_str(), away.c_str()) != 0)
      return file_error("remove", (*all)[i].folder);
    at(CheckpointStage::OlderUnnamed);
    if (auto gone = remove_folder(away); !gone) return gone;
    at(CheckpointStage::OlderRemoved);
  }
  return {};
}

Result<void> commit_checkpoint(const std::string& folder, const std::string& saving,
                               std::int64_t step, int world_size, int keep,
                               const StageObserver& at) {
  if (auto written = write_index(saving, world_size, at); !written) return written;
  const std::string named = fmt::format("{}/{}", folder, step_folder_name(step));
  if (auto done = name_checkpoint(saving, named); !done) return done;
  at(CheckpointStage::Committed);
  if (auto synced = sync_folder(folder); !synced) return synced;
  at(CheckpointStage::CommittedSynced);
  auto gone = remove_folder(saving);  // the checkpoint that it replaced, if any
  if (gone) gone = remove_older(folder, keep, at);
  if (gone) return {};
  Status why = gone.error();
  why.message = "it is saved, but older ones stay: " + why.message;
  return why;
}

}  // namespace lockstep::worker
