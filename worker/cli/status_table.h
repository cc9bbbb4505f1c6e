// The status document for people.
#pragma once

#include <string>

namespace lockstep::worker::cli {

/// Jobs with what is wrong first. `document` is a lockstep.status/1 document; empty if it is none.
[[nodiscard]] std::string status_table(const std::string& document, bool colour);

}  // namespace lockstep::worker::cli
