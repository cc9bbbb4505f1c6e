// The document for `lockstep dump` ("lockstep.dump/1"): every rank of every job by itself, as last
// seen.
#pragma once

#include <string>

#include <lockstep/coordinator/service/service.h>

namespace lockstep::coordinator {

/// JSON with one line for each rank.
[[nodiscard]] std::string dump_document(const Service& service, Instant now);

}  // namespace lockstep::coordinator
