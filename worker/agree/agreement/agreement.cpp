#include <utility>

#include <lockstep/worker/agree/agreement/agreement.h>

namespace lockstep::worker {
namespace {

/// Fingerprint of the program with its guards and uniform sizes; if it has neither, that of the
/// program alone.
shapes::Fingerprint with_needs(const Built& built) {
  if (built.guards.empty() && built.uniform.empty()) return built.program;
  shapes::FingerprintBuilder builder;
  builder.add(built.program);
  for (const shapes::Guard& guard : built.guards) builder.add(guard.predicate.text());
  for (const UniformSize& size : built.uniform) builder.add(size.expr.text());
  return builder.finish();
}

/// Fingerprint that same_collectives compares. Guards may differ; uniform sizes may not, because
/// all ranks must take part in the vote about them.
shapes::Fingerprint with_uniform(const Built& built) {
  if (built.uniform.empty()) return built.program;
  return with_needs({.program = built.program, .guards = {}, .uniform = built.uniform});
}

/// The caller's build as the steps of a call: trace() does the whole build. Past the recompile
/// limit, which all ranks reach together, nothing is built.
class BuildSteps final : public CallSteps {
 public:
  /// `past_limit` receives the decision of a call past the limit.
  BuildSteps(const Agreement::Build& build, const CodeCache& cache, const DecisionConfig& config,
             std::optional<Decision>& past_limit)
      : build_(build),
        past_limit_(past_limit),
        entry_(static_cast<int>(cache.entries.size())),
        falls_back_(cache.at_limit(config)),
        shared_sizes_(config.consistency == Consistency::SharedSizes) {}

  Result<TraceReport> trace(const Decision& decision) override {
    TraceReport report;
    if (falls_back_) past_limit_ = decision;
    if (falls_back_) return report;
    Result<Built> built = build_(entry_, decision);
    if (built && built->ended) return *built->ended;
    if (built && shared_sizes_ && !built->uniform.empty())
      built = bad_input(
          "uniform sizes cannot be compared under shared_sizes, where a size may be a "
          "number on one rank and a symbol on another; use another consistency");
    if (built) {
      report.graph = with_needs(*built);
      report.collectives = with_uniform(*built);
      report.caller_built = true;
      report.guards = std::move(built->guards);
      report.uniform = std::move(built->uniform);
    } else {
      report.failure = built.error();
    }
    return report;
  }
  std::string explain(std::size_t) override { return {}; }
  std::optional<Status> compile() override { return std::nullopt; }

