// User-defined ops and host calls: the definition that their nodes carry. Nodes of all other ops
// carry none.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include <lockstep/worker/tensor/graph/array.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// Dtype and sizes of the result, from those of the inputs. Sizes are expressions: the rule is
/// called once for all sizes, and must be a pure function. An exception refuses the inputs, with
/// its message. If sizes of two inputs have to be equal, the caller of the op has to check() that.
using OwnShapeRule = std::function<TensorMeta(std::span<const TensorMeta> inputs)>;
/// Writes every element of `result`, which has the dtype and sizes that the rule gave. Must not
/// write to the inputs, nor keep a handle on them or on the result.
using OwnReference = std::function<void(std::span<const Array> inputs, Array& result)>;
/// As OwnReference, with a C signature. Elements are row-major; `sizes` are those of input 0, of
/// input 1, .., of the result.
using OwnFunction = void (*)(const void* const* inputs, void* result, const std::int64_t* sizes);

/// The user's claims about an own op, on which the graph relies.
struct OwnClaims {
  /// No effect but its result: equal calls are merged, and unused calls are left out.
  bool pure = true;
  /// Equal inputs give equal bits, in every call and on every rank.
  bool deterministic = true;
  /// The reference may return an input as its result (`result = inputs[0]`), which is then copied
  /// if needed.
  bool may_alias = false;
};

/// Immutable once a node carries it.
struct OwnDefinition {
  std::string name;     // "example.swish": in graphs and errors, and compared by ranks
  std::string version;  // of reference and function, which no rank can compare: change it with them
  OwnShapeRule shape_rule;
  OwnReference reference;
  OwnFunction function = nullptr;  // null: a compiled program calls the reference
  /// Statements in C++ without headers, for programs on the host and on a device; empty: programs
  /// call the function. They see T0* in0, T1* in1, .. and T* out; sizes[] as OwnFunction; `count`,
  /// the elements of the result; and `thread` of `threads`, which share the work: 0 of 1 on the
  /// host.
  std::string host_text{}, cuda_text{};
  OwnClaims claims{};
  /// Fingerprint of a definition that is not available: this definition only serves to show a
  /// program, and cannot run.
  std::optional<shapes::Fingerprint> stands_for{};

  /// Covers name, version, texts, claims, and whether there is a function.
  [[nodiscard]] shapes::Fingerprint fingerprint() const;
  /// Why the definition is invalid: a missing part, or a name that is taken. nullopt if it is
  /// valid.
  [[nodiscard]] std::optional<std::string> flaw() const;
};

/// "example.swish", or the op's name in the table.
[[nodiscard]] std::string_view op_name(const Node& node);

/// True if the node is neither left out nor merged with an equal one: ranks execute it together
/// (is_joint), or it has effects, or one of its bodies holds such a node.
[[nodiscard]] bool must_keep(const Node& node);

/// The shape rule of a node that carries a definition, as shape_rules.h. Errors: TraceError, with
/// the rule's message.
[[nodiscard]] Result<TensorMeta> own_result(const Node& node, std::span<const TensorMeta> inputs);

}  // namespace lockstep::worker
