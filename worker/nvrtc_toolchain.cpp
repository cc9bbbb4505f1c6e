#include <algorithm>
#include <charconv>
#include <ctime>

#include <dlfcn.h>
#include <fmt/format.h>
#include <nvrtc.h>

#include <lockstep/worker/nvrtc_toolchain.h>

namespace lockstep::worker {
namespace {

/// The library, loaded for the life of the process: NVRTC keeps threads and caches of its own. It
/// is not linked, so that programs start where it is not installed.
struct Nvrtc {
  decltype(&nvrtcVersion) version = nullptr;
  decltype(&nvrtcGetErrorString) error_string = nullptr;
  decltype(&nvrtcGetNumSupportedArchs) architecture_count = nullptr;
  decltype(&nvrtcGetSupportedArchs) architectures = nullptr;
  decltype(&nvrtcCreateProgram) create = nullptr;
  decltype(&nvrtcCompileProgram) compile = nullptr;
  decltype(&nvrtcDestroyProgram) destroy = nullptr;
  decltype(&nvrtcGetProgramLogSize) log_size = nullptr;
  decltype(&nvrtcGetProgramLog) log = nullptr;
  decltype(&nvrtcGetCUBINSize) cubin_size = nullptr;
  decltype(&nvrtcGetCUBIN) cubin = nullptr;
};

/// Null and a reason where it cannot be loaded whole.
bool load(Nvrtc& nvrtc, std::string& why) {
  void* handle = nullptr;
  for (const char* name : {LOCKSTEP_NVRTC_SONAME, LOCKSTEP_NVRTC_PATH}) {
    handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
    if (why.empty()) why = ::dlerror();
  }
  if (handle == nullptr) return false;
  const auto find = [&]<class Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(handle, name));
    if (function == nullptr) why = fmt::format("it has no {}", name);
    return function != nullptr;
  };
  return find(nvrtc.version, "nvrtcVersion") && find(nvrtc.error_string, "nvrtcGetErrorString") &&
         find(nvrtc.architecture_count, "nvrtcGetNumSupportedArchs") &&
         find(nvrtc.architectures, "nvrtcGetSupportedArchs") &&
         find(nvrtc.create, "nvrtcCreateProgram") && find(nvrtc.compile, "nvrtcCompileProgram") &&
         find(nvrtc.destroy, "nvrtcDestroyProgram") &&
         find(nvrtc.log_size, "nvrtcGetProgramLogSize") && find(nvrtc.log, "nvrtcGetProgramLog") &&
         find(nvrtc.cubin_size, "nvrtcGetCUBINSize") && find(nvrtc.cubin, "nvrtcGetCUBIN");
}

/// The first line that says what is wrong, else the first line.
std::string gist(const std::string& log) {
  const auto error = log.find("error");
  const auto from = error == std::string::npos ? 0 : log.rfind('\n', error) + 1;
  return log.substr(from, log.find('\n', from) - from);
}

std::chrono::microseconds thread_cpu() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

class NvrtcToolchain final : public Toolchain {
 public:
  NvrtcToolchain(Nvrtc nvrtc, NvrtcOptions options) : nvrtc_(nvrtc), options_(std::move(options)) {}

  Result<void> identify() {
    int major = 0, minor = 0, count = 0;
    if (auto done = checked(nvrtc_.version(&major, &minor), "nvrtcVersion"); !done) return done;
    if (auto done = checked(nvrtc_.architecture_count(&count), "nvrtcGetNumSupportedArchs"); !done)
      return done;
    std::vector<int> known(static_cast<std::size_t>(count));
    if (auto done = checked(nvrtc_.architectures(known.data()), "nvrtcGetSupportedArchs"); !done)
      return done;
    const std::string& name = options_.architecture;
    int number = 0;
    const bool named =
        name.starts_with("sm_") &&
        std::from_chars(name.data() + 3, name.data() + name.size(), number).ec == std::errc();
    if (!named || std::ranges::count(known, number) == 0)
      return Status{Code::Environment,
                    fmt::format("NVRTC {}.{} on rank {} makes no kernels for {}; it knows sm_{}",
                                major, minor, options_.rank.value, name, fmt::join(known, ", sm_")),
                    {},
                    {}};
    identity_ = fmt::format("NVRTC {}.{}\n{}\n", major, minor, name);
    for (const std::string& flag : options_.flags) identity_ += flag + "\n";
    return {};
  }

