// Stands for any of CUDA's libraries, copied to where a test wants it under that library's name. A
// major is that of its file's name. The driver's version comes from FAKE_CUDA_VERSION, that of NCCL
// from the file NAME.version beside it; where there is none it does not say.
#include <cstdlib>
#include <fstream>
#include <string>

#include <dlfcn.h>

namespace {

std::string own_path() {
  Dl_info info{};
  return ::dladdr(reinterpret_cast<void*>(&own_path), &info) == 0 ? "" : info.dli_fname;
}

int own_major() {
  const std::string path = own_path();
  return std::atoi(path.c_str() + path.rfind(".so.") + 4);
}

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  const char* set = std::getenv("FAKE_CUDA_VERSION");
  if (set == nullptr) return 1;
  *version = std::atoi(set);
  return 0;
}
int cuInit(unsigned) { return std::getenv("FAKE_CUDA_DEVICES") == nullptr ? 100 : 0; }
int cuDeviceGetCount(int* count) {
  *count = std::atoi(std::getenv("FAKE_CUDA_DEVICES"));
  return 0;
}

int nvrtcVersion(int* major, int* minor) {
  *major = own_major();
  *minor = 7;
  return 0;
}

int cublasGetProperty(int which, int* value) {
  *value = which == 0 ? own_major() : which;
  return 0;
}

int ncclGetVersion(int* version) {
  std::ifstream file(own_path() + ".version");
  return file >> *version ? 0 : 1;
}

}  // extern "C"
