// Makes a job's rank report to a coordinator: the configured one, else one that rank 0 hosts for
// its host. The job never waits for the coordinator, and its result does not depend on it.
#pragma once

#include <memory>
#include <string>

#include <lockstep/coordinator/client/feed.h>
#include <lockstep/worker/agree/process/log.h>
#include <lockstep/worker/agree/process/settings.h>
#include <lockstep/worker/agree/process/world.h>

namespace lockstep::worker {

/// Collective over the world, once per world: one broadcast, whatever the configuration. From then
/// on this rank reports until the world ends, unless another world of this process already reports.
/// Under MPI a verdict of the coordinator ends the job if it reaches this rank during a wait.
/// `configuration`: shown by the coordinator. Returns the feed for reports of calls; null: calls
/// are not reported. A failure of the coordinator is logged; it is no error of the job. Rank 0 logs
/// it under topic `info`. Other ranks log theirs under `debug`, because the coordinator reports
/// them, too. Errors: those of the broadcast.
[[nodiscard]] Result<std::shared_ptr<coordinator::Feed>> publish_progress(
    World& world, const Settings& settings, const Log& log, const std::string& build,
    const std::string& configuration);

}  // namespace lockstep::worker
