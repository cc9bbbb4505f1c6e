// The graph: what a trace produces, what ranks compare, what is differentiated, interpreted and
// compiled. A list of nodes in execution order; every value is a tensor with symbolic sizes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/collectives/base/dtype.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/shapes/expr/fingerprint.h>
#include <lockstep/shapes/expr/guard.h>
#include <lockstep/worker/agree/exchange/group_guard.h>
#include <lockstep/worker/agree/exchange/host_value.h>
#include <lockstep/worker/agree/exchange/uniform_size.h>
#include <lockstep/worker/tensor/graph/group.h>

namespace lockstep::worker {

/// Index of a node in its graph.
using NodeId = std::uint32_t;

/// One operation of the graph. The comment gives the operands and attributes (`exprs`, `ints`,
/// `number`, `text`); the op table (op.h) gives name, class, shape rule, gradient and emission.
/// Elementwise operands have equal sizes: broadcasting is explicit (Expand). Values are row-major.
// clang-format off
enum class Op : std::uint8_t {
  // Sources of values.
  Input,   // text: source ("batch.tokens"); a float or a rank fact is a 0-d tensor
  Scalar,  // exprs[0] as a 0-d i64 tensor
  Full,    // number everywhere; sizes from meta
  Iota,    // i64, the index along dim ints[0]; sizes from meta
  // Elementwise, one operand.
  Neg, Abs, Exp, Log, Sqrt, Rsqrt, Tanh, Sigmoid, Relu, Not,
  Cast,    // to meta.dtype
  // Elementwise, two operands. Comparisons give bool; Div on ints rounds down, and Mod follows it.
  Add, Sub, Mul, Div, Mod, Maximum, Minimum,
  Lt, Le, Gt, Ge, Eq, Ne, And, Or,
  Where,   // (condition bool, a, b)
  // Views and movement.
  Reshape,  // sizes from meta; same number of elements; number: distinguishes nodes that are
            // otherwise equal
  Permute,  // ints: the operand's dim that each result dim shows
  Expand,   // sizes from meta; operand has as many dims, each equal or the constant 1
  Slice,    // dim ints[0], from exprs[0], length meta.sizes[dim]
  Pad,      // zeros: dim ints[0], exprs[0] before, exprs[1] after
  Cat,      // along dim ints[0]
  // Reductions over dims ints (ascending), which vanish. Over no elements: Sum 0, Amax -inf, Amin
  // +inf (ints: the type's lowest and highest value), Argmax 0. The sum of f32 may be an f64, not
  // rounded.
  Sum, Amax, Amin,
  Argmax,  // i64; over dim ints[0]; the lowest index among equal values
  // Products.
  Matmul,         // [B.., M, K] x [B.., K, N], equal batch dims, 2-D or 3-D
  SegmentMatmul,  // (x [N, K], w [E, K, M], counts i64[E]): rows of segment e times w[e] -> [N, M]
  SegmentOuter,   // (x [N, K], y [N, M], counts i64[E]): x_e^T y_e -> [E, K, M]
  // Indexing and order. Indices are i64 and must be in range.
  IndexSelect,   // (x [R, ..], index [M]): rows of x -> [M, ..]
  IndexAdd,      // (index [M], rows [M, ..]): zeros [exprs[0], ..] plus rows at index, in order
  Argsort,       // (x [.., N]): along the last dim, stable, ascending, NaN last -> i64[.., N]
  Cumsum,        // (x [.., N]): along the last dim, inclusive, as all scans
  SegmentIds,    // (counts i64[K]): each k counts[k] times -> i64[exprs[0]]; exprs[0] is their sum
  Nonzero,       // (mask bool [..]): row-major positions of the first exprs[0] trues, 0 for the
                 // rest if there are fewer
  // Collectives, in this order on every rank. text: the name of their group; empty: the frame's.
  // It never lists ranks, because other ranks have other lists. n is the size of the group.
  AllToAll,       // x [sum(in), ..]; exprs: in_0..in_{n-1}, out_0..out_{n-1} -> [sum(out), ..]
  AllReduce,      // ints[0]: collectives::Reduce
  AllGather,      // [R, ..] -> [n*R, ..]; ints[0]: n
  ReduceScatter,  // [n*R, ..] -> [R, ..]; ints[0]: n; sum
  Broadcast,      // ints[0]: root
  // Host syncs: read values that only exist at run time.
  ToList,  // (x i64[k], k constant): binds k unbacked symbols
  Item,    // (x i64 0-d): binds one; text: the user's name for it ("nonzero().size(0)"), if any
  // Fails the step, on all ranks jointly, unless predicate (asserts) holds.
  Assert,  // no operands; asserts[0]
  // Elementwise, one operand of floats. Round: half to even.
  Exp2, Log2, Log1p, Expm1, Sin, Cos, Tan, Erf, Floor, Ceil, Round, Trunc,
  // Elementwise, two operands. Pow of ints truncates a fraction (negative exponents); Fmod has the
  // sign of the first operand; FloorDivide is for floats.
  Pow, Atan2, Fmod, FloorDivide,
  // Elementwise, of ints. Shifts by less than 0, or by all bits and more, shift everything out.
  BitAnd, BitOr, BitXor, BitNot, ShiftLeft, ShiftRight,
  // More indexing.
  Gather,        // (x [..], index [..] of as many dims): for each element of index, the element of
                 // x at the same place, but with the index along dim ints[0]; other dims have x's
                 // sizes
  CheckedIndex,  // (index [..]): index, each element checked to be at least 0 and below exprs[0];
                 // text: the op that took it; ints[0]: 1 if negative ones have had exprs[0] added,
                 // as they count from the end; 2 for counts with a declared bound, 3 for lengths of
                 // segments, 4 for steps from offset to offset
  IndexPut,      // (x [R, ..], index [M], rows [M, ..]): x with rows joined in at index, in order;
                 // ints[0]: Put
  Flip,  // a view: the elements of dims ints (ascending) in reverse order
  Prod,  // a reduction over dims ints (ascending); 1 over no elements
  // Scans along the last dim, and order.
  Cumprod,
  CumArgmax,     // i64: place of the largest element so far, the last of equal ones. NaN is largest
  LogCumsumExp,  // of floats: log of the sum of exp so far
  SearchSorted,  // (sorted [.., N], values [.., M]): number of the row's elements below each value,
                 // or with ints[0] == 1 not above each value -> i64[.., M]; NaN is largest
  Philox,  // (key, counter, stream), all i64: 64 random bits (philox.h)
  // Windows: views. ints: dim, stride and dilation of each windowed dim, dims ascending; sizes from
  // meta.
  Unfold,   // x [.., S, ..]: [.., W, .., K], a last dim K per windowed dim: element (w, k) is x's
            // at w * stride + k * dilation
  Overlay,  // the inverse, with (w, k) still apart: x [.., W, .., K]: zeros [.., S, .., K] with
            // element (w, k) at (w * stride + k * dilation, k). Its sum over K adds overlaps.
  // Control flow (control.h): nodes with bodies, which are graphs of their own. Operands not named
  // here go to every body; the last exprs are the symbols of the bodies.
  Cond,   // (predicate bool 0-d, ..): results of bodies[0] if it is true, else of bodies[1]
  Scan,   // (carries, xs, ..): runs bodies[0] exprs[0] times, with row t of each xs; ints: number
          // of carries, number of xs, 1 for rows from last to first
  While,  // (carries, ..): runs bodies[1] while bodies[0] gives true; ints: number of carries,
          // maximal trips or -1
  Call,   // (..): runs bodies[0]
  Result,  // (node with bodies): its result number ints[0]
  // User-defined (own_op.h); own: the definition, text: its name.
  Own,       // any operands: an op that is defined outside of this table
  HostCall,  // any operands: a function that runs on the host, in this order on every rank
  // Attention: products of class Product, of f32 or f64. ints[0]: 1 if query i sees keys 0, ..., i
  // only. The mask, which may be absent, has the dims [.., G, L, S], each equal or the constant 1:
  // bools, true for a key that is seen, or floats, which are added to scores.
  Attention,          // (query [.., G, L, E], key [.., S, E], value [.., S, V], mask) -> [.., G, L,
                      // V + 1]: softmax(query key^T) value, 0 for a query that sees nothing, and
                      // then the log of the sum of exp(scores), +inf for such a query
  AttentionGradient,  // (query, key, value, result, gradient of the result, mask): the gradients of
                      // query, key and value, flat, one after the other
};
// clang-format on

/// How IndexPut joins an element with one put in its place. Not-a-number wins in Max and Min.
enum class Put : std::uint8_t { Set, Multiply, Max, Min };

struct TensorMeta {
  DType dtype = DType::F32;
  std::vector<shapes::Expr> sizes;
  bool operator==(const TensorMeta&) const = default;
};

struct OwnDefinition;

/// "f32[s0, 64]"
[[nodiscard]] std::string meta_text(const TensorMeta& meta);

/// One node. Immutable once its graph is finished.
struct Node {
  Op op = Op::Full;
  std::vector<NodeId> inputs{};
  std::vector<shapes::Expr> exprs{};
  std::vector<std::int64_t> ints{};
  double number = 0;
  std::string text{};
  std::vector<shapes::DeferredAssert> asserts{};
  TensorMeta meta{};                    // of the result; i64 with no sizes for ToList, Item, Assert
  std::vector<shapes::Symbol> binds{};  // ToList and Item: the symbols that get their values here
  std::shared_ptr<const OwnDefinition> own{};  // Own and HostCall
  shapes::Location where{};                    // the user's line
  /// Bodies of control flow. Never written to.
  std::vector<std::shared_ptr<const struct Graph>> bodies{};
};

/// Covers everything but the user's line.
[[nodiscard]] shapes::Fingerprint node_fingerprint(const Node& node);

/// How a symbol gets its value from an input: backed symbols, and unbacked symbols of dims that the
/// user marked unbacked.
struct SymbolBinding {
  shapes::Symbol symbol;
  std::string source;  // "batch.tokens.size(0)", an int argument's name, or the text of `value`
  std::int64_t hint = 0;
  HostValue value{};  // without steps: a size or an int argument
};

/// Text of a collective's size, where ranks compare collectives only: "?" for a symbol, which other
/// ranks may write differently; the run compares it.
[[nodiscard]] std::string joint_size_text(const shapes::Expr& size);

/// A finished graph. Value type.
struct Graph {
  std::string name;  // frame
  std::vector<Node> nodes;
  struct Output {
    std::string name;
    NodeId node = 0;
    bool operator==(const Output&) const = default;
  };
  std::vector<Output> outputs;
  /// Symbols in the order of the decision, then host values in the order of use.
  std::vector<SymbolBinding> symbols;
  std::vector<shapes::Guard> guards;
  std::vector<GroupGuard> group_guards;
  /// Sizes that all ranks of a group need equal. The vote of every call compares those of the
  /// frame's group; others are compared when the graph runs (uniform_facts.h).
  std::vector<UniformSize> uniform;
  /// Nesting of the job's groups at the time of tracing: the same on all ranks, not in the
  /// fingerprint.
  Nesting nesting;
  /// True if other ranks may run graphs that agree with this one in their collectives only.
  bool peers_may_differ = false;
  /// True for a body of a node (control.h): its symbols and inputs get their values from that node.
  /// Its uniform sizes of the frame's group are needs of the outer graph.
  bool is_body = false;
  /// Answers of the group to the trace's questions, in order: with them the same function gives the
  /// same graph again. Not in the fingerprint, like hints.
  std::vector<std::int64_t> answers;
  /// Lines on what the host reads back and the code that needs it, and on counts of masks that are
  /// not read back (trace/read_backs.h). Not in the fingerprint.
  std::vector<std::string> read_backs;

