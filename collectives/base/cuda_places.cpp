#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include <lockstep/collectives/base/cuda_places.h>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Folders = std::vector<fs::path>;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void add(Folders& folders, const fs::path& folder) {
  std::error_code failed;
  if (fs::is_directory(folder, failed) && std::ranges::find(folders, folder) == folders.end())
    folders.push_back(folder);
}

/// The entries of a folder whose names begin with `prefix`, sorted. Empty if it cannot be read.
Folders entries(const fs::path& folder, std::string_view prefix) {
  Folders out;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    if (at->path().filename().string().starts_with(prefix)) out.push_back(at->path());
  std::ranges::sort(out);
  return out;
}

/// The numbers in a file's name: 12 and 8 of "cuda-12.8".
std::vector<int> version(const fs::path& file) {
  std::vector<int> out;
  bool within = false;
  for (const char c : file.filename().string()) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (digit && !within) out.push_back(0);
    if (digit && out.back() < 100'000) out.back() = out.back() * 10 + (c - '0');
    within = digit;
  }
  return out;
}

void newest_first(Folders& folders) {
  std::ranges::stable_sort(folders, std::ranges::greater{}, version);
}

/// Adds the toolkits, each once: "cuda" is most often a link to another of them.
void add_toolkits(Folders& out, const fs::path& local) {
  Folders toolkits;
  for (const fs::path& entry : entries(local, "cuda")) {
    std::error_code failed;
    if (const fs::path real = fs::canonical(entry, failed); !failed) add(toolkits, real);
  }
  newest_first(toolkits);
  for (const fs::path& toolkit : toolkits)
    for (const char* folder : {"lib64", "targets/x86_64-linux/lib"}) add(out, toolkit / folder);
}

/// Wheels of CUDA have their libraries in nvidia/cuda_nvrtc/lib, nvidia/cu13/lib and so on.
void add_wheels(Folders& out, const fs::path& prefix) {
  if (prefix.empty()) return;
  Folders pythons = entries(prefix / "lib", "python3");
  newest_first(pythons);
  for (const fs::path& python : pythons)
    for (const char* packages : {"site-packages", "dist-packages"})
      for (const fs::path& wheel : entries(python / packages / "nvidia", ""))
        add(out, wheel / "lib");
}

/// The first python3 in the folders of `programs`; empty: not found.
fs::path python_of(std::string_view programs) {
  while (!programs.empty()) {
    const auto length = std::min(programs.find(':'), programs.size());
    const fs::path folder(programs.substr(0, length));
    std::error_code failed;
    if (!folder.empty() && fs::exists(folder / "python3", failed))
      return fs::absolute(folder / "python3", failed).lexically_normal();
    programs.remove_prefix(std::min(length + 1, programs.size()));
  }
  return {};
}

}  // namespace

CudaPlaces CudaPlaces::here() {
  CudaPlaces places;
  places.programs = variable("PATH");
  places.virtual_environment = variable("VIRTUAL_ENV");
  places.conda = variable("CONDA_PREFIX");
  places.home = variable("HOME");
  return places;
}

std::vector<fs::path> CudaPlaces::folders() const {
  Folders out;
  add_toolkits(out, local);
  add(out, driver_folder());
  if (const fs::path python = python_of(programs); !python.empty()) {
    add_wheels(out, python.parent_path().parent_path());
    std::error_code failed;
    add_wheels(out, fs::canonical(python, failed).parent_path().parent_path());
  }
  for (const fs::path& prefix : {virtual_environment, conda}) add_wheels(out, prefix);
  if (!home.empty()) add_wheels(out, home / ".local");
  add_wheels(out, local);
  return out;
}

}  // namespace lockstep
