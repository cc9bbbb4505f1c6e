#include <lockstep/worker/agreement.h>

namespace lockstep::worker {

Agreement::Agreement(collectives::Communicator& group, std::string name, DecisionConfig config,
                     const Clock& clock)
    : group_(group), name_(std::move(name)), config_(config), clock_(clock) {}

Frame& Agreement::frame(std::string_view name) {
  const auto known = frames_.find(name);
  if (known != frames_.end()) return known->second;
  return frames_.emplace(name, Frame(std::string(name))).first->second;
}

Result<Agreed> Agreement::agree(std::string_view frame_name, Observation observation,
                                const Build& build, Standing standing) {
  Frame& frame = this->frame(frame_name);
  RoundKey key;
  key.group = name_;
  key.frame = frame_name;
  key.call = calls_++;
  CallMachine machine(group_.rank(), group_.size(), config_, std::move(key), frame,
                      std::move(observation), std::move(standing));
  CallHost host;
  host.trace = [&](const Decision& decision) {
    TraceReport report;
    Result<Built> built = build(static_cast<int>(frame.entries.size()), decision);
    if (built) {
      report.graph = report.collectives = built->program;
      report.guards = std::move(built->guards);
    } else {
      report.failure = built.error();
    }
    return report;
  };
  host.compile = [] { return std::optional<Status>(); };
  host.watch = watcher_;
  CallDriver driver(group_, machine, host, clock_);
  const CallOutcome& outcome = driver.run();
  times_ += driver.times();
  if (outcome.kind == CallOutcome::Kind::Error) return *outcome.error;
  if (outcome.kind == CallOutcome::Kind::Fallback)
    return Agreed{Agreed::Run::Fallback, -1, false, nullptr};
  return Agreed{Agreed::Run::Entry, outcome.entry, outcome.kind == CallOutcome::Kind::Compiled,
                &frame.entries[static_cast<std::size_t>(outcome.entry)].decision};
}

}  // namespace lockstep::worker
