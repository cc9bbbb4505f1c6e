// Says whether a directory is on a file system of this host alone; used for databases.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::coordinator {

/// True if `kind`, the number of a kind of file system in statfs(2), is known to be local to one
/// host. False: several hosts may see such a file system, or the kind is unknown.
[[nodiscard]] bool known_local(std::uint32_t kind);
/// known_local() of the file system of `path`; false if statfs fails.
[[nodiscard]] bool on_local_file_system(const std::string& path);

}  // namespace lockstep::coordinator