 private:
  const Agreement::Build& build_;
  std::optional<Decision>& past_limit_;
  int entry_;
  bool falls_back_;
  bool shared_sizes_;
};

}  // namespace

Agreement::Agreement(collectives::Communicator& group, std::string name, DecisionConfig config)
    : own_rounds_(std::make_unique<GroupRounds>(group)),
      rounds_(*own_rounds_),
      name_(std::move(name)),
      config_(config) {}

Agreement::Agreement(GroupRounds& rounds, std::string name, DecisionConfig config, int number)
    : rounds_(rounds), name_(std::move(name)), config_(config), number_(number) {}

Agreement::Known& Agreement::known(std::string_view frame) {
  const auto made = frames_.find(frame);
  if (made != frames_.end()) return made->second;
  Known& first =
      frames_.emplace(frame, Known{FrameAgreement(rounds_, round(RoundKey::Kind::Call, frame))})
          .first->second;
  first.calls.cache().own_config = config_;
  first.calls.cache().agreement = number_;
  return first;
}

bool Agreement::is_ahead(std::string_view frame) const {
  const auto found = frames_.find(frame);
  return found != frames_.end() && found->second.calls.is_ahead();
}

bool Agreement::abandon() {
  std::vector<const CodeCache*> caches;
  for (const auto& [name, frame] : frames_) caches.push_back(&frame.calls.cache());
  return rounds_.abandon(caches);
}

void Agreement::use_profiles(coordinator::ProfileStore& store, bool keeps,
                             FrameProfile::Report report, Restored restored) {
  store_ = &store;
  restored_ = std::move(restored);
  keeps_ = keeps;
  report_ = report ? std::move(report) : [](const Status&) {};
}

void Agreement::identify(std::string_view frame, const shapes::Fingerprint& content) {
  known(frame).content = content;
}

void Agreement::restore(Known& frame, const Observation& observation) {
  if (store_ == nullptr) return;
  if (!std::exchange(frame.profiled, true)) {
    coordinator::FrameKey key{frame.calls.cache().name, frame.content};
    if (!profiles_as_.empty())
      key.content = shapes::FingerprintBuilder().add(frame.content).add(profiles_as_).finish();
    frame.calls.use_profile(FrameProfile(store_, std::move(key), keeps_, report_));
  }
  const auto given = frame.calls.restore(observation);
  if (given && restored_) restored_(frame.calls.cache(), *given);
}

Result<Agreed> Agreement::agree(std::string_view frame_name, Observation observation,
                                const Build& build, RankStatus rank_status) {
  Known& frame = known(frame_name);
  frame.past_limit.reset();
  BuildSteps steps(build, frame.calls.cache(), config_, frame.past_limit);
  return agree(frame_name, std::move(observation), steps, std::move(rank_status));
}

Result<Agreed> Agreement::agree(std::string_view frame_name, Observation observation,
                                CallSteps& steps, RankStatus rank_status) {
  Known& frame = known(frame_name);
  restore(frame, observation);
  const bool ahead = frame.calls.is_ahead();
  if (auto why = broken(frame.calls, observation, rank_status)) {
    if (ahead) {
      const auto refused = frame.calls.refuse(*why);
      if (refused.unheard) local_error_ = *why;
      return refused.error;
    }
    rank_status.local_error = std::move(why);
  }
  if (!ahead && !rank_status.local_error)
    rank_status.local_error = std::exchange(local_error_, std::nullopt);
  const CallOutcome outcome =
      frame.calls.call(std::move(observation), std::move(rank_status), steps);
  auto out = agreed(outcome, frame);
  if (out) out->untested = outcome.untested || ahead;
  return out;
}

std::optional<Status> Agreement::broken(const FrameAgreement& calls, const Observation& observation,
                                        const RankStatus& rank_status) const {
  if (rank_status.local_error && driver().promised(calls.cache()) != nullptr)
    return rank_status.local_error;
  if (auto differs = calls.broken(observation)) return differs;
  if (!calls.is_ahead() || rank_status.pending == 0) return std::nullopt;
  return bad_input(calls.cache().name +
                   " was prefetched, but is called with asserts or agreed values pending; settle "
                   "them before the prefetch");
}

Result<Agreed> Agreement::agreed(const CallOutcome& outcome, const Known& frame) {
  if (outcome.kind == CallOutcome::Kind::Error) return *outcome.error;
  if (outcome.kind == CallOutcome::Kind::Fallback)
    return Agreed{Agreed::Run::Fallback, -1, false,
                  frame.past_limit ? &*frame.past_limit : nullptr};
  return Agreed{Agreed::Run::Entry, outcome.entry, outcome.kind == CallOutcome::Kind::Compiled,
                &frame.calls.cache().entries[static_cast<std::size_t>(outcome.entry)].decision};
}

void Agreement::prefetch(std::string_view frame_name, Observation observation,
                         RankStatus rank_status) {
  Known& frame = known(frame_name);
  restore(frame, observation);
  if (!rank_status.local_error) rank_status.local_error = local_error_;
  frame.calls.promise(std::move(observation), std::move(rank_status));
}

Result<Agreement::AgreedWords> Agreement::agree_words(std::string_view name, const Words& words,
                                                      std::string_view where,
                                                      RankStatus rank_status) {
  RoundKey key = round(RoundKey::Kind::Words, name, where);
  if (!rank_status.local_error && !rounds_.has_words_ahead(key))
    rank_status.local_error = std::exchange(local_error_, std::nullopt);
  auto agreed = rounds_.agree_words(std::move(key), words, std::move(rank_status));
  if (auto unreported = rounds_.take_unreported_error()) local_error_ = std::move(unreported);
  return agreed;
}

Result<void> Agreement::agree_words_ahead(std::string_view name, Words words,
                                          std::string_view where) {
  return rounds_.promise_words(round(RoundKey::Kind::Words, name, where), std::move(words));
}

Result<bool> Agreement::more(bool have) {
  return rounds_.any_rank(round(RoundKey::Kind::More), have,
                          {.pending = 0, .local_error = std::exchange(local_error_, std::nullopt)});
}

Result<void> Agreement::settle(RankStatus rank_status, RoundKey::Kind kind) {
  if (!rank_status.local_error) rank_status.local_error = std::exchange(local_error_, std::nullopt);
  return rounds_.status_round(round(kind), rank_status);
}

Result<void> Agreement::resync() {
  auto met = rounds_.resync(round(RoundKey::Kind::Resync));
  if (met) local_error_.reset();
  return met;
}

Result<Audited> Agreement::audit(std::string_view frame, AuditedCall own) {
  if (!own.local_error) own.local_error = std::exchange(local_error_, std::nullopt);
  const RoundKey& key = rounds_.next(round(RoundKey::Kind::Audit, frame));
  AuditOutcome outcome = driver().audit(key, ledger_, std::move(own));
  if (outcome.error) return *outcome.error;
  return Audited{outcome.times, std::move(outcome.finding)};
}

}  // namespace lockstep::worker
