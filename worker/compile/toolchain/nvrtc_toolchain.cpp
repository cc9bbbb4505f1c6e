#include <algorithm>
#include <charconv>
#include <ctime>

#include <fmt/format.h>
#include <nvrtc.h>

#include <lockstep/collectives/base/cuda_library.h>
#include <lockstep/worker/compile/toolchain/nvrtc_toolchain.h>

namespace lockstep::worker {
namespace {

/// The library's functions. The library stays loaded: NVRTC has threads and caches of its own.
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

/// Finds the functions. Returns what is wrong; empty on success.
std::string find_nvrtc(Nvrtc& nvrtc) {
  auto opened = CudaLibrary::open(CudaLibrary::Kind::Nvrtc);
  if (!opened) return opened.error().message;
  CudaLibrary& library = *opened;
  library.find(nvrtc.version, "nvrtcVersion");
  library.find(nvrtc.error_string, "nvrtcGetErrorString");
  library.find(nvrtc.architecture_count, "nvrtcGetNumSupportedArchs");
  library.find(nvrtc.architectures, "nvrtcGetSupportedArchs");
  library.find(nvrtc.create, "nvrtcCreateProgram");
  library.find(nvrtc.compile, "nvrtcCompileProgram");
  library.find(nvrtc.destroy, "nvrtcDestroyProgram");
  library.find(nvrtc.log_size, "nvrtcGetProgramLogSize");
  library.find(nvrtc.log, "nvrtcGetProgramLog");
  library.find(nvrtc.cubin_size, "nvrtcGetCUBINSize");
  library.find(nvrtc.cubin, "nvrtcGetCUBIN");
  return library.flaw();
}

/// Returns the first line with an error, else the first line.
std::string first_error(const std::string& log) {
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
      return environment_error(
          fmt::format("NVRTC {}.{} on rank {} makes no kernels for {}; it knows sm_{}", major,
                      minor, options_.rank.value, name, fmt::join(known, ", sm_")));
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
    // Only an error in the text is the same on every rank.
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
      return checked(result, "nvrtcCompileProgram", first_error(log_of(program))).error();
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

  /// Returns the log, or the error of reading it.
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
  if (const std::string why = find_nvrtc(nvrtc); !why.empty())
    return environment_error(fmt::format("rank {} cannot load NVRTC for {}: {}", options.rank.value,
                                         options.architecture, why));
  auto toolchain = std::make_unique<NvrtcToolchain>(nvrtc, std::move(options));
  if (auto done = toolchain->identify(); !done) return done.error();
  return toolchain;
}

}  // namespace lockstep::worker
