#include <cstddef>
#include <utility>

#include "handle.h"
#include <fmt/format.h>

#include <lockstep/collectives/base/number_text.h>
#include <lockstep/collectives/startup.h>
#include <lockstep/worker/agree/exchange/source_guard.h>

using namespace lockstep;
using namespace lockstep::capi;
using worker::Built;
using worker::Consistency;
using worker::Decision;
using worker::DecisionConfig;

static_assert(LOCKSTEP_SHARED_SIZES == static_cast<int>(Consistency::SharedSizes));

namespace {

shapes::Fingerprint own(const lockstep_fingerprint& fingerprint) {
  return {fingerprint.high, fingerprint.low};
}

Result<DecisionConfig> config_of(const lockstep_config* config) {
  DecisionConfig out;
  if (config == nullptr) return out;
  // A caller built before `settle` existed gets the default.
  if (config->struct_size != sizeof(lockstep_config) &&
      config->struct_size != offsetof(lockstep_config, settle))
    return bad_input(
        "config.struct_size is not sizeof(lockstep_config); start from "
        "LOCKSTEP_CONFIG_INIT");
  if (config->consistency < LOCKSTEP_SAME_GRAPH || config->consistency > LOCKSTEP_SHARED_SIZES)
    return bad_input(
        fmt::format("config.consistency is {}; use LOCKSTEP_SAME_GRAPH, "
                    "LOCKSTEP_SAME_COLLECTIVES or LOCKSTEP_SHARED_SIZES",
                    config->consistency));
  if (config->recompile_limit < 1 || config->recompile_limit > worker::kMaxEntries)
    return bad_input(fmt::format("config.recompile_limit is {}; give a number from 1 to {}",
                                 config->recompile_limit, worker::kMaxEntries));
  out.consistency = static_cast<Consistency>(config->consistency);
  out.automatic_dynamic = config->automatic_dynamic != 0;
  out.assume_at_least_two = config->assume_at_least_two != 0;
  out.recompile_limit = config->recompile_limit;
  if (config->struct_size == sizeof(lockstep_config)) out.settle = config->settle != 0;
  return out;
}

std::string text_of(const std::string& name, const Result<DecisionConfig>& config) {
  if (!config) return fmt::format("agreement={}\narguments={}\n", name, config.error().message);
  return fmt::format(
      "agreement={}\narguments=well\nassume_at_least_two={}\nautomatic_dynamic={}\nconsistency={}\n"
      "recompile_limit={}\nsettle={}\n",
      name, config->assume_at_least_two, config->automatic_dynamic,
      static_cast<int>(config->consistency), config->recompile_limit, config->settle);
}

std::string plain(const char* text) { return text == nullptr ? "" : text; }

constexpr const char* kNoObservation =
    "observation is NULL; an empty one will do where there is no input";

/// Parses "train.cpp:41", or text without a number.
shapes::Location location_of(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {text, 0};
  const auto line = number_in<std::uint32_t>(std::string_view(text).substr(colon + 1));
  return line ? shapes::Location{text.substr(0, colon), *line} : shapes::Location{text, 0};
}

/// Returns what is wrong with the frame's name; this rank reports that in the round.
std::optional<Status> wrong_call(const char* frame) {
  if (frame == nullptr || *frame == 0)
    return bad_input("frame is NULL or empty; give the name of the function that is called");
  return std::nullopt;
}

const worker::Observation& observed(const lockstep_observation* observation) {
  static const worker::Observation kNothing = worker::ObservationBuilder().build();
  return observation == nullptr ? kNothing : observation->current();
}

/// Builds a version by the caller's callback.
class Builder {
 public:
  Builder(Group& group, lockstep_build build, void* context)
      : group_(group), build_(build), context_(context) {}

  Result<Built> operator()(int entry, const Decision& decision) {
    made_ = std::make_unique<lockstep_decision>(decision);
    lockstep_fingerprint program{0, 0};
    lockstep_built built{made_->decision, {}, {}, {}, group_};
    const int code = call(entry, program, built);
    if (built.ended) return Built{.program = {}, .guards = {}, .ended = std::move(built.ended)};
    if (built.failure) return *built.failure;
    if (code != 0)
      return Status{Code::CompileError,
                    fmt::format("the build callback returned {} and no reason; give one with "
                                "lockstep_build_failed()",
                                code)};
    return Built{own(program), std::move(built.guards), std::move(built.uniform)};
  }
  [[nodiscard]] std::unique_ptr<lockstep_decision> take() { return std::move(made_); }

 private:
  /// Calls the callback. An exception from it is a failed build, so the rank still takes part.
  int call(int entry, lockstep_fingerprint& program, lockstep_built& built) {
    const Group::Phased compiling(group_, Phase::Compiling);
    try {
      return build_(context_, entry, made_.get(), &program, &built);
    } catch (const std::exception& error) {
      built.failure = Status{Code::CompileError, error.what()};
    } catch (...) {
      built.failure = Status{Code::CompileError, "the build callback threw an exception"};
    }
    return 1;
  }

