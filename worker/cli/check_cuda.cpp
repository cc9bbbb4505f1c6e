#include <fmt/format.h>

#include <lockstep/collectives/base/cuda_library.h>
#include <lockstep/worker/cli/checks.h>

namespace lockstep::worker::cli {
namespace {

Check warning(const char* name, const std::string& what, const char* means) {
  return {name, Check::Grade::Warn, what + "; " + means};
}

Check check_driver(const CudaPlaces& places) {
  constexpr const char* kMeans =
      "jobs with Processor::Cuda cannot run here, programs run on the host";
  auto driver = CudaLibrary::open(CudaLibrary::Kind::Driver, places);
  if (!driver) return warning("cuda", driver.error().message, kMeans);
  int (*init)(unsigned) = nullptr;
  int (*count)(int*) = nullptr;
  driver->find(init, "cuInit");
  driver->find(count, "cuDeviceGetCount");
  if (const std::string flaw = driver->flaw(); !flaw.empty()) return warning("cuda", flaw, kMeans);
  int devices = 0, failed = init(0);
  if (failed == 0) failed = count(&devices);
  if (failed != 0 || devices == 0)
    return warning("cuda", fmt::format("{} finds no device (error {})", driver->text(), failed),
                   kMeans);
  return {"cuda", Check::Grade::Ok,
          fmt::format("{} device{}, {}", devices, devices == 1 ? "" : "s", driver->text())};
}

Check check_library(const char* name, CudaLibrary::Kind kind, const CudaPlaces& places,
                    const char* means) {
  const auto library = CudaLibrary::open(kind, places);
  if (!library) return warning(name, library.error().message, means);
  return {name, Check::Grade::Ok, library->text()};
}

}  // namespace

std::vector<Check> check_cuda(const CudaPlaces& places) {
  return {check_driver(places),
          check_library("nvrtc", CudaLibrary::Kind::Nvrtc, places,
                        "jobs with Processor::Cuda cannot build kernels here"),
          check_library("cublas", CudaLibrary::Kind::Cublas, places,
                        "jobs with Processor::Cuda cannot run here")};
}

}  // namespace lockstep::worker::cli
