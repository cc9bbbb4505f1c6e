#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/worker/cli/checks.h>

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
    const int code =
        run_program({name, "-shared", "-fPIC", "-o", object.string(), source.string()});
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
