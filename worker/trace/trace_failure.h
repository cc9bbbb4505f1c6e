// How a round inside a trace that failed leaves the user's function. Internal to the tracer's files.
#pragma once

#include <lockstep/collectives/base/status.h>

namespace lockstep::worker {

/// The group could not answer; the trace ends with that status as it is.
struct GroupFailure {
  Status status;
};

}  // namespace lockstep::worker
