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
#include <lockstep/worker/agreement.h>
#include <lockstep/worker/agreement/shared_bytes.h>
#include <lockstep/worker/process/session.h>

namespace lockstep::capi {
struct Group;
}

struct lockstep_report {
  explicit lockstep_report(lockstep::Status what);
  lockstep::Status status;
  std::string text;
  std::vector<std::string> ranks;  // per row
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
  std::optional<lockstep::Status> failure;  // the first
  lockstep::capi::Group& group;
  lockstep::Bytes shared{};                 // the bytes last returned to the callback
  std::uint32_t shares = 0;                 // rounds of lockstep_build_share() in this build
  std::optional<lockstep::Status> ended{};  // error of such a round, on all ranks
};

struct lockstep_observation {
  /// The observation as it is now; sources in order of their names.
  [[nodiscard]] const lockstep::worker::Observation& current() const;

  struct Source {
    lockstep::worker::SourceSpec spec;
    std::vector<std::int64_t> values;
    std::vector<lockstep::worker::Mark> marks;
    std::int64_t order = 0;  // of its dims
  };
  std::vector<Source> sources;                  // in order of declaration
  std::vector<lockstep::worker::Field> fields;  // in order of declaration
  mutable bool declared = true;                 // sources were declared since the list was made
  mutable bool changed = true;                  // values, orders or marks changed since

 private:
  void make_list() const;
  void copy_values() const;
  mutable std::vector<std::size_t> order_;  // by name
  mutable lockstep::worker::Observation observation_;
};

namespace lockstep::capi {

/// The code that a C caller sees.
[[nodiscard]] int code_number(Code code);
/// Returns the error code of a C number; nullopt if it is none.
[[nodiscard]] std::optional<Code> code_of(int number);
inline constexpr const char* kNoGroup =
    "group is NULL; open one with lockstep_group_open(), and do not use it once it is closed";
inline constexpr const char* kNoAgreement =
    "agreement is NULL; make one with lockstep_agreement_create(), and do not use it once it is "
    "freed";

/// Checks that a name can be declared: it is not empty, and no source or field has it. `what`: the
/// kind of thing it names.
[[nodiscard]] Result<void> check_name(const lockstep_observation* observation, const char* name,
                                      std::string_view what);

/// Keeps the error for lockstep_last_error() of this thread; returns its number.
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
  int agreements = 0;  // made so far
  /// Agreements freed during a vote in flight of theirs, which refers to them.
  std::vector<std::unique_ptr<worker::Agreement>> parted;
  std::optional<Status> local_error;  // this rank's error for the next round
  Turns turns{"a group"};
  bool over = false;                 // finished or left, or a rank is gone
  std::atomic<bool> inside = false;  // a collective function is running
  bool all_know = false;             // the last collective function failed, on all ranks alike
  /// Store of shared builds; null: not yet opened, or it cannot be.
  std::unique_ptr<coordinator::ArtifactStore> artifacts;
  bool opened_artifacts = false;
  std::unique_ptr<coordinator::ProfileStore> profiles;  // null: the job has no id
  std::map<std::string, int, std::less<>> named;        // agreements, by name
  bool keeps_profiles = false;                          // for the ranks that see the same ones
  // The program's own collectives: their entry of the board, and their number so far.
  int issued_entry = -1;
  std::atomic<std::uint64_t> issued = 0;

  /// Collective: compares configurations and builds of the ranks.
  [[nodiscard]] Result<void> start(std::string configuration);
  /// Collective, after start(): lets this rank report to a coordinator, as `settings` say.
  [[nodiscard]] Result<void> publish(const worker::Settings& settings);
  /// Collective, after start(): opens what the job has stored under its id, if it has one.
  [[nodiscard]] Result<void> open_profiles(const worker::Settings& settings);
  /// Returns the store of shared builds; opens it at the first call.
  [[nodiscard]] worker::SharedStore shared_store();
  /// Collective, after start(): starts this rank's record if the settings name a folder.
  [[nodiscard]] Result<void> record(const worker::Settings& settings);
  /// For a function that build callbacks may call. Errors: BadInput during a call of another
  /// thread, and if the group is over.
  [[nodiscard]] Result<Turn> enter();
  /// For any other function. Errors: those of enter(), and BadInput inside a collective function.
  [[nodiscard]] Result<Turn> enter_alone();
  /// Takes the local error, which is then no longer pending.
  [[nodiscard]] worker::RankStatus take_rank_status();
  /// `name` distinguishes functions of one kind: ranks in different ones are not in the same round.
  [[nodiscard]] Result<void> status_round(Kind kind, const char* name);
  /// True if any rank says yes. A rank with a local error reports the error instead.
  [[nodiscard]] Result<bool> any_rank(Kind kind, const char* name, bool mine);
  [[nodiscard]] Result<void> resync();
  void leave(const std::string& why);
  void note(std::string_view event);
  /// A collective of the program's own begins.
  void issues(std::string_view text);
  void stalls();
  void began(const worker::RoundKey& round) override { note(round.text()); }
  void ended(const worker::RoundKey& round, const Result<void>& result) override {
    if (session.recorder() != nullptr) session.recorder()->round(round, result);
  }
  /// Notes the result of a collective function. After a rank is gone the group is over.
  template <class T>
  [[nodiscard]] const Result<T>& seen(const Result<T>& result) {
    all_know = result.has_error();
    if (result) return result;
    const Code code = result.error().code;
    over |= code == Code::Gone || code == Code::Stuck || code == Code::RankLost;
    return result;
  }

  /// Shows a phase of this rank on the board while it lives.
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

  /// Marks a collective function as running while it lives.
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
