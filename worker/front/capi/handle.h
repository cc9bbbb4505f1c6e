// The types behind the opaque handles of lockstep.h, and the boundary that no exception crosses.
// Internal to this folder.
#pragma once

#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep.h>

#include <lockstep/collectives/base/turn.h>
#include <lockstep/worker/agree/agreement/shared_bytes.h>
#include <lockstep/worker/agree/process/session.h>
#include <lockstep/worker/agreement.h>

namespace lockstep::capi {
struct Group;
}

struct lockstep_report {
  explicit lockstep_report(lockstep::Status what);
  lockstep::Status status;
  std::string text;
  std::vector<std::string> ranks;  // the ranks of each row as text
};

struct lockstep_decision {
  explicit lockstep_decision(lockstep::worker::Decision what);
  lockstep::worker::Decision decision;
  std::string text, json;
};

struct lockstep_built {
  const lockstep::worker::Decision& decision;
  std::vector<lockstep::shapes::Guard> guards;
  std::vector<lockstep::worker::UniformSize> uniform;
  std::optional<lockstep::Status> failure;  // the build's first failure
  lockstep::capi::Group& group;
  lockstep::Bytes shared{};                 // the bytes last returned to the callback
  std::uint32_t shares = 0;                 // rounds of lockstep_build_share() in this build
  std::optional<lockstep::Status> ended{};  // error of such a round, the same on all ranks
};

struct lockstep_observation {
  /// The observation as it is now; sources in order of their names.
  [[nodiscard]] const lockstep::worker::Observation& current() const;

  struct Source {
    lockstep::worker::SourceSpec spec;
    std::vector<std::int64_t> values;
    std::vector<lockstep::worker::Mark> marks;
    std::int64_t order = 0;  // order of its dims in memory
  };
  std::vector<Source> sources;                  // in order of declaration
  std::vector<lockstep::worker::Field> fields;  // in order of declaration
  mutable bool declared = true;                 // sources were declared since the list was made
  mutable bool changed = true;                  // values, orders or marks changed since

 private:
  void make_list() const;
  void copy_values() const;
  mutable std::vector<std::size_t> order_;  // indices of `sources` in order of names
  mutable lockstep::worker::Observation observation_;
};

namespace lockstep::capi {

/// The code that a C caller sees.
[[nodiscard]] int code_number(Code code);
/// Returns the error code of a C number; nullopt if the number is no error code.
[[nodiscard]] std::optional<Code> code_of(int number);
inline constexpr const char* kNoGroup =
    "group is NULL; open one with lockstep_group_open(), and do not use it once it is closed";
inline constexpr const char* kNoAgreement =
    "agreement is NULL; make one with lockstep_agreement_create(), and do not use it once it is "
    "freed";

/// Checks that a name can be declared: it is not empty, and no source or field has that name.
/// `what`: "source" or "field".
[[nodiscard]] Result<void> check_name(const lockstep_observation* observation, const char* name,
                                      std::string_view what);

/// Keeps the error for lockstep_last_error() of this thread; returns the error's number.
int fail(Status status) noexcept;

/// Runs the body of a C function; whatever it throws becomes an error.
template <class Body>
int guarded(const Body& body) noexcept {
  try {
    const Result<void> done = body();
    return done ? LOCKSTEP_OK : fail(done.error());
  } catch (const std::bad_alloc&) {
    return fail(environment_error("there is no memory left for lockstep"));
  } catch (const std::exception& error) {
    return fail(internal_error(error.what()));
  } catch (...) {
    return fail(internal_error("an exception that is no std::exception"));
  }
}

/// A group, shared by its handle and its agreements.
struct Group final : worker::RoundObserver {
  using Kind = worker::RoundKey::Kind;

  worker::Session session;
  worker::World& world = session.world;
  std::unique_ptr<worker::GroupRounds> rounds;
  int agreements = 0;  // number of agreements made so far
  /// Agreements that were freed while a vote of theirs was in flight: the vote refers to them.
  std::vector<std::unique_ptr<worker::Agreement>> parted;
  std::optional<Status> local_error;  // this rank's error for the next round
  Turns turns{"a group"};
  bool over = false;                 // finished or left, or a rank is gone
  std::atomic<bool> inside = false;  // a collective function is running
  bool all_know = false;             // the last collective function failed, on all ranks
  /// Store of shared builds; null: it has not been opened yet, or cannot be opened.
  std::unique_ptr<coordinator::ArtifactStore> artifacts;
  bool opened_artifacts = false;
  std::unique_ptr<coordinator::ProfileStore> profiles;  // null: the job has no id
  std::map<std::string, int, std::less<>> named;        // number of agreements with each name
  bool keeps_profiles = false;  // this rank is the lowest of those that see the same profiles
  // The program's own collectives: their entry on the board, and how many were issued so far.
  int issued_entry = -1;
  std::atomic<std::uint64_t> issued = 0;

