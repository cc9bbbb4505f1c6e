// What users bring: the definition that a node of an own op or of a host call carries. Values of
// the operations that stand in the op table have none.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include <lockstep/worker/graph/array.h>
#include <lockstep/worker/graph/graph.h>

namespace lockstep::worker {

/// Dtype and sizes of the result, from those of the inputs. Sizes are expressions: the rule is
/// asked once for all sizes, and has to be a pure function. What it throws refuses the inputs, with
/// its words; sizes of two inputs that have to be equal are the caller's to check().
using OwnShapeRule = std::function<TensorMeta(std::span<const TensorMeta> inputs)>;
/// Writes every element of `result`, which has the dtype and sizes that the rule gave. The inputs
/// are not to be written to, and no handle on them or the result is to be kept.
using OwnReference = std::function<void(std::span<const Array> inputs, Array& result)>;
/// The same with a C signature. Elements are row-major; `sizes` are those of input 0, of input 1,
/// .., of the result.
using OwnFunction = void (*)(const void* const* inputs, void* result, const std::int64_t* sizes);

/// What the user says of an own op, and the graph relies on.
struct OwnClaims {
  /// No effect but its result: equal calls are one, and one that nobody needs is left out.
  bool pure = true;
  /// Equal inputs give equal bits, in every call and on every rank.
  bool deterministic = true;
  /// The reference may hand out an input as its result (`result = inputs[0]`), which is then copied
  /// where that is needed.
  bool may_alias = false;
};

/// Immutable once a node carries it.
struct OwnDefinition {
  std::string name;     // "example.swish": what ranks, graphs and errors call it
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
  /// Of a definition that is not here: this one shows a program that uses it, and cannot run.
  std::optional<shapes::Fingerprint> stands_for{};

  /// Covers all that is text: name, version, texts, claims, and whether there is a function.
  [[nodiscard]] shapes::Fingerprint fingerprint() const;
  /// Why it is none: what is missing, or that the name is taken.
  [[nodiscard]] std::optional<std::string> flaw() const;
};

/// "example.swish", or the op's name in the table.
[[nodiscard]] std::string_view op_name(const Node& node);

/// It is neither left out nor merged with an equal one: ranks do it together (is_joint), or it has
/// effects, or a body of it holds such a node.
[[nodiscard]] bool has_to_stay(const Node& node);

/// The shape rule of a node that carries a definition, as shape_rules.h. Errors: TraceError, in the
/// rule's words.
[[nodiscard]] Result<TensorMeta> own_result(const Node& node, std::span<const TensorMeta> inputs);

}  // namespace lockstep::worker
