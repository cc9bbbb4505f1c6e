// A directory that only its user can read or write, for the stores. A directory that another user
// could have filled is refused, because the files are executed or steer a job.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <lockstep/collectives/base/status.h>

namespace lockstep::coordinator {

/// Keeps the directory open: operations through fd() stay within it, even if its path is renamed or
/// replaced. Movable; one thread per object.
class PrivateDirectory {
 public:
  /// Opens the directory; makes it with mode 0700 if it is missing (its parent must exist). `noun`
  /// ("artifact") and `danger` ("what is in it gets executed") are for messages. Errors:
  /// Environment (it cannot be made or opened, is a symbolic link, belongs to another user or is
  /// open to others).
  [[nodiscard]] static Result<PrivateDirectory> open(const std::string& path, std::string_view noun,
                                                     std::string_view danger);
  PrivateDirectory(PrivateDirectory&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), identity_(std::move(other.identity_)) {}
  PrivateDirectory& operator=(PrivateDirectory&&) = delete;
  ~PrivateDirectory();

  [[nodiscard]] int fd() const { return fd_; }
  /// "DEVICE:INODE on HOST": equal for two processes of one host only if they use the same
  /// directory.
  [[nodiscard]] const std::string& identity() const { return identity_; }

 private:
  PrivateDirectory(int fd, std::string identity) : fd_(fd), identity_(std::move(identity)) {}
  int fd_;
  std::string identity_;
};

/// The name of this host; "unknown" if it has none.
[[nodiscard]] std::string host_name();

}  // namespace lockstep::coordinator
