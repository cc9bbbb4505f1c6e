#include <algorithm>
#include <array>
#include <compare>
#include <optional>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>

#include <lockstep/collectives/base/cuda_library.h>

namespace lockstep {

namespace fs = std::filesystem;

// Used in this file only; not in an unnamed namespace, since CudaSearch has members of these types.
struct CudaVersion {
  int major = 0, minor = 0, patch = 0;
  auto operator<=>(const CudaVersion&) const = default;
};

/// Properties of a kind of library.
struct CudaTraits {
  const char* name;         // in messages, before the version
  const char* stem;         // file name, up to the major version
  std::vector<int> majors;  // major versions of the file, the newest first
  CudaVersion oldest;       // oldest version that fits; zero: any of `majors`
  bool of_driver;           // its major version is CUDA's, which the driver has to support
  const char* companion;    // library that it needs from its folder: file name up to the version
  const char* wheel;        // Python package
  int parts;                // number of parts of the version in messages

  [[nodiscard]] std::string file(int major) const { return fmt::format("{}{}", stem, major); }
};

namespace {

using Version = CudaVersion;
using Traits = CudaTraits;

const Traits& traits(CudaLibrary::Kind kind) {
  static const std::array<Traits, 4> all{{
      {"NVIDIA driver of CUDA", "libcuda.so.", {1}, {12, 0}, false, "", "", 2},
      {"NVRTC", "libnvrtc.so.", {13, 12}, {}, true, "libnvrtc-builtins.so.", "cuda-nvrtc", 2},
      {"cuBLAS", "libcublas.so.", {13, 12}, {}, true, "libcublasLt.so.", "cublas", 3},
      {"NCCL", "libnccl.so.", {2}, {2, 18}, false, "", "nccl", 3},
  }};
  return all[static_cast<std::size_t>(kind)];
}

/// Splits the one number in which the driver and NCCL report a version.
Version split(CudaLibrary::Kind kind, int number) {
  if (kind == CudaLibrary::Kind::Driver) return {number / 1000, number % 1000 / 10, 0};
  const int major = number < 10'000 ? 1000 : 10'000;  // before 2.9, and since
  return {number / major, number % major / 100, number % 100};
}

/// Version of a library; nullopt: the library does not report it.
std::optional<Version> version_of(CudaLibrary::Kind kind, SharedLibrary library) {
  Version out;
  if (kind == CudaLibrary::Kind::Nvrtc) {
    int (*ask)(int*, int*) = nullptr;
    library.find(ask, "nvrtcVersion");
    if (ask == nullptr || ask(&out.major, &out.minor) != 0) return std::nullopt;
    return out;
  }
  if (kind == CudaLibrary::Kind::Cublas) {
    int (*ask)(int, int*) = nullptr;  // first argument: the part, 0 to 2
    library.find(ask, "cublasGetProperty");
    if (ask == nullptr || ask(0, &out.major) != 0 || ask(1, &out.minor) != 0 ||
        ask(2, &out.patch) != 0)
      return std::nullopt;
    return out;
  }
  int (*ask)(int*) = nullptr;
  int number = 0;
  library.find(ask, kind == CudaLibrary::Kind::Driver ? "cuDriverGetVersion" : "ncclGetVersion");
  if (ask == nullptr || ask(&number) != 0) return std::nullopt;
  return split(kind, number);
}

std::string text_of(const Version& version, int parts) {
  std::string out = fmt::format("{}.{}", version.major, version.minor);
  return parts < 3 ? out : fmt::format("{}.{}", out, version.patch);
}

/// The text of CudaLibrary::text().
std::string text_of(CudaLibrary::Kind kind, const SharedLibrary& library) {
  const Traits& is = traits(kind);
  const auto version = version_of(kind, library);
  return fmt::format("{} {} ({})", is.name,
                     version ? text_of(*version, is.parts) : "of an unknown version",
                     library.path());
}

/// The wheel as an argument of pip install. Since CUDA 13 the names of some wheels have no version
/// number.
std::string wheel(CudaLibrary::Kind kind, int major) {
  if (major < 13 || kind == CudaLibrary::Kind::Nccl)
    return fmt::format("nvidia-{}-cu{}", traits(kind).wheel, major);
  return fmt::format("\"nvidia-{}=={}.*\"", traits(kind).wheel, major);
}

}  // namespace

/// One search for one library.
class CudaSearch {
 public:
  CudaSearch(CudaLibrary::Kind kind, const CudaPlaces& places)
      : kind_(kind), is_(traits(kind)), places_(places) {}

  Result<CudaLibrary> run() {
    std::vector<int> fitting = is_.majors, newer;
    if (const auto driver = is_.of_driver ? driver_version() : std::nullopt) {
      const auto runs = [&](int major) { return major <= driver->major; };
      newer.assign(fitting.begin(), std::ranges::find_if(fitting, runs));
      std::erase_if(fitting, [&](int major) { return !runs(major); });
    }
    if (const auto found = first_of(fitting)) return CudaLibrary(kind_, *found);
    if (!flaw_.empty()) return refused(flaw_);
    if (auto found = first_of(newer)) return refused(too_new(*found));
    return refused(missing(fitting));
  }

 private:
  static Status refused(std::string why) { return environment_error(std::move(why)); }

