// The status document as text.
#pragma once

#include <string>

namespace lockstep::worker::cli {

/// Returns the table of jobs; what is wrong with a job comes first. Empty if `document` is not a
/// lockstep.status/1 document.
[[nodiscard]] std::string status_table(const std::string& document, bool colour);

}  // namespace lockstep::worker::cli
