// What stands behind the opaque handles of lockstep.h, and the boundary that no exception crosses.
// Internal to this folder.
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <lockstep.h>

#include <lockstep/worker/agreement.h>
#include <lockstep/worker/world.h>

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

struct lockstep_failure {
  std::optional<lockstep::Status> status;
};

struct lockstep_observation {
  /// The observation as it is now; sources in order of their names.
  [[nodiscard]] const lockstep::worker::Observation& current() const;

  struct Source {
    lockstep::worker::SourceSpec spec;
    std::vector<std::int64_t> values;
    std::vector<std::int64_t> strides;  // empty: contiguous
    std::vector<lockstep::worker::Mark> marks;
  };
  std::vector<Source> sources;   // in order of declaration
  mutable bool declared = true;  // sources have come since the list was made
  mutable bool changed = true;   // values, strides or marks have

 private:
  void make_list() const;
  void copy_values() const;
  mutable std::vector<std::size_t> order_;  // by name
  mutable lockstep::worker::Observation observation_;
};

namespace lockstep::capi {

/// The code that a C caller sees.
[[nodiscard]] int code_number(Code code);
/// nullopt: no code of an error.
[[nodiscard]] std::optional<Code> code_of(int number);
[[nodiscard]] Status bad_input(std::string message);

/// Keeps the error for lockstep_last_error() of this thread; returns its number.
int fail(Status status) noexcept;

/// Runs the body of a C function; whatever it throws becomes an error.
template <class Body>
int guarded(const Body& body) noexcept {
  try {
    const Result<void> done = body();
    return done ? LOCKSTEP_OK : fail(done.error());
  } catch (const std::bad_alloc&) {
    return fail({Code::Environment, "there is no memory left for lockstep", {}, {}});
  } catch (const std::exception& error) {
    return fail({Code::Internal, error.what(), {}, {}});
  } catch (...) {
    return fail({Code::Internal, "an exception that is no std::exception", {}, {}});
  }
}

/// A group as its handle and its agreements share it.
struct Group {
  worker::World world;
  std::unique_ptr<worker::CallDriver> rounds;
  worker::RoundKey key;           // of the last round; its number counts all collective functions
  std::optional<Status> trouble;  // what this rank brings to the next round
  std::thread::id owner = std::this_thread::get_id();
  bool over = false;    // finished or left, or a rank is gone
  bool inside = false;  // a collective function is under way

  /// Collective: the ranks compare what they are.
  [[nodiscard]] Result<void> start(const std::string& configuration);
  /// Errors: BadInput where a collective function cannot be called now.
  [[nodiscard]] Result<void> usable() const;
  /// The trouble goes with it.
  [[nodiscard]] worker::Standing take_standing();
  /// `name` tells functions of one kind apart: ranks in different ones are not in the same round.
  [[nodiscard]] Result<void> status_round(worker::RoundKey::Kind kind, const char* name);
  /// Whether any rank says yes. A rank in trouble brings that.
  [[nodiscard]] Result<bool> any(worker::RoundKey::Kind kind, const char* name, bool mine);
  void next_round(worker::RoundKey::Kind kind, const char* name);
  void leave(const std::string& why);
  void note(std::string_view event);
  /// Where a rank is gone nobody waits for the others any more.
  template <class T>
  [[nodiscard]] const Result<T>& seen(const Result<T>& result) {
    if (result) return result;
    const Code code = result.error().code;
    over |= code == Code::Gone || code == Code::Stuck || code == Code::RankLost;
    return result;
  }

  /// Marks a collective function as under way.
  class Inside {
   public:
    explicit Inside(Group& group) : group_(group) {
      group_.inside = true;
      // Ranks in different functions count alike, so that after that error they are in step.
      ++group_.key.call;
    }
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
  std::shared_ptr<lockstep::capi::Group> group;
  std::unique_ptr<lockstep::worker::Agreement> core;
  /// Per frame and version; never taken away, so that what was given out stays valid.
  std::map<std::string, std::map<int, std::unique_ptr<lockstep_decision>>, std::less<>> decisions;
  std::optional<lockstep_report> finding;
  std::string summary;
};