  Group& group_;
  lockstep_build build_;
  void* context_;
  std::unique_ptr<lockstep_decision> made_;
};

/// Sets the callback's `bytes` and `size` to the bytes found; NULL if there are none.
void give(lockstep_built& built, std::optional<Bytes> found, const void** bytes, size_t* size) {
  built.shared = found ? *std::move(found) : Bytes{};
  *bytes = found ? built.shared.data() : nullptr;
  *size = built.shared.size();
}

std::optional<shapes::Fingerprint> collectives_of(const lockstep_run& run) {
  switch (run.collectives_known) {
    case LOCKSTEP_COLLECTIVES_NONE:
      return shapes::Fingerprint{};
    case LOCKSTEP_COLLECTIVES_LISTED:
    case LOCKSTEP_COLLECTIVES_ISSUED:
      return own(run.collectives);
    default:
      return std::nullopt;
  }
}

std::optional<Status> wrong_run(const lockstep_run* run) {
  if (run == nullptr) return bad_input("run is NULL; say what this rank is about to run");
  if (run->struct_size != sizeof(lockstep_run))
    return bad_input("run.struct_size is not sizeof(lockstep_run)");
  if (run->collectives_known < LOCKSTEP_COLLECTIVES_UNKNOWN ||
      run->collectives_known > LOCKSTEP_COLLECTIVES_ISSUED)
    return bad_input(fmt::format("run.collectives_known is {}; use one of LOCKSTEP_COLLECTIVES_…",
                                 run->collectives_known));
  if (run->collectives_known == LOCKSTEP_COLLECTIVES_LISTED &&
      own(run->collectives) == shapes::Fingerprint{})
    return bad_input(
        "run.collectives is all zero; use LOCKSTEP_COLLECTIVES_NONE, or "
        "lockstep_fingerprint_of() the list");
  return std::nullopt;
}

worker::AuditedCall audited(const lockstep_observation* observation, const lockstep_run* run,
                            std::optional<Status> local_error) {
  worker::AuditedCall call;
  call.observation = observed(observation);
  call.local_error = std::move(local_error);
  if (call.local_error) return call;
  call.program = own(run->program);
  call.collectives = collectives_of(*run);
  call.issued = run->collectives_known == LOCKSTEP_COLLECTIVES_ISSUED;
  call.is_new = run->is_new != 0;
  call.program_text = plain(run->program_text);
  call.collectives_text = plain(run->collectives_text);
  if (run->trouble != nullptr) call.local_error = Status{Code::CompileError, run->trouble};
  return call;
}

}  // namespace

lockstep_agreement::~lockstep_agreement() {
  if (!group->rounds) return;  // the group is closed
  if (core->abandon()) group->parted.push_back(std::move(core));
}

