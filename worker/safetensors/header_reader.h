// The JSON of a safetensors header, by its events: no tree of untrusted text is built.
#pragma once

#include <string_view>

#include <lockstep/worker/safetensors/header.h>

namespace lockstep::worker {

/// Tensors as they are written, in the order of the text; where they lie has not been compared with
/// the file or with each other. Errors: BadInput, naming file and tensor.
[[nodiscard]] Result<SafetensorsHeader> read_header_text(std::string_view text,
                                                         std::string_view file);

}  // namespace lockstep::worker
