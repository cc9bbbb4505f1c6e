#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/worker/agree/process/settings.h>
#include <lockstep/worker/cli/checks.h>

namespace lockstep::worker::cli {
namespace {

namespace fs = std::filesystem;

/// A temporary directory that is removed with its contents.
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
  const auto settings = Settings::from_environment();
  const std::string named = settings ? settings->compiler : "";
  const std::string compiler = named.empty() ? Settings().compiler_command() : named;
  const auto failed = [](std::string why) {
    return Check{"compiler", Check::Grade::Fail, std::move(why)};
  };
  const Scratch scratch;
  if (scratch.path().empty())
    return failed("no scratch directory can be made; point TMPDIR at a writable one");
  const fs::path source = scratch.path() / "probe.cpp", object = scratch.path() / "probe.so";
  std::ofstream(source) << "extern \"C\" int lockstep_doctor() { return 42; }\n";
  const int code =
      run_program({compiler, "-shared", "-fPIC", "-o", object.string(), source.string()});
  const bool missing = code < 0 || code == 127;
  if (missing && !named.empty())
    return failed(
        fmt::format("LOCKSTEP_CXX names {}, which cannot be started; unset it, or name a "
                    "C++ compiler that is there",
                    named));
  if (missing)
    return {"compiler", Check::Grade::Warn,
            fmt::format("there is no {} on PATH: kernels are interpreted, which is slower, by how "
                        "much is not known; install a C++ compiler or name one in LOCKSTEP_CXX",
                        compiler)};
  if (code != 0)
    return failed(fmt::format("{} does not build a shared object (exit code {})", compiler, code));
  if (std::string why; !loads(object, why))
    return failed(fmt::format("what {} builds cannot be loaded ({})", compiler, why));
  return {"compiler", Check::Grade::Ok, compiler + " builds shared objects that load"};
}

}  // namespace lockstep::worker::cli
