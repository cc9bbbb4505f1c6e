#include "restart.h"

#include <filesystem>

#include <fmt/format.h>

namespace lockstep::fuzz {
namespace {

void age(Values& values) {
  for (auto& [name, value] : values) {
    if (name == "y") value = {.kind = worker::Kind::Int, .number = 5};
    for (std::size_t d = 0; d < value.sizes.size(); ++d)
      value.sizes[d] += static_cast<std::int64_t>(d) + 2;
  }
}

/// Cuts every file to half its length, but for what processes that have a database open share as
/// memory.
void damage(const std::string& directory) {
  for (const auto& file : std::filesystem::directory_iterator(directory))
    if (file.is_regular_file() && !file.path().string().ends_with("-shm"))
      std::filesystem::resize_file(file.path(), std::filesystem::file_size(file.path()) / 2);
}

}  // namespace

Program earlier_run(const Program& program, bool other) {
  Program past = program;
  past.faults.clear();
  past.starts.clear();
  past.hosts.clear();
  for (GroupPlan& group : past.groups) group.builds = false;
  for (std::size_t s = 0; other && s < past.steps.size(); ++s)
    for (std::size_t r = 0; r < past.steps[s].inputs.size(); ++r)
      if ((s + r) % 2 == 0) age(past.steps[s].inputs[r]);
  return past;
}

ProfileDisk::ProfileDisk(const Program& program, Start start, const LeftProfiles& same,
                         const LeftProfiles& other, const std::string& directory) {
  stores_.resize(program.groups.size());
  for (std::size_t g = 0; g < stores_.size(); ++g) {
    auto opened = coordinator::ProfileStore::open(
        {directory, fmt::format("group {}", g), [](const Status&) {}});
    if (!opened) continue;
    stores_[g] = std::move(*opened);
    for (const auto& [key, profile] : start == Start::Other ? other : same)
      if (key.first == g && start != Start::Fresh)
        (void)stores_[g]->store({key.second, {}}, profile);
  }
  if (start == Start::Damaged) damage(directory);
}

coordinator::ProfileStore* ProfileDisk::store(std::size_t group) { return stores_[group].get(); }

}  // namespace lockstep::fuzz
