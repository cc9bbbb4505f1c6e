// Program of one rank in the model of upstream's way; the rank's own sizes decide constants and
// symbols.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/worker/agree/exchange/exchange.h>
#include <lockstep/worker/agree/exchange/observation.h>

namespace lockstep::worker::simulator {

/// Common part of the programs that ranks of one class compiled in one call. Immutable.
struct UpstreamBase {
  enum class Use : std::uint8_t { Constant, Int, Dynamic, Unbacked };
  std::shared_ptr<const SourceList> list;
  std::vector<Use> uses;             // one per value
  std::vector<std::int64_t> values;  // values of the call that compiled
  std::vector<Mark> marks;           // marks of the call that compiled; empty: none
};

/// Decides the use of each value. `state`: the frame's joined history of sizes; ignored unless
/// `automatic`.
[[nodiscard]] UpstreamBase decide_upstream(const Observation& seen, const FrameState& state,
                                           bool automatic);

/// Program of a rank: its base, with the constants that only this rank has.
struct UpstreamProgram {
  using Constants = std::vector<std::pair<std::uint32_t, std::int64_t>>;  // by index of the value
  std::shared_ptr<const UpstreamBase> base;
  Constants own;
  shapes::Fingerprint print;

  [[nodiscard]] static UpstreamProgram make(std::shared_ptr<const UpstreamBase> base,
                                            Constants own);
  [[nodiscard]] bool fits(const Observation& seen) const;
  /// As in Side::uses.
  [[nodiscard]] std::vector<std::string> uses() const;
};

/// Constants that only this rank has: its sizes of 0 and 1, and values that differ from constants
/// of the base. nullopt: the rank marked a size of 0 or 1 dynamic, which is an error on that rank.
[[nodiscard]] std::optional<UpstreamProgram::Constants> own_constants(const UpstreamBase& base,
                                                                      const Observation& seen);

}  // namespace lockstep::worker::simulator
