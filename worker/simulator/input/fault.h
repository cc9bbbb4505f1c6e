// What goes wrong in a simulated job, on which ranks and when: the scenario's section "faults".
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/rank.h>

namespace lockstep::worker::simulator {

/// One fault. It strikes when its ranks come to `call`, each at its own time, or at `at` of virtual
/// time; Slow and Late with neither: from the start.
struct Fault {
  enum class Kind : std::uint8_t {
    Slow,          // each step of these ranks takes `delay` longer
    Stopped,       // they neither compute nor send nor receive, as by SIGSTOP
    Crashed,       // they are gone, as by SIGKILL
    Late,          // they come `delay` late to the call, or to the start of the job
    Branch,        // their function branches on something that differs there
    CompileFails,  // their compiler fails at the first compile from the call on
    CacheLost,     // they have forgotten all entries and sizes when they come to the call
  };
  Kind kind = Kind::Crashed;
  RankSet ranks;
  std::optional<std::size_t> call;
  std::optional<Instant> at;      // Slow, Stopped, Crashed
  std::optional<Duration> lasts;  // Slow, Stopped; nullopt: to the end
  Duration delay{0};              // Slow, Late
  bool rejected = false;  // CompileFails: the text is wrong; else it is this rank's compiler
  bool operator==(const Fault&) const = default;
};

/// What scenarios call the kinds, in their order.
inline constexpr std::string_view kFaultNames[] = {"slow",   "stopped",       "crashed",   "late",
                                                   "branch", "compile_fails", "cache_lost"};
static_assert(std::size(kFaultNames) == static_cast<std::size_t>(Fault::Kind::CacheLost) + 1,
              "every kind of fault has a name, in the order of the enumerators");
[[nodiscard]] constexpr std::string_view fault_name(Fault::Kind kind) {
  return kFaultNames[static_cast<std::size_t>(kind)];
}
/// "crashed at call 5", "stopped at 1.5 s for 30 s", "slow by 0.02 s a step"
[[nodiscard]] std::string fault_text(const Fault& fault);

/// What a scenario without a section "cost" takes for granted.
inline constexpr Duration kUsualStep = std::chrono::milliseconds(100);
inline constexpr Duration kUsualCompile = std::chrono::seconds(2);

/// The section: the faults, and the times of the job that they meet; what is not given is the cost
/// model's, where the scenario has one.
struct FaultPlan {
  /// A rank that is waited for, and shows neither progress nor a lease for so long, ends the job.
  Duration deadline = std::chrono::seconds(60);
  Duration latency = std::chrono::microseconds(5);  // of a message
  std::optional<Duration> step;                     // a rank's own work after each call; else 0.1 s
  std::optional<Duration> compile;                  // of an entry, on each rank; else 2 s
  std::vector<Fault> list;
  bool operator==(const FaultPlan&) const = default;
};

}  // namespace lockstep::worker::simulator