extern "C" {

int lockstep_agreement_create(lockstep_group* group, const char* name,
                              const lockstep_config* config, lockstep_agreement** agreement) {
  return guarded([&]() -> Result<void> {
    if (agreement != nullptr) *agreement = nullptr;
    if (group == nullptr) return bad_input(kNoGroup);
    Group& state = *group->state;
    const auto turn = state.enter_alone();
    if (!turn) return turn.error();
    auto checked = config_of(config);
    if (checked && name == nullptr) checked = bad_input("name is NULL; name the agreement");
    if (checked && agreement == nullptr)
      checked = bad_input("agreement is NULL; give the address of a handle");
    // This round reports the rank's local error, if any, and completes a vote in flight.
    if (auto all = state.status_round(Group::Kind::Start, "an agreement"); !all) return all;
    {
      const Group::Inside under_way(state);
      auto same = collectives::startup_round(*state.world.all, text_of(plain(name), checked));
      if (!state.seen(same)) return same;
    }
    if (!checked) return checked.error();  // equal on all ranks: the round has compared it
    auto made = std::make_unique<lockstep_agreement>();
    made->group = group->state;
    const int number = ++state.agreements;
    made->core = std::make_unique<worker::Agreement>(*state.rounds, name, *checked, number);
    if (state.session.recorder() != nullptr)
      state.session.recorder()->agreement(number, name, *checked);
    if (state.profiles) {
      const int nth = ++state.named[name];
      made->core->profiles_as(nth == 1 ? name : fmt::format("{} ({})", name, nth));
      made->core->use_profiles(
          *state.profiles, state.keeps_profiles, state.shared_store().report,
          [&state, number](const worker::CodeCache& frame, const worker::FrameState& given) {
            if (state.session.recorder() != nullptr)
              state.session.recorder()->restored(frame.name, given, number);
          });
    }
    *agreement = made.release();
    return {};
  });
}

void lockstep_agreement_free(lockstep_agreement* agreement) {
  if (agreement == nullptr) return;
  const std::shared_ptr<Group> group = agreement->group;
  const auto turn = group->turns.take("the agreement");
  if (turn)
    delete agreement;
  else
    fail(turn.error());  // not freed: the other call uses it
}

lockstep_fingerprint lockstep_fingerprint_of(const void* bytes, size_t length) {
  const auto made = shapes::fingerprint(
      std::span(static_cast<const std::byte*>(bytes), bytes == nullptr ? 0 : length));
  return {made.high, made.low};
}

void lockstep_build_failed(lockstep_built* built, int code, const char* text) {
  if (built == nullptr || built->failure) return;
  const bool known = code == LOCKSTEP_TRACE_ERROR || code == LOCKSTEP_ENVIRONMENT;
  built->failure = Status{known ? *code_of(code) : Code::CompileError, plain(text), {}, {}};
}

int lockstep_build_guard(lockstep_built* built, const char* condition, const char* where) {
  return guarded([&]() -> Result<void> {
    if (built == nullptr)
      return bad_input("built is NULL; guards are given in the build callback, while it runs");
    auto guard = condition == nullptr
                     ? bad_input("condition is NULL; write it like \"x.size(0) % 8 == 0\"")
                     : worker::read_guard(condition, location_of(plain(where)), built->decision);
    // A version must not be added without a condition that it relies on.
    if (!guard && !built->failure) built->failure = guard.error();
    if (!guard) return guard.error();
    if (*guard) built->guards.push_back(**std::move(guard));
    return {};
  });
}

int lockstep_build_uniform(lockstep_built* built, const char* size, const char* what,
                           const char* where) {
  return guarded([&]() -> Result<void> {
    if (built == nullptr)
      return bad_input(
          "built is NULL; uniform sizes are given in the build callback, while it runs");
    auto uniform =
        size == nullptr || what == nullptr
            ? bad_input("size or what is NULL; a size is written like \"x.size(0) * 2\"")
            : worker::read_uniform(size, what, location_of(plain(where)), built->decision);
    if (!uniform && !built->failure) built->failure = uniform.error();
    if (!uniform) return uniform.error();
    if (*uniform) built->uniform.push_back(**std::move(uniform));
    return {};
  });
}

int lockstep_build_kept(lockstep_built* built, lockstep_fingerprint of, const void** bytes,
                        size_t* size) {
  return guarded([&]() -> Result<void> {
    if (built == nullptr || bytes == nullptr || size == nullptr)
      return bad_input("built, bytes or size is NULL; what is kept is read in the build callback");
    const auto turn = built->group.enter();
    if (!turn) return turn.error();
    const auto store = built->group.shared_store();
    auto found = store.artifacts == nullptr ? Result<std::optional<Bytes>>(std::nullopt)
                                            : store.artifacts->load(own(of));
    if (!found) store.report(found.error());
    give(*built, found ? *std::move(found) : std::nullopt, bytes, size);
    return {};
  });
}

int lockstep_build_share(lockstep_built* built, lockstep_fingerprint of, const void* mine,
                         size_t mine_size, const void** bytes, size_t* size) {
  return guarded([&]() -> Result<void> {
    if (built == nullptr || bytes == nullptr || size == nullptr)
      return bad_input("built, bytes or size is NULL; what is built is shared in the callback");
    const auto turn = built->group.enter();
    if (!turn) return turn.error();
    if (built->ended) return *built->ended;
    Group& group = built->group;
    worker::RoundKey key = group.rounds->key();
    key.attempt = (key.attempt << 8) + 2 * ++built->shares;  // round numbers that no call uses
    std::optional<Bytes> own_bytes;
    const auto* from = static_cast<const std::byte*>(mine);
    if (from != nullptr && mine_size > 0) own_bytes.emplace(from, from + mine_size);
    auto shared = worker::share_bytes(group.rounds->driver(), std::move(key), own(of),
                                      std::move(own_bytes), group.shared_store());
    if (!shared) {
      built->ended = shared.error();
      return shared.error();
    }
    give(*built, std::move(shared->bytes), bytes, size);
    if (!shared->failure) return {};
    if (!built->failure) built->failure = shared->failure;
    return *std::move(shared->failure);
  });
}

int lockstep_prefetch(lockstep_agreement* agreement, const char* frame,
                      const lockstep_observation* observation) {
  return guarded([&]() -> Result<void> {
    if (agreement == nullptr) return bad_input(kNoAgreement);
    Group& group = *agreement->group;
    const auto turn = group.enter_alone();
    if (!turn) return turn.error();
    std::optional<Status> wrong = wrong_call(frame);
    if (!wrong && observation == nullptr) wrong = bad_input(kNoObservation);
    if (wrong) {
      // The other ranks get the error in the promised call, or in a collective function before it.
      if (!group.local_error) group.local_error = wrong;
      return *wrong;
    }
    agreement->core->prefetch(frame, observation->current(), group.take_rank_status());
    return {};
  });
}

int lockstep_agree(lockstep_agreement* agreement, const char* frame,
                   const lockstep_observation* observation, lockstep_build build, void* context,
                   int* entry, int* is_new, const lockstep_decision** decision) {
  int untested = 0;
  return lockstep_agree_tested(agreement, frame, observation, &untested, build, context, entry,
                               is_new, decision);
}

int lockstep_agree_tested(lockstep_agreement* agreement, const char* frame,
                          const lockstep_observation* observation, int* untested,
                          lockstep_build build, void* context, int* entry, int* is_new,
                          const lockstep_decision** decision) {
  return guarded([&]() -> Result<void> {
    if (agreement == nullptr) return bad_input(kNoAgreement);
    Group& group = *agreement->group;
    const auto turn = group.enter_alone();
    if (!turn) return turn.error();
    // A local error has to wait if the vote of this call has been cast: the other ranks may already
    // be running the call.
    worker::RankStatus rank_status;
    if (observation == nullptr || !agreement->core->is_ahead(plain(frame)))
      rank_status = group.take_rank_status();
    if (!rank_status.local_error) rank_status.local_error = wrong_call(frame);
    if (!rank_status.local_error && observation == nullptr)
      rank_status.local_error = bad_input(kNoObservation);
    if (!rank_status.local_error && build == nullptr)
      rank_status.local_error = bad_input("build is NULL");
    if (!rank_status.local_error && entry == nullptr)
      rank_status.local_error = bad_input("entry is NULL; give the address of an int");
    if (!rank_status.local_error && untested == nullptr)
      rank_status.local_error = bad_input("untested is NULL; give the address of an int");
    rank_status.untested = untested != nullptr && *untested != 0;
    group.note(fmt::format("agreeing on {}", plain(frame)));
    const Group::Inside under_way(group);
    Builder builder(group, build, context);
    const auto agreed = agreement->core->agree(plain(frame), observed(observation),
                                               std::ref(builder), std::move(rank_status));
    if (const auto unheard = agreement->core->take_unreported_error())
      group.world.end_job(*unheard);
    if (!group.seen(agreed)) return agreed.error();
    auto& made = agreement->decisions[frame];
    if (agreed->entry < 0)
      made[-1] = agreed->decision == nullptr || agreed->decision->fields.empty()
                     ? nullptr
                     : std::make_unique<lockstep_decision>(*agreed->decision);
    if (agreed->is_new) made[agreed->entry] = builder.take();
    *entry = agreed->entry;
    *untested = agreed->untested ? 1 : 0;
    if (is_new != nullptr) *is_new = agreed->is_new ? 1 : 0;
    if (decision != nullptr) *decision = made.at(agreed->entry).get();
    return {};
  });
}

int lockstep_audit(lockstep_agreement* agreement, const char* frame,
                   const lockstep_observation* observation, const lockstep_run* run,
                   uint64_t* times) {
  return guarded([&]() -> Result<void> {
    if (agreement == nullptr) return bad_input(kNoAgreement);
    Group& group = *agreement->group;
    const auto turn = group.enter_alone();
    if (!turn) return turn.error();
    agreement->finding.reset();
    std::optional<Status> local_error = group.take_rank_status().local_error;
    if (!local_error) local_error = wrong_call(frame);
    if (!local_error) local_error = wrong_run(run);
    if (!local_error && times == nullptr)
      local_error = bad_input("times is NULL; give the address of a uint64_t");
    group.note(fmt::format("auditing {}", plain(frame)));
    const Group::Inside under_way(group);
    auto done =
        agreement->core->audit(plain(frame), audited(observation, run, std::move(local_error)));
    if (!group.seen(done)) return done.error();
    if (times != nullptr) *times = done->times;
    if (done->finding) agreement->finding.emplace(std::move(*done->finding));
    return {};
  });
}

const lockstep_report* lockstep_finding(const lockstep_agreement* agreement) {
  return agreement == nullptr || !agreement->finding ? nullptr : &*agreement->finding;
}

const char* lockstep_audit_summary(lockstep_agreement* agreement) {
  if (agreement == nullptr) return "";
  const int made = guarded([&]() -> Result<void> {
    const auto turn = agreement->group->turns.take("the agreement");
    if (!turn) return turn.error();
    agreement->summary = agreement->core->findings().summary();
    return {};
  });
  return made == LOCKSTEP_OK ? agreement->summary.c_str() : "";
}

}  // extern "C"
