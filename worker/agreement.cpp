#include <lockstep/worker/agreement.h>

namespace lockstep::worker {
namespace {

/// The caller's build as the steps of a call: it traces and compiles in one. Nothing is built for a
/// call past the recompile limit, which every rank knows alike.
class BuildSteps final : public CallSteps {
 public:
  BuildSteps(const Agreement::Build& build, const Frame& frame, const DecisionConfig& config)
      : build_(build),
        entry_(static_cast<int>(frame.entries.size())),
        falls_back_(frame.at_limit(config)) {}

  Result<TraceReport> trace(const Decision& decision) override {
    TraceReport report;
    if (falls_back_) return report;
    Result<Built> built = build_(entry_, decision);
    if (built) {
      report.graph = report.collectives = built->program;
      report.guards = std::move(built->guards);
    } else {
      report.failure = built.error();
    }
    return report;
  }
  std::string explain(std::size_t) override { return {}; }
  std::optional<Status> compile() override { return std::nullopt; }

 private:
  const Agreement::Build& build_;
  int entry_;
  bool falls_back_;
};

}  // namespace

Agreement::Agreement(collectives::Communicator& group, std::string name, DecisionConfig config)
    : driver_(group, config), name_(std::move(name)) {}

Frame& Agreement::frame(std::string_view name) {
  const auto known = frames_.find(name);
  if (known != frames_.end()) return known->second;
  return frames_.emplace(name, Frame(std::string(name))).first->second;
}

void Agreement::use_profiles(coordinator::ProfileStore& store, bool keeps,
                             FrameProfile::Report report) {
  store_ = &store;
  keeps_ = keeps;
  report_ = report ? std::move(report) : [](const Status&) {};
}

void Agreement::identify(std::string_view frame, const shapes::Fingerprint& content) {
  contents_.insert_or_assign(std::string(frame), content);
}

FrameProfile& Agreement::profile(std::string_view frame) {
  const auto known = profiles_.find(frame);
  if (known != profiles_.end()) return known->second;
  const auto content = contents_.find(frame);
  const coordinator::FrameKey key{
      std::string(frame), content == contents_.end() ? shapes::Fingerprint{} : content->second};
  return profiles_.emplace(frame, FrameProfile(store_, key, keeps_, report_)).first->second;
}

Result<Agreed> Agreement::agree(std::string_view frame_name, Observation observation,
                                const Build& build, Standing standing) {
  Frame& frame = this->frame(frame_name);
  if (store_ != nullptr) profile(frame_name).restore(frame, observation);
  RoundKey key;
  key.group = name_;
  key.frame = frame_name;
  key.call = calls_++;
  BuildSteps steps(build, frame, driver_.config());
  const CallOutcome outcome =
      driver_.call(key, frame, std::move(observation), std::move(standing), steps, watcher_);
  if (outcome.kind == CallOutcome::Kind::Error) return *outcome.error;
  if (outcome.kind == CallOutcome::Kind::Compiled && store_ != nullptr)
    profile(frame_name).keep(frame);
  if (outcome.kind == CallOutcome::Kind::Fallback)
    return Agreed{Agreed::Run::Fallback, -1, false, nullptr};
  return Agreed{Agreed::Run::Entry, outcome.entry, outcome.kind == CallOutcome::Kind::Compiled,
                &frame.entries[static_cast<std::size_t>(outcome.entry)].decision};
}

Result<Audited> Agreement::audit(std::string_view frame, AuditedCall own) {
  RoundKey key;
  key.group = name_;
  key.frame = frame;
  key.call = calls_++;
  AuditOutcome outcome = driver_.audit(key, ledger_, std::move(own));
  if (outcome.error) return *outcome.error;
  return Audited{outcome.times, std::move(outcome.finding)};
}

}  // namespace lockstep::worker
