// A call that is recorded: what a job does in place of CallDriver::call when there is a recorder.
#pragma once

#include <lockstep/worker/agreement/call_driver.h>
#include <lockstep/worker/agreement/record.h>

namespace lockstep::worker {

/// Takes the call to its end as CallDriver::call does, and writes observation, actions, what the
/// steps report and the outcome. A null recorder records nothing.
[[nodiscard]] CallOutcome recorded_call(Recorder* recorder, CallDriver& driver, const RoundKey& key,
                                        Frame& frame, Observation observation, Standing standing,
                                        CallSteps& steps);

/// The same for a call whose vote was cast ahead of it: CallDriver::take. It is written down as it
/// is made, so a replay sees no difference. `observation` is the one that was promised.
[[nodiscard]] CallOutcome recorded_take(Recorder* recorder, CallDriver& driver,
                                        const Observation& observation, CallSteps& steps);

}  // namespace lockstep::worker
