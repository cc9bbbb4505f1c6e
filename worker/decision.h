// What the group decided for one entry of a frame: static or symbolic per dim, bounds, hints. A pure
// function of exchanged data; the same bytes on every rank.
#pragma once

#include <lockstep/worker/observation.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::worker {

/// One size or int: a number, or symbol number `symbol` of the decision.
struct DimDecision {
  bool is_symbol = false;
  std::uint32_t symbol = 0;
  std::int64_t value = 0;  // static only
  bool operator==(const DimDecision&) const = default;
};

struct SourceDecision {
  SourceSpec spec;
  std::vector<DimDecision> dims;  // tensor: per dim; int: one; bool: one, static 0 or 1; float: none
  bool operator==(const SourceDecision&) const = default;
};

struct SymbolDecision {
  std::string source;  // "tokens.size(0)", or the name of an int
  bool unbacked = false;
  std::optional<std::int64_t> min;  // nullopt: no bound (ints)
  std::int64_t hint = 0;            // from one rank for all symbols
  bool pinned_is_error = false;     // a rank marked it dynamic: specialising it is an error
  bool operator==(const SymbolDecision&) const = default;
};

struct Decision {
  std::vector<SourceDecision> sources;  // as in the source list
  std::vector<SymbolDecision> symbols;  // s0, s1, … over sources in order, dims in order
  bool operator==(const Decision&) const = default;
  /// Covers everything but the hints.
  [[nodiscard]] shapes::Fingerprint digest() const;
};

enum class Consistency : std::uint8_t { SameGraph, SameCollectives, SharedSizes };

/// The part of a job's configuration that decisions depend on; compared at start-up.
struct DecisionConfig {
  Consistency consistency = Consistency::SameGraph;
  bool automatic_dynamic = true;
  bool assume_at_least_two = true;
  int recompile_limit = 8;
  bool operator==(const DecisionConfig&) const = default;
};

}  // namespace lockstep::worker
