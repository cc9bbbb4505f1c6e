// Folders for this user only.
#pragma once

#include <filesystem>

namespace lockstep {

/// Makes the missing folders of the path with mode 0700: files that are executed are not trusted in
/// a folder of other users. Errors show when a file is written there.
void make_private_folder(const std::filesystem::path& folder);

}  // namespace lockstep
