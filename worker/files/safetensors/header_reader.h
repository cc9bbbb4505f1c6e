// Parses the JSON of a safetensors header by events: no tree of untrusted text is built.
#pragma once

#include <string_view>

#include <lockstep/worker/files/safetensors/header.h>

namespace lockstep::worker {

/// Returns the tensors in the order of the text. Their places are not yet compared with the file or
/// with each other. Errors: BadInput, naming file and tensor.
[[nodiscard]] Result<SafetensorsHeader> read_header_text(std::string_view text,
                                                         std::string_view file);

}  // namespace lockstep::worker
