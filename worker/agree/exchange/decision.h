// What the group decided for one entry of a frame: static or symbolic per dim, bounds, hints. A
// pure function of exchanged data; the same bytes on every rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/shapes/expr/expr.h>
#include <lockstep/worker/agree/exchange/consistency.h>
#include <lockstep/worker/agree/exchange/host_value.h>
#include <lockstep/worker/agree/exchange/observation.h>

namespace lockstep::worker {

struct JointObservation;

/// One size or int: a number, or symbol number `symbol` of the decision.
struct DimDecision {
  bool is_symbol = false;
  std::uint32_t symbol = 0;
  std::int64_t value = 0;  // static only
  bool operator==(const DimDecision&) const = default;
};

/// First words of the location of a guard that fixes an input which the user declared as a number.
/// The input's name follows; there is no source line.
inline constexpr std::string_view kFixedInput = "the plain number ";

struct SourceDecision {
  SourceSpec spec;
  std::vector<DimDecision>
      dims;  // tensor: per dim; int: one; bool: one, static 0 or 1; float: none
  bool operator==(const SourceDecision&) const = default;
};

struct SymbolDecision {
  std::string source;  // "tokens.size(0)", or the name of an int
  bool unbacked = false;
  std::optional<std::int64_t> min;  // nullopt: no bound (ints)
  std::int64_t hint = 0;            // from one rank for all symbols
  bool pinned_is_error = false;     // a rank marked the dim dynamic: a guard must not fix it
  bool settled = false;             // only DecisionConfig::settle makes it a symbol
  bool operator==(const SymbolDecision&) const = default;
};

struct Decision {
  std::vector<SourceDecision> sources;  // in the order of the source list
  std::vector<SymbolDecision> symbols;  // s0, s1, … over sources in order, dims in order
  std::vector<JoinedField> fields{};    // joined in the call that decided; sorted by name
  bool operator==(const Decision&) const = default;
  /// Fingerprint of everything but the hints.
  [[nodiscard]] shapes::Fingerprint digest() const;
  /// The source list of the calls that the decision serves.
  [[nodiscard]] std::shared_ptr<const SourceList> list() const;
  /// The field with that name, or nullptr.
  [[nodiscard]] const JoinedField* field(std::string_view name) const;
  /// The symbols as a ShapeEnv names them when they are made in this order: backed and unbacked
  /// symbols are counted separately. Guards of the trace mention these symbols.
  [[nodiscard]] std::vector<shapes::Symbol> trace_symbols() const;
  /// The `count` backed symbols after those of trace_symbols(): the trace's host values
  /// (host_value.h).
  [[nodiscard]] std::vector<shapes::Symbol> host_symbols(std::size_t count) const;
  /// Names trace_symbols() and host_symbols() by their source, for messages. The result holds no
  /// reference to the decision.
  [[nodiscard]] shapes::Namer source_namer(const std::vector<HostValue>& values = {}) const;
};

/// Evaluates a host value in a call; nullopt if its scalars were not read.
[[nodiscard]] std::optional<std::int64_t> value_of(const HostValue& value,
                                                   const Observation& observation);

/// One line: "tokens: f32[s0, 10]; n: int 3; lr: float; training: bool true | s0 = tokens.size(0)
/// min 2 hint 5 | capacity = max 512". Equal decisions print equal text.
[[nodiscard]] std::string decision_text(const Decision& decision);

/// The part of a job's configuration that decisions depend on; compared at start-up.
struct DecisionConfig {
  Consistency consistency = Consistency::SameGraph;
  bool automatic_dynamic = true;
  bool assume_at_least_two = true;
  int recompile_limit = 8;  // 1 to 64
  /// Once one structure of inputs has half of recompile_limit entries, the new one included, the
  /// new entry takes every size and int that is not marked static as a symbol, whether it varies or
  /// not.
  bool settle = true;
  /// Ints stay constants as long as all ranks of a call have the same value.
  bool specialize_int = false;
  /// Floats are constants of traced functions: each value has its own entry.
  bool specialize_float = false;
  bool operator==(const DecisionConfig&) const = default;
};

/// The decision that the group reports for the joint call (rules.md, "Per call", 4). Each hint is
/// the size on the lowest rank that has the dim; apply_hints (hints.h) then sets the donor's sizes.
/// Requires that find_conflict found no conflict.
[[nodiscard]] Decision decide(const JointObservation& joint, const DecisionConfig& config);
/// The decision for the sources and bools of one rank: what that rank compiles. Differs from the
/// reported decision under shared_sizes only. Errors: Internal if `joint` lacks a source.
[[nodiscard]] Result<Decision> decide_for(const Observation& own, const JointObservation& joint,
                                          const DecisionConfig& config);

/// True if `newer` serves all calls that `older` serves.
[[nodiscard]] bool supersedes(const Decision& newer, const Decision& older);

/// A size or int that is a symbol on some rank.
struct JointSymbol {
  std::size_t source = 0;          // index into JointObservation::sources
  std::optional<std::size_t> dim;  // nullopt: an int
  bool unbacked = false;
};
/// The symbols in the order of sources; a source's int before its dims.
[[nodiscard]] std::vector<JointSymbol> joint_symbols(const JointObservation& joint);

}  // namespace lockstep::worker