  /// The driver's version of CUDA; nullopt: no driver reports one. Loads the driver.
  [[nodiscard]] std::optional<Version> driver_version() const {
    const auto driver = CudaLibrary::open(CudaLibrary::Kind::Driver, places_);
    return driver ? version_of(CudaLibrary::Kind::Driver, driver->library_) : std::nullopt;
  }

  std::optional<SharedLibrary> first_of(const std::vector<int>& majors) {
    if (places_.loader)
      for (const int major : majors)
        if (auto found = by_name(is_.file(major))) return found;
    const std::vector<fs::path> folders = kind_ == CudaLibrary::Kind::Driver
                                              ? std::vector{places_.driver_folder()}
                                              : places_.folders();
    for (const int major : majors)
      for (const fs::path& folder : folders)
        if (auto found = in(folder, major)) return found;
    return std::nullopt;
  }

  std::optional<SharedLibrary> by_name(const std::string& name) {
    SharedLibrary library({name.c_str()});
    if (library.loaded()) return fitting(library);
    // A message that begins with the name says that the loader found no such file. Any other
    // message is about a file that exists but cannot be loaded, or about a library that this file
    // needs.
    if (!library.why().starts_with(name + ": "))
      note(cannot_be_loaded(library));
    else if (absence_.empty())
      absence_ = library.why();
    return std::nullopt;
  }

  std::optional<SharedLibrary> in(const fs::path& folder, int major) {
    const fs::path file = folder / is_.file(major);
    std::error_code failed;
    if (!fs::exists(file, failed)) return std::nullopt;
    load_companions(folder, major);
    SharedLibrary library({file.c_str()});
    if (library.loaded()) return fitting(library);
    note(cannot_be_loaded(library));
    return std::nullopt;
  }

  /// Loads the library's companions first. The library then finds them by name, even if it does not
  /// search its own folder.
  void load_companions(const fs::path& folder, int major) {
    if (*is_.companion == '\0') return;
    const std::string name = fmt::format("{}{}", is_.companion, major);
    std::error_code failed;
    for (fs::directory_iterator at(folder, failed), end; !failed && at != end;
         at.increment(failed)) {
      const std::string file = at->path().filename();
      if (file == name || file.starts_with(name + ".")) SharedLibrary({at->path().c_str()});
    }
  }

  std::optional<SharedLibrary> fitting(SharedLibrary& library) {
    if (is_.oldest == Version{}) return library;
    const auto version = version_of(kind_, library);
    if (!version || *version >= is_.oldest) return library;
    note(fmt::format("{} is too old; {}", text_of(kind_, library), what_to_install()));
    library.drop();
    return std::nullopt;
  }

  /// Keeps the first flaw, for the error.
  void note(std::string flaw) {
    if (flaw_.empty()) flaw_ = std::move(flaw);
  }

  std::string cannot_be_loaded(const SharedLibrary& library) const {
    return fmt::format("{} cannot be loaded ({}); {}",
                       kind_ == CudaLibrary::Kind::Driver ? "the NVIDIA driver" : is_.name,
                       library.why(), what_to_install());
  }

  std::string too_new(SharedLibrary& library) const {
    const auto driver = driver_version(), its = version_of(kind_, library);
    const std::string what = text_of(kind_, library);
    library.drop();
    return fmt::format(
        "{} is too new for the NVIDIA driver, which has CUDA {}; {}, or a driver of CUDA {}", what,
        text_of(driver.value_or(Version{}), 2), what_to_install(),
        its ? its->major : is_.majors.front());
  }

  std::string missing(const std::vector<int>& majors) const {
    const std::string why = absence_.empty() ? "" : fmt::format(" ({})", absence_);
    if (kind_ == CudaLibrary::Kind::Driver)
      return "there is no NVIDIA driver on this machine" + why;
    const std::string of =
        is_.of_driver ? fmt::format(" of CUDA {}", fmt::join(majors, " or ")) : "";
    return fmt::format("there is no {}{} in {}, in {} or among Python's packages{}; {}", is_.name,
                       of, (places_.local / "cuda*").string(), places_.driver_folder().string(),
                       why, what_to_install());
  }

  std::string what_to_install() const {
    if (kind_ == CudaLibrary::Kind::Driver) return "install NVIDIA's driver of CUDA 12 or newer";
    const int newest = traits(CudaLibrary::Kind::Cublas).majors.front();
    const auto driver = driver_version();
    const int major = driver ? std::min(driver->major, newest) : newest;
    const std::string what = is_.of_driver
                                 ? fmt::format("the CUDA toolkit {}", major)
                                 : fmt::format("{} {} or newer", is_.name, text_of(is_.oldest, 2));
    return fmt::format("install {} (or pip install {})", what, wheel(kind_, major));
  }

  const CudaLibrary::Kind kind_;
  const CudaTraits& is_;
  const CudaPlaces& places_;
  std::string flaw_;     // why a library that was found does not fit
  std::string absence_;  // the loader's message if no library was found
};

Result<CudaLibrary> CudaLibrary::open(Kind kind, const CudaPlaces& places) {
  return CudaSearch(kind, places).run();
}

std::string CudaLibrary::text() const { return text_of(kind_, library_); }

std::string CudaLibrary::flaw() const {
  if (library_.lacks().empty()) return {};
  return fmt::format("{} has no {}; install it anew, or another one", text(), library_.lacks());
}

}  // namespace lockstep
