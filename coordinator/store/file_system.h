// Whether a directory is on a file system of this host alone, for databases.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::coordinator {

/// True: the kind of file system, by its number in statfs(2), is known to be local to one host.
/// False: several hosts may see it, or the kind is unknown.
[[nodiscard]] bool known_local(std::uint32_t kind);
/// known_local() of the file system of `path`; false if statfs fails.
[[nodiscard]] bool on_local_file_system(const std::string& path);

}  // namespace lockstep::coordinator