  /// Collective: compares configurations and builds of the ranks.
  [[nodiscard]] Result<void> start(std::string configuration);
  /// Collective, after start(): lets this rank report to the coordinator, if the settings name one.
  [[nodiscard]] Result<void> publish(const worker::Settings& settings);
  /// Collective, after start(): opens the profiles stored under the job's id, if it has one.
  [[nodiscard]] Result<void> open_profiles(const worker::Settings& settings);
  /// Returns the store of shared builds; opens it at the first call.
  [[nodiscard]] worker::SharedStore shared_store();
  /// Collective, after start(): starts this rank's record if the settings name a folder.
  [[nodiscard]] Result<void> record(const worker::Settings& settings);
  /// Takes the turn for a function that build callbacks may call. Errors: BadInput during a call of
  /// another thread, and if the group is over.
  [[nodiscard]] Result<Turn> enter();
  /// Takes the turn for any other function. Errors: those of enter(), and BadInput inside a
  /// collective function.
  [[nodiscard]] Result<Turn> enter_alone();
  /// Returns a status with the pending local error, and clears that error.
  [[nodiscard]] worker::RankStatus take_rank_status();
  /// Collective. `name` distinguishes functions of one kind: ranks in different functions are in
  /// different rounds.
  [[nodiscard]] Result<void> status_round(Kind kind, const char* name);
  /// Collective: true if `mine` is true on any rank. A rank with a local error reports the error
  /// instead.
  [[nodiscard]] Result<bool> any_rank(Kind kind, const char* name, bool mine);
  /// Collective; as GroupRounds::agree_words. `deadline`: of this call; zero: the group's.
  [[nodiscard]] Result<worker::GroupRounds::AgreedWords> agree_words(
      const worker::RoundKey& round, const Result<worker::GroupRounds::Words>& words,
      const Result<Duration>& deadline);
  [[nodiscard]] Result<void> resync();
  void leave(const std::string& why);
  void note(std::string_view event);
  /// Notes that a collective of the program's own begins.
  void issues(std::string_view text);
  void stalls();
  void began(const worker::RoundKey& round) override { note(round.text()); }
  void ended(const worker::RoundKey& round, const Result<void>& result) override {
    if (session.recorder() != nullptr) session.recorder()->round(round, result);
  }
  /// Notes and returns the result of a collective function. After Gone, Stuck or RankLost the group
  /// is over.
  template <class T>
  [[nodiscard]] const Result<T>& seen(const Result<T>& result) {
    all_know = result.has_error();
    if (result) return result;
    const Code code = result.error().code;
    over |= code == Code::Gone || code == Code::Stuck || code == Code::RankLost;
    return result;
  }

  /// During its lifetime the board shows `phase` for this rank.
  class Phased {
   public:
    Phased(Group& group, Phase phase) : group_(group) { say(phase); }
    ~Phased() { say(Phase::Running); }
    Phased(const Phased&) = delete;
    Phased& operator=(const Phased&) = delete;

   private:
    void say(Phase phase) {
      if (group_.world.watch) group_.world.watch->seat().phase(phase);
    }
    Group& group_;
  };

  /// During its lifetime a collective function counts as running.
  class Inside {
   public:
    explicit Inside(Group& group) : group_(group) { group_.inside = true; }
    ~Inside() { group_.inside = false; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Group& group_;
  };
};

}  // namespace lockstep::capi

struct lockstep_group {
  std::shared_ptr<lockstep::capi::Group> state;
};

struct lockstep_agreement {
  ~lockstep_agreement();
  std::shared_ptr<lockstep::capi::Group> group;
  std::unique_ptr<lockstep::worker::Agreement> core;
  /// By frame and version; never removed, so that decisions handed out stay valid.
  std::map<std::string, std::map<int, std::unique_ptr<lockstep_decision>>, std::less<>> decisions;
  std::optional<lockstep_report> finding;
  std::string summary;
};
