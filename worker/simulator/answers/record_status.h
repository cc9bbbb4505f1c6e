// A recorded job as a status document: what the status page shows of a job that runs, from what its
// ranks wrote down.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <lockstep/worker/simulator/answers/explain.h>
#include <lockstep/worker/simulator/input/record_reader.h>

namespace lockstep::worker::simulator {

/// A lockstep.status/1 document as the coordinator's core makes it, told by the record. A record
/// holds no host, no process and no nodes of graphs: in place of a graph's text stand its guards.
/// `watchdog`: the report of a watchdog, may be empty. Errors: BadInput (more ranks than are
/// watched; a record that is no longer what it was).
[[nodiscard]] Result<std::string> record_status(const std::vector<RankRecord>& ranks,
                                                const Explanation& explanation,
                                                const std::string& directory,
                                                const std::string& watchdog,
                                                std::string_view version, std::string_view made);

}  // namespace lockstep::worker::simulator
