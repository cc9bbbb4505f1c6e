#include <algorithm>
#include <cmath>
#include <utility>

#include "handle.h"
#include <dlfcn.h>
#include <fmt/format.h>

#include <lockstep/collectives/simulated/fake.h>
#include <lockstep/shapes/expr/fingerprint.h>
#include <lockstep/worker/agree/process/settings.h>

namespace lockstep::capi {
namespace {

/// Identifies the build of this library.
std::string build_id() {
  Dl_info where{};
  if (dladdr(reinterpret_cast<const void*>(&lockstep_abi), &where) == 0) return "not known";
  return worker::build_of(where.dli_fname);
}

/// Sets in `joining` how the processes of the job meet, from the environment.
Result<void> find_ranks(worker::WorldOptions& joining) {
  const auto settings = worker::Settings::from_environment();
  if (settings && settings->trace)
    return bad_input(
        "lockstep trace takes programs with frames of job.h; what this one's own compiler makes of "
        "a call cannot be traced");
  if (joining.comm != nullptr) return {};
  if (!settings) return settings.error();
  return worker::find_ranks(joining, *settings, build_id());
}

/// Returns the kind of a collective from the beginning of its text.
OperationKind kind_of(std::string_view text) {
  const auto is = [&](std::string_view name) { return text.starts_with(name); };
  if (is("all_reduce")) return OperationKind::AllReduce;
  if (is("all_gather")) return OperationKind::AllGather;
  if (is("all_to_all")) return OperationKind::AllToAll;
  if (is("reduce_scatter")) return OperationKind::ReduceScatter;
  return is("broadcast") ? OperationKind::Broadcast : OperationKind::Collective;
}

/// `usual`: the deadline that 0 stands for.
Result<Duration> deadline_of(double seconds, Duration usual = std::chrono::seconds(60)) {
  constexpr double kLongest = 1e6;
  if (!(seconds >= 0) || seconds > kLongest)
    return bad_input(fmt::format("deadline_seconds is {}; give a number from 0 (for {}) to {}",
                                 seconds, usual == Duration{0} ? "the group's" : "60", kLongest));
  if (seconds == 0) return usual;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

/// Prints a failure of the disk; the job goes on after it.
void warn(const Status& status) { fmt::print(stderr, "lockstep: {}\n", status.message); }

}  // namespace

Result<void> Group::start(std::string configuration) {
  if (auto same = session.compare(std::move(configuration), build_id()); !same) return same;
  rounds = std::make_unique<worker::GroupRounds>(*world.all);
  rounds->observe(*this);
  if (world.watch) {
    world.watch->seat().phase(Phase::Running);
    issued_entry = world.watch->board().entry(shapes::fingerprint("issued").low >> 1 | 1,
                                              RankSet::all(world.all->size()), "the program's own");
  }
  return {};
}

Result<void> Group::publish(const worker::Settings& settings) {
  if (auto done = session.publish(settings, worker::Log(settings.log)); !done) return done;
  if (session.reporter() != nullptr) rounds->driver().observe(*session.reporter());
  return {};
}

Result<void> Group::open_profiles(const worker::Settings& settings) {
  if (settings.job_id.empty()) return {};
  auto opened = worker::open_profiles(settings, warn);
  if (opened) {
    profiles = std::move(*opened);
  } else {
    warn(opened.error());
  }
  const auto sharers = worker::profile_sharers(rounds->driver(), profiles.get());
  if (!sharers) return sharers.error();
  keeps_profiles = !sharers->empty() && sharers->lowest() == world.all->rank();
  return {};
}

worker::SharedStore Group::shared_store() {
  if (const auto settings = worker::Settings::from_environment();
      settings && !std::exchange(opened_artifacts, true)) {
    auto opened = worker::open_artifacts(*settings, warn);
    if (opened) {
      artifacts = std::move(*opened);
    } else {
      warn(opened.error());
    }
  }
  return {.artifacts = artifacts.get(), .report = warn};
}

Result<void> Group::record(const worker::Settings& settings) {
  if (settings.record_dir.empty()) return {};
  if (auto opened = session.open_record(settings, {}, std::nullopt, warn); !opened)
    local_error = opened.error();  // the others must not wait for this rank
  else
    rounds->driver().observe(*session.recorder());
  return status_round(Kind::Start, "the record");
}

Result<Turn> Group::enter() {
  auto turn = turns.take("the group");
  if (turn && over)
    return bad_input("the group is over: it was finished, left or closed, or lost a rank");
  return turn;
}

Result<Turn> Group::enter_alone() {
  auto turn = enter();
  if (turn && inside)
    return bad_input(
        "a collective function is under way; a build callback must not call another one");
  return turn;
}

worker::RankStatus Group::take_rank_status() {
  worker::RankStatus rank_status;
  rank_status.local_error = std::exchange(local_error, std::nullopt);
  return rank_status;
}

void Group::note(std::string_view event) {
  if (world.watch) world.watch->seat().note(event, SystemClock().now());
}

void Group::issues(std::string_view text) {
  if (!world.watch) return;
  Seat& seat = world.watch->seat();
  seat.wait_over(SystemClock().now());
  seat.begin(kind_of(text), issued_entry, ++issued, SystemClock().now());
  note(text);
}

void Group::stalls() {
  if (world.watch && issued > 0 && !inside) world.watch->seat().wait(true);
}

Result<void> Group::status_round(Kind kind, const char* name) {
  const Inside under_way(*this);
  return seen(rounds->status_round({.frame = name, .kind = kind}, take_rank_status()));
}

Result<bool> Group::any_rank(Kind kind, const char* name, bool mine) {
  const Inside under_way(*this);
  return seen(rounds->any_rank({.frame = name, .kind = kind}, mine, take_rank_status()));
}

Result<worker::GroupRounds::AgreedWords> Group::agree_words(
    const worker::RoundKey& round, const Result<worker::GroupRounds::Words>& words,
    const Result<Duration>& deadline) {
  const Inside under_way(*this);
  const bool own_deadline = deadline && *deadline != Duration{0};
  const collectives::Watch::Within wait(world.watch.get(),
                                        own_deadline ? std::optional(*deadline) : std::nullopt);
  worker::RankStatus rank_status;
  if (!rounds->has_words_ahead(round)) rank_status = take_rank_status();
  if (!words && !rank_status.local_error) rank_status.local_error = words.error();
  if (!deadline && !rank_status.local_error) rank_status.local_error = deadline.error();
  auto agreed = rounds->agree_words(round, words ? *words : worker::GroupRounds::Words{},
                                    std::move(rank_status));
  if (const auto unheard = rounds->take_unreported_error()) world.end_job(*unheard);
  return seen(agreed);
}

Result<void> Group::resync() {
  const Inside under_way(*this);
  return seen(rounds->resync({.kind = Kind::Resync}, take_rank_status()));
}

void Group::leave(const std::string& why) {
  const Status gone{Code::Gone, fmt::format("rank {} left: {}", world.all->rank().value, why)};
  over = true;
  const auto peers = all_know ? worker::PeersGo::ToRound : worker::PeersGo::On;
  if (rounds->leave({.kind = Kind::Close}, gone, peers)) world.end_job(gone);
}

namespace {

using Kind = Group::Kind;

/// Runs the body of a function of a group once `enter` has taken the turn.
template <class Body>
int in_group(lockstep_group* group, Result<Turn> (Group::*enter)(), const Body& body) {
  return guarded([&]() -> Result<void> {
    if (group == nullptr) return bad_input(kNoGroup);
    const auto turn = (*group->state.*enter)();
    return turn ? body(*group->state) : turn.error();
  });
}

/// Runs a collective function that returns a truth value of all ranks: whether `mine` is true on
/// any rank, or (`inverted`) on all.
int joint(lockstep_group* group, Kind kind, const char* name, bool mine, bool inverted,
          int* result) {
  return in_group(group, &Group::enter_alone, [&](Group& state) -> Result<void> {
    if (result == nullptr && !state.local_error)
      state.local_error = bad_input("result is NULL; give the address of an int");
    const auto any = state.any_rank(kind, name, mine != inverted);
    if (!any) return any.error();
    *result = *any != inverted ? 1 : 0;
    return {};
  });
}

/// The words of a C caller. Errors: BadInput; GroupRounds checks how many there are.
Result<worker::GroupRounds::Words> words_of(const char* name, const int64_t* words, size_t count,
                                            const int32_t* ops) {
  if (name == nullptr || *name == 0) return bad_input("name is NULL or empty; name the words");
  if (words == nullptr || ops == nullptr)
    return bad_input(fmt::format("{} is NULL; give the address of {}",
                                 words == nullptr ? "words" : "ops", count));
  worker::GroupRounds::Words out;
  for (size_t i = 0; i < std::min(count, collectives::kMostWords + 1); ++i) {
    if (ops[i] < 0 || ops[i] >= collectives::kWordOps)
      return bad_input(fmt::format("the op of word {} is {}; give a lockstep_op, 0 to {}", i,
                                   ops[i], collectives::kWordOps - 1));
    out.push_back({words[i], static_cast<collectives::WordOp>(ops[i])});
  }
  return out;
}

worker::RoundKey words_key(const char* name, const char* where) {
  return {.frame = name == nullptr ? "" : name, .where = where == nullptr ? "" : where};
}

int joint_status(lockstep_group* group, Kind kind, const char* name) {
  return in_group(group, &Group::enter_alone, [&](Group& state) -> Result<void> {
    auto done = state.status_round(kind, name);
    if (done && kind == Kind::Finish) state.over = true;
    return done;
  });
}

}  // namespace
}  // namespace lockstep::capi

using namespace lockstep;
using namespace lockstep::capi;
using Kind = Group::Kind;

extern "C" {

int lockstep_group_open(const void* comm, double deadline_seconds, const char* report_folder,
                        lockstep_group** group) {
  return guarded([&]() -> Result<void> {
    if (group == nullptr) return bad_input("group is NULL; give the address of a handle");
    *group = nullptr;
    const auto deadline = deadline_of(deadline_seconds);
    // A rank with a wrong deadline still joins: the others wait for it.
    worker::WorldOptions joining{.comm = comm,
                                 .deadline = deadline ? *deadline : std::chrono::seconds(60),
                                 .report_dir = report_folder == nullptr ? "" : report_folder};
    if (auto found = find_ranks(joining); !found) return found.error();
    auto world = worker::join_world(joining);
    if (!world) return world.error();
    auto made = std::make_unique<lockstep_group>();
    made->state = std::make_shared<Group>();
    made->state->world = std::move(*world);
    const auto settings = worker::Settings::from_environment();
    const std::string said =
        deadline ? fmt::format("{} ns", deadline->count()) : deadline.error().message;
    const std::string configuration = fmt::format(
        "abi={}\nbuild={}\ndeadline={}\nenvironment={}\njob={}\nrecord={}\nversion={}\n",
        LOCKSTEP_ABI, build_id(), said, settings ? "understood" : settings.error().message,
        settings ? settings->job_id : "", settings ? settings->record_dir : "", lockstep_version());
    if (auto same = made->state->start(configuration); !same) return same;
    if (!deadline) return deadline.error();  // equal on all ranks, as are the settings' errors
    if (!settings) return settings.error();
    if (auto published = made->state->publish(*settings); !published) return published;
    if (auto recorded = made->state->record(*settings); !recorded) return recorded;
    if (auto opened = made->state->open_profiles(*settings); !opened) return opened;
    *group = made.release();
    return {};
  });
}

int lockstep_launched(void) {
  int processes = 1;
  const int told = guarded([&]() -> Result<void> {
    if (const auto launcher = worker::launcher_from_environment()) processes = launcher->size;
    return {};
  });
  return told == 0 ? processes : 1;
}

int lockstep_group_alone(lockstep_group** group) {
  return guarded([&]() -> Result<void> {
    if (group == nullptr) return bad_input("group is NULL; give the address of a handle");
    *group = nullptr;
    auto all = collectives::fake_communicator(Rank{0}, 1);
    if (!all) return all.error();
    auto made = std::make_unique<lockstep_group>();
    made->state = std::make_shared<Group>();
    made->state->world.all = std::move(*all);
    if (auto started = made->state->start("alone=1\n"); !started) return started;
    if (const auto settings = worker::Settings::from_environment();
        settings && lockstep_launched() == 1)  // else each process would keep its own profiles
      if (auto opened = made->state->open_profiles(*settings); !opened) return opened;
    *group = made.release();
    return {};
  });
}

int lockstep_group_rank(const lockstep_group* group) {
  return group == nullptr ? -1 : group->state->world.all->rank().value;
}

int lockstep_group_size(const lockstep_group* group) {
  return group == nullptr ? -1 : group->state->world.all->size();
}

int lockstep_busy(lockstep_group* group, double seconds) {
  return guarded([&]() -> Result<void> {
    if (group == nullptr) return bad_input(kNoGroup);
    const auto time = deadline_of(seconds);
    if (!time) return bad_input(fmt::format("seconds is {}; give a number from 0 to 1e6", seconds));
    if (group->state->world.watch)
      group->state->world.watch->seat().renew(SystemClock().now() + *time);
    return {};
  });
}

int lockstep_note(lockstep_group* group, const char* text) {
  return in_group(group, &Group::enter, [&](Group& state) -> Result<void> {
    if (text == nullptr) return bad_input("text is NULL; say what this process does");
    state.note(text);
    return {};
  });
}

int lockstep_issues(lockstep_group* group, const char* text) {
  return in_group(group, &Group::enter_alone, [&](Group& state) -> Result<void> {
    if (text == nullptr) return bad_input("text is NULL; say what is issued");
    state.issues(text);
    return {};
  });
}

int lockstep_stalls(lockstep_group* group) {
  return guarded([&]() -> Result<void> {
    if (group == nullptr) return bad_input(kNoGroup);
    group->state->stalls();
    return {};
  });
}

int lockstep_trouble(lockstep_group* group, int code, const char* text) {
  return in_group(group, &Group::enter_alone, [&](Group& state) -> Result<void> {
    if (text == nullptr) return bad_input("text is NULL; say what went wrong");
    switch (code) {
      case LOCKSTEP_TRACE_ERROR:
      case LOCKSTEP_COMPILE_ERROR:
      case LOCKSTEP_RUNTIME_ASSERT:
      case LOCKSTEP_BAD_INPUT:
      case LOCKSTEP_ENVIRONMENT:
        break;
      default:
        return bad_input(fmt::format(
            "code {} ({}) is none that a rank can bring; use TRACE_ERROR, COMPILE_ERROR, "
            "RUNTIME_ASSERT, BAD_INPUT or ENVIRONMENT",
            code, lockstep_code_name(code)));
    }
    state.local_error = Status{*code_of(code), text, {}, {}};
    return {};
  });
}

int lockstep_settle(lockstep_group* group) { return joint_status(group, Kind::Settle, ""); }

int lockstep_finish(lockstep_group* group) { return joint_status(group, Kind::Finish, ""); }

int lockstep_vote_any(lockstep_group* group, int mine, int* result) {
  return joint(group, Kind::Settle, "vote_any", mine != 0, false, result);
}

int lockstep_vote_all(lockstep_group* group, int mine, int* result) {
  return joint(group, Kind::Settle, "vote_all", mine != 0, true, result);
}

int lockstep_agree_words(lockstep_group* group, const char* name, int64_t* words, size_t count,
                         const int32_t* ops, double deadline_seconds, const char* where,
                         int32_t* ranks) {
  return in_group(group, &Group::enter_alone, [&](Group& state) -> Result<void> {
    const auto agreed = state.agree_words(words_key(name, where), words_of(name, words, count, ops),
                                          deadline_of(deadline_seconds, Duration{0}));
    if (!agreed) return agreed.error();
    for (size_t i = 0; i < count; ++i) {
      words[i] = (*agreed)[i].value;
      if (ranks != nullptr) ranks[i] = (*agreed)[i].rank.value_or(Rank{-1}).value;
    }
    return {};
  });
}

int lockstep_agree_words_ahead(lockstep_group* group, const char* name, const int64_t* words,
                               size_t count, const int32_t* ops, const char* where) {
  return in_group(group, &Group::enter_alone, [&](Group& state) -> Result<void> {
    const auto mine = words_of(name, words, count, ops);
    auto promised = mine ? state.rounds->promise_words(words_key(name, where), *mine)
                         : Result<void>{mine.error()};
    if (!promised && !state.local_error) state.local_error = promised.error();
    return promised;
  });
}

int lockstep_more(lockstep_group* group, int have, int* result) {
  return joint(group, Kind::More, "", have != 0, false, result);
}

int lockstep_resync(lockstep_group* group) {
  return in_group(group, &Group::enter_alone,
                  [&](Group& state) -> Result<void> { return state.resync(); });
}

int lockstep_poke(lockstep_group* group) {
  return in_group(group, &Group::enter, [&](Group& state) -> Result<void> {
    state.rounds->driver().poke();
    return {};
  });
}

int lockstep_leave(lockstep_group* group, const char* text) {
  return in_group(group, &Group::enter_alone, [&](Group& state) -> Result<void> {
    state.leave(text == nullptr ? "no reason was given" : text);
    return {};
  });
}

int lockstep_ends_at_loss(lockstep_group* group, int ends) {
  return guarded([&]() -> Result<void> {
    if (group == nullptr) return bad_input(kNoGroup);
    if (group->state->world.watch) group->state->world.watch->ends_at_loss(ends != 0);
    return {};
  });
}

int lockstep_done(lockstep_group* group) {
  return in_group(group, &Group::enter_alone, [&](Group& state) -> Result<void> {
    state.over = true;
    return {};
  });
}

void lockstep_group_close(lockstep_group* group) {
  if (group == nullptr) return;
  const std::shared_ptr<Group> kept = group->state;
  const auto turn = kept->turns.take("the end of the group");
  if (!turn) {  // the group is not freed, because the other call uses it
    fail(turn.error());
    kept->world.end_job(turn.error());
    return;
  }
  (void)guarded([&]() -> Result<void> {
    Group& state = *kept;
    if (!state.over && !state.inside) state.leave("its program ended without lockstep_finish()");
    state.over = true;
    return {};
  });
  (void)guarded([&]() -> Result<void> {
    group->state->rounds.reset();
    group->state->parted.clear();
    // Destroys the members of the world in reverse order, which an assignment would not.
    const worker::World gone = std::move(group->state->world);
    return {};
  });
  delete group;
}

}  // extern "C"
