// What a trace asks all workers (group_any, group_all), as bytes of a message, and one's answer.
#pragma once

#include <string>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/worker/exchange/decision.h>

namespace lockstep::worker {

/// "Does it hold on any worker?", of a trace under this decision. Errors: TraceError (it mentions
/// other values than sizes and ints of the inputs).
[[nodiscard]] Result<std::string> encode_question(const Decision& decision,
                                                  const shapes::Predicate& asked);
/// Whether it holds for what this worker has seen. Requires the decision's sources. Errors:
/// TraceError (these bytes are no question under that decision; there is no value).
[[nodiscard]] Result<bool> answer_question(const std::string& question, const Decision& decision,
                                           const Observation& seen);

}  // namespace lockstep::worker
