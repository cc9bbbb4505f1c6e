// A question of a trace to all workers (group_any, group_all) as bytes, and a worker's answer.
#pragma once

#include <string>

#include <lockstep/shapes/expr/guard.h>
#include <lockstep/worker/agree/exchange/decision.h>

namespace lockstep::worker {

/// Encodes "does `asked` hold on any worker?" for a trace under this decision. Errors: TraceError
/// (it mentions values other than sizes and ints of the inputs).
[[nodiscard]] Result<std::string> encode_question(const Decision& decision,
                                                  const shapes::Predicate& asked);
/// Returns whether the predicate of `question` holds for this worker's observation. Errors:
/// TraceError (the bytes are not a question under this decision; the observation has other sources;
/// the predicate has no value).
[[nodiscard]] Result<bool> answer_question(const std::string& question, const Decision& decision,
                                           const Observation& seen);

}  // namespace lockstep::worker
