#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <lockstep/worker/agree/process/settings.h>
#include <lockstep/worker/cli/checks.h>

namespace lockstep::worker::cli {
namespace {

namespace fs = std::filesystem;

constexpr rlim_t kFilesWanted = 1024;
constexpr std::uint64_t kMebibyte = 1024 * 1024;
constexpr std::uint64_t kSharedMebibytesWanted = 64;

/// Checks the cache directory by writing a file in it, or in its nearest existing parent.
Check check_cache() {
  const auto settings = Settings::from_environment();
  if (!settings) return {"cache directory", Check::Grade::Fail, settings.error().message};
  const fs::path wanted = settings->cache_dir;
  std::error_code error;
  fs::path at = fs::absolute(wanted, error);
  while (!fs::exists(at, error) && at.has_relative_path()) at = at.parent_path();
  std::string probe = (at / "lockstep-doctor-XXXXXX").string();
  const int fd = mkstemp(probe.data());
  if (fd < 0)
    return {"cache directory", Check::Grade::Fail,
            fmt::format("{} cannot be written ({}); set LOCKSTEP_CACHE_DIR to a directory that can",
                        wanted.string(), std::strerror(errno))};
  const bool written = ::write(fd, "x", 1) == 1;
  const int why = errno;
  ::close(fd);
  ::unlink(probe.c_str());
  if (!written)
    return {"cache directory", Check::Grade::Fail,
            fmt::format("{} takes no bytes ({}); free some space or set LOCKSTEP_CACHE_DIR",
                        wanted.string(), std::strerror(why))};
  return {"cache directory", Check::Grade::Ok,
          at == wanted ? wanted.string() + " is writable" : wanted.string() + " can be made"};
}

Check check_files() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < kFilesWanted)
    return {"open files", Check::Grade::Warn,
            fmt::format("at most {} per process, {} are better: ulimit -n {}", limit.rlim_cur,
                        kFilesWanted, kFilesWanted)};
  return {"open files", Check::Grade::Ok,
          limit.rlim_cur == RLIM_INFINITY ? "no limit"
                                          : fmt::format("at most {} per process", limit.rlim_cur)};
}

Check check_shared_memory() {
  struct statvfs about {};
  if (statvfs("/dev/shm", &about) != 0)
    return {"shared memory", Check::Grade::Fail,
            fmt::format("/dev/shm cannot be looked at ({}); ranks of one host meet there: mount it",
                        std::strerror(errno))};
  const std::uint64_t free = std::uint64_t{about.f_bavail} * about.f_frsize / kMebibyte;
  if (free < kSharedMebibytesWanted)
    return {"shared memory", Check::Grade::Warn,
            fmt::format("{} MiB free in /dev/shm, {} are better: remove leftovers or enlarge it",
                        free, kSharedMebibytesWanted)};
  return {"shared memory", Check::Grade::Ok, fmt::format("{} MiB free in /dev/shm", free)};
}

}  // namespace

std::vector<Check> check_limits() { return {check_cache(), check_files(), check_shared_memory()}; }

std::vector<Check> check_machine() {
  std::vector<Check> checks{check_compiler()};
  for (Check& check : check_libraries()) checks.push_back(std::move(check));
  checks.push_back(check_mpi_order());
  for (Check& check : check_limits()) checks.push_back(std::move(check));
  return checks;
}

}  // namespace lockstep::worker::cli
