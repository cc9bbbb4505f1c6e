// What one rank compiled in the model of upstream's way: constants and symbols by its own sizes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/worker/exchange/exchange.h>
#include <lockstep/worker/exchange/observation.h>

namespace lockstep::worker::simulator {

/// What ranks of one class compiled alike in one call. Immutable.
struct UpstreamBase {
  enum class Use : std::uint8_t { Constant, Int, Dynamic, Unbacked };
  std::shared_ptr<const SourceList> list;
  std::vector<Use> uses;             // parallel to values
  std::vector<std::int64_t> values;  // constants
  std::vector<Mark> marks;           // of the call that compiled; empty: none
};

/// Decides by the joined state of a frame. `automatic`: history counts.
[[nodiscard]] UpstreamBase decide_upstream(const Observation& seen, const FrameState& state,
                                           bool automatic);

/// A rank's own program: its base, with the constants that it alone has.
struct UpstreamProgram {
  using Constants = std::vector<std::pair<std::uint32_t, std::int64_t>>;  // by place
  std::shared_ptr<const UpstreamBase> base;
  Constants own;
  shapes::Fingerprint print;

  [[nodiscard]] static UpstreamProgram make(std::shared_ptr<const UpstreamBase> base,
                                            Constants own);
  [[nodiscard]] bool fits(const Observation& seen) const;
  /// As Side::uses.
  [[nodiscard]] std::vector<std::string> uses() const;
};

/// The constants that a rank has of its own: sizes of 0 and 1, and what it alone holds static.
/// nullopt: it marked such a size dynamic, which is an error on that rank.
[[nodiscard]] std::optional<UpstreamProgram::Constants> own_constants(const UpstreamBase& base,
                                                                      const Observation& seen);

}  // namespace lockstep::worker::simulator
