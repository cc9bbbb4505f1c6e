#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/worker/files/safetensors/descriptor.h>

namespace lockstep::worker {

Status file_error(const char* what, const std::string& file) {
  return environment_error(fmt::format("cannot {} {}: {}.", what, file, std::strerror(errno)));
}

Status file_error(const FileFault& fault, const std::string& file) {
  return environment_error(fmt::format("cannot {} {}: {}.", fault.step, file, fault.reason()));
}

bool is_full(const Status& error) {
  return std::ranges::any_of(std::array{ENOSPC, EDQUOT}, [&](int number) {
    return error.message.find(std::strerror(number)) != std::string::npos;
  });
}

Result<void> read_at(const OpenFile& from, std::uint64_t offset, std::span<std::byte> into,
                     const std::string& file) {
  while (!into.empty()) {
    const ssize_t got = ::pread(from.fd(), into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("read", file);
    if (got == 0) return bad_input(fmt::format("{}: it became shorter while it was read.", file));
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<void> sync_folder(const std::string& folder) {
  const OpenFile opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open()) return file_error("open the folder", folder);
  if (::fsync(opened.fd()) != 0) return file_error("flush the folder", folder);
  return {};
}

}  // namespace lockstep::worker
