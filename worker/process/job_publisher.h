// Has a job's rank report to a coordinator: the one that is configured, else one that rank 0 hosts
// for its host. The job never waits for it and comes to the same whether or not it is there.
#pragma once

#include <memory>
#include <string>

#include <lockstep/coordinator/client/feed.h>
#include <lockstep/worker/process/log.h>
#include <lockstep/worker/process/settings.h>
#include <lockstep/worker/process/world.h>

namespace lockstep::worker {

/// Collective, once per world, by every rank of it: one broadcast, whatever the configuration. From
/// here on this rank reports, until the world ends, unless another world of this process does; under
/// MPI it ends the job where the coordinator's verdict meets it in a wait. `configuration` is what
/// the coordinator shows of the job. What the calls tell goes into the result; null where nobody is
/// to hear of it. What is wrong with the coordinator is a line of the log, not an error of the job:
/// topic `info` for rank 0, `debug` for the others, for the coordinator says what is wrong with one.
/// Errors: those of the broadcast.
[[nodiscard]] Result<std::shared_ptr<coordinator::Feed>> publish_progress(
    World& world, const Settings& settings, const Log& log, const std::string& build,
    const std::string& configuration);

}  // namespace lockstep::worker
