// Recorded job as a status document: the content of the status page, from the records of its ranks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <lockstep/worker/simulator/answers/explain.h>
#include <lockstep/worker/simulator/input/record_reader.h>

namespace lockstep::worker::simulator {

/// Document lockstep.status/1 that the coordinator's core makes from the record. A record has no
/// host, no process and no nodes of graphs: guards replace a graph's text. `watchdog` is the report
/// of a watchdog and may be empty. Errors: BadInput (more ranks than a page shows; a record that
/// has changed).
[[nodiscard]] Result<std::string> record_status(const std::vector<RankRecord>& ranks,
                                                const Explanation& explanation,
                                                const std::string& directory,
                                                const std::string& watchdog,
                                                std::string_view version, std::string_view made);

}  // namespace lockstep::worker::simulator
