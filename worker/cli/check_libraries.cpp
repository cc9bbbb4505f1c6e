#include <array>
#include <string_view>

#include <dlfcn.h>
#include <fmt/format.h>

#include <lockstep/worker/cli/checks.h>

namespace lockstep::worker::cli {
namespace {

/// A library of the system, loaded for a moment.
class Library {
 public:
  explicit Library(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      handle_ = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
      if (handle_ != nullptr) return;
      const char* text = dlerror();
      if (why_.empty() && text != nullptr) why_ = text;
    }
  }
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <class Function>
  [[nodiscard]] Function find(const char* name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(handle_, name));
  }
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  void* handle_ = nullptr;
  std::string why_;
};

Check check_mpi() {
  if (!built_with_mpi())
    return {
        "mpi", Check::Grade::Warn,
        "not in this build: ranks meet over TCP, also where mpirun starts them; run-ranks starts "
        "them without it"};
  const Library mpi{"libmpi.so.40", "libmpi.so.12", "libmpi.so"};
  // Allowed before MPI_Init; 8192 is MPI_MAX_LIBRARY_VERSION_STRING of every known MPI or more.
  const auto version = mpi.find<int (*)(char*, int*)>("MPI_Get_library_version");
  if (version == nullptr)
    return {"mpi", Check::Grade::Warn,
            fmt::format("not found ({}); jobs of more than one process need it: run scripts/setup",
                        mpi.why())};
  std::array<char, 8192> text{};
  int length = 0;
  version(text.data(), &length);
  std::string_view line(text.data());
  line = line.substr(0, line.find_first_of(",\n"));
  return {"mpi", Check::Grade::Ok, std::string(line)};
}

Check check_cuda() {
  const Library driver{"libcuda.so.1"};
  const auto init = driver.find<int (*)(unsigned)>("cuInit");
  const auto count = driver.find<int (*)(int*)>("cuDeviceGetCount");
  const auto version = driver.find<int (*)(int*)>("cuDriverGetVersion");
  if (init == nullptr || count == nullptr || version == nullptr)
    return {"cuda", Check::Grade::Warn,
            fmt::format("no driver ({}); kernels run on the host", driver.why())};
  int devices = 0, number = 0;
  if (const int failed = init(0); failed != 0 || count(&devices) != 0 || devices == 0)
    return {"cuda", Check::Grade::Warn,
            fmt::format("the driver finds no device (error {}); kernels run on the host", failed)};
  version(&number);
  const Library compiler{"libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so.11.2", "libnvrtc.so"};
  const auto nvrtc = compiler.find<int (*)(int*, int*)>("nvrtcVersion");
  if (nvrtc == nullptr)
    return {"cuda", Check::Grade::Warn,
            fmt::format("{} devices, but no NVRTC ({}); kernels run on the host", devices,
                        compiler.why())};
  int major = 0, minor = 0;
  nvrtc(&major, &minor);
  return {"cuda", Check::Grade::Ok,
          fmt::format("{} device{}, driver {}.{}, NVRTC {}.{}", devices, devices == 1 ? "" : "s",
                      number / 1000, number % 1000 / 10, major, minor)};
}

Check check_nccl() {
  const Library nccl{"libnccl.so.2"};
  const auto version = nccl.find<int (*)(int*)>("ncclGetVersion");
  int number = 0;
  if (version == nullptr || version(&number) != 0)
    return {"nccl", Check::Grade::Warn,
            fmt::format("not found ({}); tensors travel by MPI", nccl.why())};
  return {"nccl", Check::Grade::Ok,
          fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100)};
}

}  // namespace

std::vector<Check> check_libraries() { return {check_mpi(), check_cuda(), check_nccl()}; }

}  // namespace lockstep::worker::cli
