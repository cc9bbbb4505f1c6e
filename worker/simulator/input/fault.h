// Faults of a simulated job, with their ranks and times: the scenario's section "faults".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/rank.h>

namespace lockstep::worker::simulator {

/// One fault. It takes effect when its ranks arrive at `call`, each at its own time, or at virtual
/// time `at`. Slow, Late and CompileFails with neither take effect from the start.
struct Fault {
  enum class Kind : std::uint8_t {
    Slow,          // each step of these ranks takes `delay` longer
    Stopped,       // they neither compute nor send nor receive, as under SIGSTOP
    Crashed,       // they are gone, as after SIGKILL
    Late,          // they arrive `delay` late at the call, or at the start of the job
    Branch,        // their function branches on a float that differs on these ranks
    CompileFails,  // their compiler fails at the first compile from the call on
    CacheLost,     // they lose the frame's entries and sizes when they arrive at the call
  };
  Kind kind = Kind::Crashed;
  RankSet ranks;
  std::optional<std::size_t> call;
  std::optional<Instant> at;      // Slow, Stopped, Crashed
  std::optional<Duration> lasts;  // Slow, Stopped; nullopt: to the end
  Duration delay{0};              // Slow, Late
  bool rejected = false;  // CompileFails: the compiler rejects the text; else it cannot be run
  bool operator==(const Fault&) const = default;
};

/// Properties of a kind of fault. Its effect is in cluster/timed_run.cpp and timed_call.cpp.
struct FaultRow {
  enum Trait : std::uint8_t {
    AtATime = 1,          // may take effect at a time (at_s), not only at a call
    NeedsNoTime = 2,      // needs no call or time: starts at once, or at the first occasion
    Lasts = 4,            // may end again (for_s)
    Rejects = 8,          // has the key `rejected`
    Halts = 16,           // its ranks do nothing more: a rank has at most one such fault
    ReportedByCall = 32,  // one call reports it to all ranks; else the watchdog does
  };
  std::string_view name{};  // the name in scenarios
  int traits = 0;
  std::string_view delay{};  // text of the delay in fault_text(); empty: the kind takes no delay_s

  [[nodiscard]] constexpr bool is(Trait trait) const { return (traits & trait) != 0; }
};

constexpr FaultRow row_of(Fault::Kind kind) {
  using F = FaultRow;
  switch (kind) {
    case Fault::Kind::Slow:
      return {"slow", F::AtATime | F::NeedsNoTime | F::Lasts, " by {} a step"};
    case Fault::Kind::Stopped:
      return {"stopped", F::AtATime | F::Lasts | F::Halts};
    case Fault::Kind::Crashed:
      return {"crashed", F::AtATime | F::Halts};
    case Fault::Kind::Late:
      return {"late", F::NeedsNoTime, " by {}"};
    case Fault::Kind::Branch:
      return {"branch", F::ReportedByCall};
    case Fault::Kind::CompileFails:
      return {"compile_fails", F::NeedsNoTime | F::Rejects | F::ReportedByCall};
    case Fault::Kind::CacheLost:
      return {"cache_lost", F::ReportedByCall};
  }
  return {};
}

/// Names of faults, by kind.
inline constexpr auto kFaultNames = [] {
  constexpr std::size_t count = [] {
    std::size_t n = 0;
    while (!row_of(static_cast<Fault::Kind>(n)).name.empty()) ++n;
    return n;
  }();
  std::array<std::string_view, count> names;
  for (std::size_t i = 0; i < count; ++i) names[i] = row_of(static_cast<Fault::Kind>(i)).name;
  return names;
}();

/// Text such as "crashed at call 5", "stopped at 1.5 s for 30 s" or "slow by 0.02 s a step".
[[nodiscard]] std::string fault_text(const Fault& fault);

/// Times of a job whose scenario has no section "cost".
inline constexpr Duration kUsualStep = std::chrono::milliseconds(100);
inline constexpr Duration kUsualCompile = std::chrono::seconds(2);

/// The section: the faults, and the times of the job. Times that are not given are the cost
/// model's, or the defaults here, kUsualStep and kUsualCompile, if the scenario has no cost model.
struct FaultPlan {
  /// The job ends if a rank that others wait for shows neither progress nor a lease for this long.
  Duration deadline = std::chrono::seconds(60);
  Duration latency = std::chrono::microseconds(5);  // time of a message
  std::optional<Duration> step;                     // a rank's own work after each call
  std::optional<Duration> compile;                  // time to build an entry, on each rank
  std::vector<Fault> list;
  bool operator==(const FaultPlan&) const = default;
};

}  // namespace lockstep::worker::simulator
