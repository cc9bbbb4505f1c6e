// Has a job's rank report to a coordinator, where one is configured. The job never waits for it and
// comes to the same whether or not it is there.
#pragma once

#include <memory>
#include <string>

#include <lockstep/worker/log.h>
#include <lockstep/worker/settings.h>
#include <lockstep/worker/world.h>

namespace lockstep::worker {

/// What reports from here on until it is destroyed, which must be before the board; null where it
/// cannot start. Requires that a coordinator is configured. What is wrong with it is a line of the
/// log, not an error of the job: topic `info` for rank 0, `debug` for the others, for the
/// coordinator says what is wrong with one.
[[nodiscard]] std::shared_ptr<void> publish_progress(const World& world, const Settings& settings,
                                                     const Log& log, const std::string& build);

}  // namespace lockstep::worker
