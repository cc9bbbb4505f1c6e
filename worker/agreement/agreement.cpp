#include <utility>

#include <lockstep/worker/agreement/agreement.h>
#include <lockstep/worker/agreement/promise.h>

namespace lockstep::worker {
namespace {

/// What ranks that compile the same have in common; where they have no guards, the program alone.
shapes::Fingerprint with_guards(const Built& built) {
  if (built.guards.empty()) return built.program;
  shapes::FingerprintBuilder builder;
  builder.add(built.program);
  for (const shapes::Guard& guard : built.guards) builder.add(guard.predicate.text());
  return builder.finish();
}

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
      report.graph = with_guards(*built);
      report.collectives = built->program;
      report.caller_built = true;
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

Result<void> Rounds::resync(const std::string& group, Standing standing) {
  const auto met = driver.resync(group, epoch, std::move(standing));
  if (!met) return met.error();
  epoch = *met;
  calls = 0;
  return {};
}

Agreement::Agreement(collectives::Communicator& group, std::string name, DecisionConfig config)
    : own_rounds_(std::make_unique<Rounds>(group)),
      rounds_(*own_rounds_),
      name_(std::move(name)),
      config_(config) {}

Agreement::Agreement(Rounds& rounds, std::string name, DecisionConfig config)
    : rounds_(rounds), name_(std::move(name)), config_(config) {}

Frame& Agreement::frame(std::string_view name) {
  const auto known = frames_.find(name);
  if (known != frames_.end()) return known->second;
  Frame& made = frames_.emplace(name, Frame(std::string(name))).first->second;
  made.own_config = config_;
  return made;
}

bool Agreement::is_ahead(std::string_view frame) const {
  const auto known = frames_.find(frame);
  return known != frames_.end() && driver().is_ahead(known->second);
}

bool Agreement::abandon() {
  bool out = false;
  for (const auto& [name, frame] : frames_) out |= driver().abandon(frame);
  begin_next();
  return out;
}

RoundKey Agreement::key_of(std::string_view frame, RoundKey::Kind kind) const {
  RoundKey key;
  key.epoch = rounds_.epoch;
  key.group = name_;
  key.frame = frame;
  key.call = rounds_.calls;
  key.kind = kind;
  return key;
}

const RoundKey& Agreement::next_round(std::string_view frame, RoundKey::Kind kind) {
  key_ = key_of(frame, kind);
  ++rounds_.calls;
  return key_;
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
  BuildSteps steps(build, this->frame(frame_name), config_);
  return agree(frame_name, std::move(observation), steps, std::move(standing));
}

Result<Agreed> Agreement::agree(std::string_view frame_name, Observation observation,
                                CallSteps& steps, Standing standing) {
  Frame& frame = this->frame(frame_name);
  if (store_ != nullptr) profile(frame_name).restore(frame, observation);
  const bool ahead = driver().is_ahead(frame);
  if (ahead) key_ = driver().ahead_key();
  if (auto why = broken(frame, observation, standing)) {
    if (ahead) return forsake(*why);
    standing.trouble = std::move(why);
  }
  CallOutcome outcome;
  if (ahead) {
    outcome = driver().take(steps, watcher_);
  } else {
    if (!standing.trouble) standing.trouble = std::exchange(trouble_, std::nullopt);
    outcome = driver().call(next_round(frame_name, RoundKey::Kind::Call), frame,
                            std::move(observation), std::move(standing), steps, watcher_);
  }
  begin_next();
  return agreed(outcome, frame);
}

Status Agreement::forsake(const Status& why) {
  const auto unheard = driver().forsake(why);
  if (!unheard) return unheard.error();
  trouble_ = why;
  return why;
}

std::optional<Status> Agreement::broken(const Frame& frame, const Observation& observation,
                                        const Standing& standing) const {
  const Observation* promised = driver().promised(frame);
  if (promised == nullptr) return std::nullopt;
  if (standing.trouble) return standing.trouble;
  if (auto differs = broken_promise(frame, *promised, observation)) return differs;
  if (!driver().is_ahead(frame) || standing.pending == 0) return std::nullopt;
  return Status{Code::BadInput,
                frame.name +
                    " was prefetched, but is called with asserts or agreed values pending; settle "
                    "them before the prefetch",
                {},
                {}};
}

Result<Agreed> Agreement::agreed(const CallOutcome& outcome, Frame& frame) {
  if (outcome.kind == CallOutcome::Kind::Error) return *outcome.error;
  if (outcome.kind == CallOutcome::Kind::Compiled && store_ != nullptr)
    profile(frame.name).keep(frame);
  if (outcome.kind == CallOutcome::Kind::Fallback)
    return Agreed{Agreed::Run::Fallback, -1, false, nullptr};
  return Agreed{Agreed::Run::Entry, outcome.entry, outcome.kind == CallOutcome::Kind::Compiled,
                &frame.entries[static_cast<std::size_t>(outcome.entry)].decision};
}

void Agreement::prefetch(std::string_view frame_name, Observation observation, Standing standing) {
  if (store_ != nullptr) profile(frame_name).restore(frame(frame_name), observation);
  if (!standing.trouble) standing.trouble = trouble_;
  driver().promise(key_of(frame_name, RoundKey::Kind::Call), frame(frame_name),
                   std::move(observation), std::move(standing));
  begin_next();
}

void Agreement::begin_next() {
  if (driver().due()) driver().begin(rounds_.calls++);
}

Result<bool> Agreement::more(bool have) {
  return driver().any(next_round({}, RoundKey::Kind::More), have,
                      {.pending = 0, .trouble = std::exchange(trouble_, std::nullopt)});
}

Result<void> Agreement::settle(Standing standing, RoundKey::Kind kind) {
  if (!standing.trouble) standing.trouble = std::exchange(trouble_, std::nullopt);
  return driver().status_round(next_round({}, kind), standing);
}

Result<void> Agreement::resync() {
  key_ = key_of({}, RoundKey::Kind::Resync);
  auto met = rounds_.resync(name_);
  if (met) trouble_.reset();
  return met;
}

Result<Audited> Agreement::audit(std::string_view frame, AuditedCall own) {
  if (!own.trouble) own.trouble = std::exchange(trouble_, std::nullopt);
  AuditOutcome outcome =
      driver().audit(next_round(frame, RoundKey::Kind::Audit), ledger_, std::move(own));
  if (outcome.error) return *outcome.error;
  return Audited{outcome.times, std::move(outcome.finding)};
}

}  // namespace lockstep::worker
