// Folders for this user only.
#pragma once

#include <filesystem>

namespace lockstep {

/// Makes those that are missing, with mode 0700: other users' would not be trusted by those who
/// execute what they find there. What is wrong with it shows where a file is written.
void make_private_folder(const std::filesystem::path& folder);

}  // namespace lockstep
