// The comparison of a call of an audited frame.
#include <utility>

#include <lockstep/worker/job/frame_state.h>

namespace lockstep::worker {

/// Compares what this rank is about to run, or its error (`about_to_run` null), with the group.
/// Returns the joint error, if any. A finding is logged, and the call goes on.
std::optional<Status> FrameRunner::audit(const Compiled* about_to_run, const Observation& seen) {
  State& frame = *state_;
  JobContext& job = frame.job;
  AuditedCall own{.observation = seen};
  if (about_to_run != nullptr) {
    own.program = about_to_run->fingerprint;
    own.collectives = about_to_run->collectives.empty()
                          ? shapes::Fingerprint{}
                          : shapes::fingerprint(about_to_run->collectives);
    own.collectives_text = about_to_run->collectives;
    own.is_new = last_.kind == CallOutcome::Kind::Compiled;
    if (last_.entry >= 0)
      own.program_text =
          decision_text(frame.cache().entries[static_cast<std::size_t>(last_.entry)].decision);
  } else {
    own.local_error = last_.error;
  }
  const RoundKey& key =
      frame.over.rounds->next(frame.over.round(RoundKey::Kind::Audit, frame.cache().name));
  job.note(key.text());
  AuditOutcome outcome = frame.over.driver().audit(key, frame.findings, std::move(own));
  const Result<void> well = outcome.error ? Result<void>(*outcome.error) : Result<void>();
  if (job.recorder != nullptr) job.recorder->round(key, well);
  if (outcome.finding && outcome.times == 1 && frame.over.data->rank().value == 0)
    job.log.line("info", "lockstep: audit: " + outcome.finding->text());
  return std::move(outcome.error);
}

}  // namespace lockstep::worker
