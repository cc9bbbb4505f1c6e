// Folders for this user only.
#pragma once

#include <filesystem>

namespace lockstep {

/// Makes the missing folders of the path with mode 0700, since files in another user's folder are
/// not trusted to be executed. Reports no error: writing a file there will fail.
void make_private_folder(const std::filesystem::path& folder);

}  // namespace lockstep
