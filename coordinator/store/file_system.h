// What kind of file system a directory lies on, as far as a database must know.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::coordinator {

/// True for the kinds, by their number in statfs(2), that are known to keep files on this host
/// alone. All others, unknown ones too, may be seen by several hosts.
[[nodiscard]] bool known_local(std::uint32_t kind);
/// Of the file system that holds `path`; false where it cannot be asked.
[[nodiscard]] bool on_local_file_system(const std::string& path);

}  // namespace lockstep::coordinator