  [[nodiscard]] const std::string& identity() const override { return identity_; }
  [[nodiscard]] BuildCost cost() const override { return cost_; }

  Result<Bytes> build(std::string_view text) override {
    const auto start = thread_cpu();
    nvrtcProgram program = nullptr;
    if (auto made = checked(
            nvrtc_.create(&program, std::string(text).c_str(), "kernels.cu", 0, nullptr, nullptr),
            "nvrtcCreateProgram");
        !made)
      return made.error();
    auto out = compile(program);
    const auto destroyed = checked(nvrtc_.destroy(&program), "nvrtcDestroyProgram");
    ++cost_.compiles;
    cost_.cpu += thread_cpu() - start;
    if (out && !destroyed) return destroyed.error();
    return out;
  }

 private:
  Result<void> checked(nvrtcResult result, std::string_view call, std::string_view log = {}) const {
    if (result == NVRTC_SUCCESS) return {};
    // Only a complaint about the text is the same on every rank.
    const Code code = result == NVRTC_ERROR_COMPILATION ? Code::CompileError : Code::Environment;
    return Status{code,
                  fmt::format("{} failed on rank {} for {}: {}{}{}", call, options_.rank.value,
                              options_.architecture, nvrtc_.error_string(result),
                              log.empty() ? "" : ": ", log),
                  {},
                  {}};
  }

  Result<Bytes> compile(nvrtcProgram program) {
    std::vector<const char*> flags;
    const std::string architecture = "--gpu-architecture=" + options_.architecture;
    flags.push_back(architecture.c_str());
    for (const std::string& flag : options_.flags) flags.push_back(flag.c_str());
    const nvrtcResult result =
        nvrtc_.compile(program, static_cast<int>(flags.size()), flags.data());
    if (result != NVRTC_SUCCESS)
      return checked(result, "nvrtcCompileProgram", gist(log_of(program))).error();
    std::size_t size = 0;
    if (auto done = checked(nvrtc_.cubin_size(program, &size), "nvrtcGetCUBINSize"); !done)
      return done.error();
    Bytes out(size);
    if (auto done =
            checked(nvrtc_.cubin(program, reinterpret_cast<char*>(out.data())), "nvrtcGetCUBIN");
        !done)
      return done.error();
    return out;
  }

  /// What cannot be read is said in its place.
  std::string log_of(nvrtcProgram program) const {
    std::size_t size = 0;
    if (auto done = checked(nvrtc_.log_size(program, &size), "nvrtcGetProgramLogSize"); !done)
      return done.error().message;
    std::string log(size, '\0');
    if (auto done = checked(nvrtc_.log(program, log.data()), "nvrtcGetProgramLog"); !done)
      return done.error().message;
    return log.substr(0, log.find('\0'));
  }

  Nvrtc nvrtc_;
  NvrtcOptions options_;
  std::string identity_;
  BuildCost cost_;
};

}  // namespace

Result<std::unique_ptr<Toolchain>> open_nvrtc(NvrtcOptions options) {
  Nvrtc nvrtc;
  std::string why;
  if (!load(nvrtc, why))
    return Status{Code::Environment,
                  fmt::format("rank {} cannot load NVRTC for {}: {}; install the CUDA toolkit",
                              options.rank.value, options.architecture, why),
                  {},
                  {}};
  auto toolchain = std::make_unique<NvrtcToolchain>(nvrtc, std::move(options));
  if (auto done = toolchain->identify(); !done) return done.error();
  return toolchain;
}

}  // namespace lockstep::worker