  /// The uniform sizes of the frame's group.
  [[nodiscard]] std::vector<UniformSize> agreed_uniform() const;
  /// The host values of the symbols.
  [[nodiscard]] std::vector<HostValue> host_values() const;
  /// One line per node, in user terms:
  /// "%7: f32[s0, 64] = add(%5, %6)   # train.cpp:41". Pure; equal graphs print equal text.
  [[nodiscard]] std::string text() const;
  /// The text of one node, without its location.
  [[nodiscard]] std::string node_text(NodeId id) const;
  /// Covers every node, attribute, constant, order, output, symbol, guard and assert with its
  /// message; not hints and not user lines (the same program in another checkout is the same
  /// program).
  [[nodiscard]] shapes::Fingerprint fingerprint() const;
  /// Covers the ordered list of nodes that ranks execute together or wait for: collectives (kind,
  /// dtype, row sizes, attributes), host syncs, host calls, and nodes whose bodies hold
  /// collectives. Graphs that differ only elsewhere have equal fingerprints.
  [[nodiscard]] shapes::Fingerprint collectives_fingerprint() const;
  /// The nodes that collectives_fingerprint() covers, in order, and prefix fingerprints of that
  /// list.
  [[nodiscard]] std::vector<NodeId> joint_nodes() const;
  [[nodiscard]] std::vector<shapes::Fingerprint> joint_prefixes() const;
  /// Structural rules: operands come earlier and have the dtypes and sizes that the op asks for,
  /// symbols are bound before use, guards mention backed symbols only. Errors: Internal, naming the
  /// node.
  [[nodiscard]] Result<void> verify() const;
};

/// The fingerprints that a trace reports, in one pass.
struct GraphPrints {
  shapes::Fingerprint graph;  // Graph::fingerprint()
  /// Covers what `graph` covers, except the values of constants: equal for graphs whose only
  /// difference is a number.
  shapes::Fingerprint skeleton;
  std::vector<shapes::Fingerprint> prefixes;  // element i covers nodes 0 to i
};
[[nodiscard]] GraphPrints prints_of(const Graph& graph);

}  // namespace lockstep::worker
