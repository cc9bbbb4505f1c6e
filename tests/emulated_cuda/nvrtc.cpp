// The emulated NVRTC: text for CUDA as functions of this processor (cuda_on_host.h), built by the
// host compiler.
#include <algorithm>
#include <array>
#include <cstring>
#include <regex>
#include <string>

#include "calls.h"
#include "module.h"
#include <nvrtc.h>

#include <lockstep/worker/compile/toolchain/host_toolchain.h>

namespace lockstep::emulated_cuda {
namespace {

constexpr std::array kArchitectures{75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

struct Compilation {
  std::string text, log;
  Bytes object;
};

Compilation& of(nvrtcProgram program) { return *reinterpret_cast<Compilation*>(program); }

Result<std::unique_ptr<worker::HostToolchain>> open_toolchain() {
  worker::HostToolchain::Options options;
#ifdef __SANITIZE_ADDRESS__
  options.flags.insert(options.flags.end(),
                       {"-fsanitize=address,undefined", "-fno-sanitize-recover=all"});
#endif
  options.flags.emplace_back("-O1");
  return worker::HostToolchain::open(options);
}

/// The kernels' names, and beside each an entry for the driver.
std::string entries(const std::string& text) {
  static const std::regex kernel(R"(__launch_bounds__\(\d+\)\s+(\w+)\s*\()");
  std::string out;
  for (std::sregex_iterator at(text.begin(), text.end(), kernel), end; at != end;) {
    const std::string name = (*at)[1];
    const auto from = static_cast<std::size_t>(at->position());
    ++at;
    const auto to = at == end ? text.size() : static_cast<std::size_t>(at->position());
    const bool barriers = text.substr(from, to - from).find("__syncthreads") != std::string::npos;
    out += "extern \"C\" const int parameters_" + name + "[2] = {cuda_on_host::pointers(" + name +
           "), cuda_on_host::parameters(" + name +
           ")};\n"
           "extern \"C\" const char* accesses_" +
           name +
           "() {\n"
           "  static constexpr auto all = cuda_on_host::accesses(" +
           name +
           ");\n"
           "  return all.data();\n}\n"
           "extern \"C\" int run_" +
           name +
           "(void* const* p, long blocks) {\n"
           "  return cuda_on_host::launch(" +
           name + (barriers ? ", true" : ", false") +
           ", p, reinterpret_cast<const long*>(p + parameters_" + name +
           "[0]), blocks, false);\n}\n";
  }
  return out;
}

/// Empty: the flag means nothing here. Only what is asked for in earnest is known.
std::string architecture_of(int count, const char* const* flags, bool& known) {
  std::string architecture;
  known = true;
  for (int i = 0; i < count; ++i) {
    const std::string flag = flags[i], option = "--gpu-architecture=";
    if (flag.starts_with(option))
      architecture = flag.substr(option.size());
    else
      known = known && (flag == "--std=c++17" || flag == "--fmad=false");
  }
  known = known && std::ranges::any_of(kArchitectures, [&](int number) {
            return architecture == "sm_" + std::to_string(number);
          });
  return architecture;
}

nvrtcResult compile(Compilation& compilation, const std::string& architecture) {
  const auto toolchain = open_toolchain();
  if (!toolchain) {
    compilation.log = toolchain.error().message;
    return NVRTC_ERROR_INTERNAL_ERROR;
  }
  const std::string text =
      "#include \"" CUDA_ON_HOST "\"\n#line 1\n" + compilation.text + entries(compilation.text);
  const auto built = (*toolchain)->build(text);
  if (!built) {
    compilation.log = built.error().message;
    return built.error().code == Code::CompileError ? NVRTC_ERROR_COMPILATION
                                                    : NVRTC_ERROR_INTERNAL_ERROR;
  }
  ObjectHeader header{};
  std::memcpy(header.magic, ObjectHeader::kMagic, sizeof header.magic);
  architecture.copy(header.architecture, sizeof header.architecture - 1);
  header.bytes = built->size();
  const auto* start = reinterpret_cast<const std::byte*>(&header);
  compilation.object.assign(start, start + sizeof header);
  compilation.object.insert(compilation.object.end(), built->begin(), built->end());
  return NVRTC_SUCCESS;
}

}  // namespace
}  // namespace lockstep::emulated_cuda

using namespace lockstep::emulated_cuda;

/// No version that there is, so that no artifact of this is ever taken for one of NVRTC's.
nvrtcResult nvrtcVersion(int* major, int* minor) {
  if (told_to_fail("nvrtcVersion")) return NVRTC_ERROR_INTERNAL_ERROR;
  *major = EMULATED_MAJOR;
  *minor = 999;
  return NVRTC_SUCCESS;
}

const char* nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
    case NVRTC_SUCCESS:
      return "NVRTC_SUCCESS";
    case NVRTC_ERROR_INVALID_OPTION:
      return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION:
      return "NVRTC_ERROR_COMPILATION";
    default:
      return "NVRTC_ERROR_INTERNAL_ERROR";
  }
}

nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  if (told_to_fail("nvrtcGetNumSupportedArchs")) return NVRTC_ERROR_INTERNAL_ERROR;
  *count = static_cast<int>(kArchitectures.size());
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int* architectures) {
  if (told_to_fail("nvrtcGetSupportedArchs")) return NVRTC_ERROR_INTERNAL_ERROR;
  std::ranges::copy(kArchitectures, architectures);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* text, const char*, int headers,
                               const char* const*, const char* const*) {
  if (told_to_fail("nvrtcCreateProgram") || headers != 0) return NVRTC_ERROR_INTERNAL_ERROR;
  *program = reinterpret_cast<nvrtcProgram>(new Compilation{text, {}, {}});
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete &of(*program);
  *program = nullptr;
  return told_to_fail("nvrtcDestroyProgram") ? NVRTC_ERROR_INTERNAL_ERROR : NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* flags) {
  if (told_to_fail("nvrtcCompileProgram")) return NVRTC_ERROR_INTERNAL_ERROR;
  bool known = false;
  const std::string architecture = architecture_of(count, flags, known);
  return known ? compile(of(program), architecture) : NVRTC_ERROR_INVALID_OPTION;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, std::size_t* size) {
  if (told_to_fail("nvrtcGetProgramLogSize")) return NVRTC_ERROR_INTERNAL_ERROR;
  *size = of(program).log.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  if (told_to_fail("nvrtcGetProgramLog")) return NVRTC_ERROR_INTERNAL_ERROR;
  std::strcpy(log, of(program).log.c_str());
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, std::size_t* size) {
  if (told_to_fail("nvrtcGetCUBINSize")) return NVRTC_ERROR_INTERNAL_ERROR;
  *size = of(program).object.size();
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin) {
  if (told_to_fail("nvrtcGetCUBIN")) return NVRTC_ERROR_INTERNAL_ERROR;
  std::ranges::copy(of(program).object, reinterpret_cast<std::byte*>(cubin));
  return NVRTC_SUCCESS;
}
