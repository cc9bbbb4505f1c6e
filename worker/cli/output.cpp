#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/collectives/base/whole_file.h>
#include <lockstep/worker/cli/subcommand.h>

namespace lockstep::worker::cli {
namespace {

/// Blocks signals that end the process, while this object lives.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t ends;
    sigemptyset(&ends);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, signal);
    pthread_sigmask(SIG_BLOCK, &ends, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

Status not_written(std::string_view what, const std::string& path, int why) {
  return environment_error(
      fmt::format("{} cannot be written to {}: {}.", what, path, std::strerror(why)));
}

}  // namespace

std::string document_text(const nlohmann::ordered_json& document, int indent) {
  return document.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int print_result(std::string_view text, int code) {
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (whole && std::fflush(stdout) == 0) return code;
  return complain(
      std::string("the result could not be written to stdout (") + std::strerror(errno) + ").",
      kEnvironment);
}

int complain(std::string_view sentence, int code) {
  std::fprintf(stderr, "lockstep: %.*s\n", static_cast<int>(sentence.size()), sentence.data());
  return code;
}

int complain(const Status& failure) { return complain(failure.message, exit_code(failure.code)); }

Result<void> write_whole(std::string_view what, const std::string& path, std::string_view text,
                         unsigned mode) {
  std::error_code none;
  // A link is followed, and a device or pipe is written to: neither is replaced.
  const auto known = std::filesystem::canonical(path, none);
  const std::string file = none ? path : known.string();
  struct stat there {};
  const bool through = ::stat(file.c_str(), &there) == 0 && !S_ISREG(there.st_mode);
  if (through) {
    const OpenFile out(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
    if (out.is_open() && write_all(out.fd(), text)) return {};
    return not_written(what, path, errno);
  }
  const SignalsBlocked undisturbed;
  if (const auto fault = write_whole_file(file, text, {.mode = mode}))
    return not_written(what, path, fault->number);
  return {};
}

Result<void> writable(std::string_view what, const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path known = fs::canonical(path, none);
  const fs::path file = none ? fs::path(path) : known;
  const fs::file_status there = fs::status(file, none);
  if (fs::is_directory(there)) return not_written(what, path, EISDIR);
  const bool device = fs::exists(there) && !fs::is_regular_file(there);
  const fs::path needed = device ? file : file.has_parent_path() ? file.parent_path() : ".";
  if (!device && fs::exists(needed, none) && !fs::is_directory(needed, none))
    return not_written(what, path, ENOTDIR);
  if (::access(needed.c_str(), W_OK) != 0) return not_written(what, path, errno);
  return {};
}

bool part_of_record(const std::string& file, const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path place = fs::weakly_canonical(file, none);
  const std::string name = place.filename().string();
  return name.starts_with("rank-") && name.ends_with(".jsonl") &&
         fs::equivalent(place.parent_path(), directory, none);
}

bool colourful() {
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr && term != nullptr &&
         std::strcmp(term, "dumb") != 0;
}

}  // namespace lockstep::worker::cli
