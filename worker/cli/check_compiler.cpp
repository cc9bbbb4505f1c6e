#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/worker/cli/checks.h>

extern char** environ;

namespace lockstep::worker::cli {
namespace {

namespace fs = std::filesystem;

/// A directory of its own that vanishes with its contents.
class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "lockstep-doctor-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Runs a program found on PATH, its output thrown away. -1: it could not be started.
int run(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

bool loads(const fs::path& object, std::string& why) {
  void* handle = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    why = dlerror();
    return false;
  }
  using Answer = int (*)();
  const auto answer = reinterpret_cast<Answer>(dlsym(handle, "lockstep_doctor"));
  const bool good = answer != nullptr && answer() == 42;
  if (!good) why = "the function in it does not answer";
  dlclose(handle);
  return good;
}

}  // namespace

Check check_compiler() {
  Check check{"compiler", Check::Grade::Fail, {}};
  const Scratch scratch;
  if (scratch.path().empty()) {
    check.detail = "no scratch directory can be made; point TMPDIR at a writable one";
    return check;
  }
  const fs::path source = scratch.path() / "probe.cpp", object = scratch.path() / "probe.so";
  std::ofstream(source) << "extern \"C\" int lockstep_doctor() { return 42; }\n";
  std::vector<std::string> names{"c++", "g++", "clang++"};
  if (const char* chosen = std::getenv("CXX"); chosen != nullptr && *chosen != 0)
    names.insert(names.begin(), chosen);
  for (const std::string& name : names) {
    const int code = run({name, "-shared", "-fPIC", "-o", object.string(), source.string()});
    if (code < 0 || code == 127) continue;
    std::string why;
    if (code != 0)
      check.detail = fmt::format("{} does not build a shared object (exit code {})", name, code);
    else if (!loads(object, why))
      check.detail = fmt::format("what {} builds cannot be loaded ({})", name, why);
    else
      return {"compiler", Check::Grade::Ok, name + " builds shared objects that load"};
    return check;
  }
  check.detail = "no C++ compiler on PATH (tried c++, g++, clang++); run scripts/setup, or set CXX";
  return check;
}

}  // namespace lockstep::worker::cli
