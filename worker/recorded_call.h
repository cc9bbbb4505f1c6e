// A call that is recorded: what a job does in place of CallDriver::call when there is a recorder.
#pragma once

#include <lockstep/worker/call_driver.h>
#include <lockstep/worker/record.h>

namespace lockstep::worker {

/// Takes the call to its end as CallDriver::call does, and writes observation, actions, what the
/// steps report and the outcome. A null recorder records nothing.
[[nodiscard]] CallOutcome recorded_call(Recorder* recorder, CallDriver& driver, const RoundKey& key,
                                        Frame& frame, Observation observation, Standing standing,
                                        CallSteps& steps);

}  // namespace lockstep::worker
