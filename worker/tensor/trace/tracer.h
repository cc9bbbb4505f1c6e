// The tracer: runs the user's function once on symbolic inputs and makes a graph of its operations.
// The graph is a pure function of the exchange's decision, the group's answers and the function.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/shapes/shape_env.h>
#include <lockstep/shapes/size_classes.h>
#include <lockstep/worker/agree/exchange/decision.h>
#include <lockstep/worker/tensor/graph/graph.h>
#include <lockstep/worker/tensor/graph/group.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/graph/uniform_facts.h>
#include <lockstep/worker/tensor/trace/tensor.h>

namespace lockstep::worker {

/// How a trace asks its group: the job asks over its communicator, tests have their own answers.
class TraceHost {
 public:
  virtual ~TraceHost() = default;
  /// Returns true on every rank if `mine`, the value of `asked` here, is true on any rank.
  /// Collective. An error ends the trace with that error.
  [[nodiscard]] virtual Result<bool> group_any(bool mine, const shapes::Predicate& asked) = 0;
  /// Returns the value of the group's lowest rank on every rank. Collective. An error ends the
  /// trace with that error.
  [[nodiscard]] virtual Result<std::int64_t> broadcast_from_lowest(std::int64_t mine) = 0;
};

/// Thrown to leave the user's function if the group could not answer a question: the trace ends
/// with this status. Internal.
struct GroupFailure {
  Status status;
};

/// The conditions of a trace. Other inputs that meet them give the same graph.
struct TraceConditions {
  shapes::PointTrace sizes;         // as if all ranks had the same sizes in group questions
  std::vector<std::string> values;  // "lr > 0.5   # a.cpp:3": conditions on other inputs
};

/// Inputs of a trace. References outlive the trace.
struct TraceSetup {
  std::string frame;
  const Decision& decision;
  /// This rank's real sizes and scalars, used only for group_any, group_all and host values. Null:
  /// the trace uses the decision's hints, and knows no host values.
  const Observation* observation = nullptr;
  /// Number of ranks of the frame's group: a constant of the graph.
  int group_size = 1;
  /// The frame's group, within which collectives must stay; without members: not known.
  Group group{};
  /// Nesting of the job's groups; null: not known for any group.
  const Nesting* nesting = nullptr;
  /// True if no rank may wait for another: collectives are refused.
  bool local = false;
  /// Null: group_any and group_all take this rank's answer, as in a group of one.
  TraceHost* host = nullptr;
  /// True if other ranks may trace other graphs with the same collectives (same_collectives).
  bool peers_may_differ = false;
  /// Constraints on the sizes that hold in every call (constraints.h).
  std::vector<std::string> constraints{};
  /// True if floats are constants (DecisionConfig).
  bool specialize_float = false;
  /// The dtype of an Autocast that names none.
  DType low_precision = DType::BF16;
  /// How complex branches are recorded.
  shapes::ShapeOptions shapes{};
  /// Null, or Graph::answers of an earlier trace that this one repeats: they are used in place of
  /// asking the group. Further questions take this rank's answer.
  const std::vector<std::int64_t>* answers = nullptr;
  /// Filled in when the trace ends, successfully or not; null: not needed.
  TraceConditions* reliance = nullptr;
};

struct OwnGradient;
class TracedBody;

/// The graph under construction, into which functions of the tensor language record. Held by shared
/// pointer: a Tensor or SymInt that outlives the trace is refused. Single-threaded.
class Trace : public std::enable_shared_from_this<Trace> {
 public:
  /// Creates the symbols and the input nodes.
  [[nodiscard]] static std::shared_ptr<Trace> start(const TraceSetup& setup);

  // Inputs by number of their source in the decision. Each requires a source of its kind.
  [[nodiscard]] Tensor tensor_input(std::size_t source);
  [[nodiscard]] SymInt int_input(std::size_t source);
  /// An int input that is no SymInt: pinned to the agreed value.
  [[nodiscard]] std::int64_t fixed_int_input(std::size_t source);
  /// A number if floats are specialised.
  [[nodiscard]] SymFloat float_input(std::size_t source);
  /// A double input, no SymFloat: pinned to the agreed value. If no rank's floats
  /// are known, returns `example`.
  [[nodiscard]] double fixed_float_input(std::size_t source, double example);
  [[nodiscard]] bool bool_input(std::size_t source) const;
  /// The joined value of a field; throws TraceUsageError if the frame has no such field.
  [[nodiscard]] const JoinedField& joined_field(std::string_view name) const;
  /// The number of the source; throws TraceUsageError if the frame has no such input.
  [[nodiscard]] std::size_t source(std::string_view name) const;
  /// This rank's number in the named group, or in the frame's: 0-d i64, a runtime value (source
  /// rank_source()).
  [[nodiscard]] Tensor rank(const std::string& group = {});
  [[nodiscard]] int group_size() const { return setup_.group_size; }
  [[nodiscard]] const Group& group() const { return setup_.group; }
  [[nodiscard]] bool peers_may_differ() const { return setup_.peers_may_differ; }

  /// Names must be unique.
  void output(std::string name, const Tensor& value);

  // For the functions of the tensor language.
  /// The user's line; while a gradient is recorded, the forward op's line.
  [[nodiscard]] shapes::Location here(const Line& where) const;
  /// Throws TraceUsageError if the trace has ended. The message says that `what` was used at
  /// `where`; a default `where` is left out.
  void need_open(std::string_view what, const Line& where) const;
  /// Refuses any use from here on. finish() does so, too.
  void close() { ended_ = true; }
  [[nodiscard]] bool is_open() const { return !ended_; }
  /// The dtype that products of f32 are cast to; nullopt: autocast is off (autocast.h).
  [[nodiscard]] std::optional<DType> autocast() const { return autocast_; }
  void set_autocast(std::optional<DType> dtype) { autocast_ = dtype; }
  [[nodiscard]] DType low_precision() const { return setup_.low_precision; }
  void set_line(std::optional<shapes::Location> line) { standing_ = std::move(line); }
  /// Appends a node and completes its meta by the shape rule. Returns an equal earlier node in its
  /// place (common subexpression elimination), unless must_keep(node). Throws
  /// TraceUsageError with the rule's message.
  Tensor add_node(Node node, const Line& where);
  /// The node of `tensor`; in a body, for a value of an outer graph, the input that stands for it.
  /// Throws TraceUsageError if it belongs to another trace, or to a body that has ended.
  [[nodiscard]] NodeId operand(const Tensor& tensor, const Line& where);
  /// Throws TraceUsageError, with the line, if `n` is an integer of another trace.
  void need_own(const SymInt& n, const Line& where) const;
  /// The node as it was added.
  [[nodiscard]] const Node& node(NodeId id) const { return nodes_.at(id); }
  [[nodiscard]] std::size_t node_count() const { return nodes_.size(); }
  /// Dtype and sizes as known now.
  [[nodiscard]] TensorMeta meta(NodeId id) const;
  [[nodiscard]] shapes::ShapeEnv& env() { return env_; }
  [[nodiscard]] SymInt integer(shapes::Expr expr) {
    return {env_.simplify(expr), shared_from_this()};
  }
  /// A size as a number, for an op that needs one: a constant, or a symbol that exists only because
  /// the frame settles, which a guard pins to the agreed number. nullopt: neither.
  [[nodiscard]] std::optional<std::int64_t> number(const shapes::Expr& size, const Line& where);
  /// The size; 1 if number() gives 1. Only a size known to be 1 broadcasts.
  [[nodiscard]] shapes::Expr one_or(const shapes::Expr& size, const Line& where);
  /// True if the symbols of the size exist only because the frame settles: equal on all ranks, in
  /// every call so far.
  [[nodiscard]] bool only_settled(const shapes::Expr& size) const;
  /// The integers that `x` holds, bound by one ToList or Item node per tensor: repeated calls give
  /// the same symbols. `name`: the user's name for an Item; empty: the name of the op. The range of
  /// the integers follows from the ops that made `x` (count_limit.h). Its lower end is at least
  /// `least`, a bound that the caller knows for certain.
  [[nodiscard]] std::vector<SymInt> read_back(Op op, const Tensor& x, const Line& where,
                                              std::string name = {},
                                              std::int64_t least = shapes::Range::kMin);
  /// `x` as a backed integer (a bool: 0 or 1) if inputs alone give it before the graph runs: a 0-d
  /// integer or bool input, or comparisons of values computed from float inputs. nullopt otherwise.
  [[nodiscard]] std::optional<SymInt> host_value(const Tensor& x);
  [[nodiscard]] bool ask_group(const SymBool& condition, bool all, const Line& where);
  /// Requires that a size known before the graph runs is the same on all ranks of the group.
  void need_uniform(UniformSize size);
  void stop_gradient(NodeId id) { stopped_.insert(id); }
  [[nodiscard]] bool gradient_stops(NodeId id) const { return stopped_.contains(id); }
  void add_own_gradient(OwnGradient gradient);
  /// A new number each time, so that no two outputs with user-defined gradients are merged.
  [[nodiscard]] std::int64_t own_number() { return ++own_count_; }

  // Bodies of control flow (traced_body.h). Nodes are numbered across all of them.
  /// Starts a body: later nodes belong to it.
  void begin_body();
  /// An input of the body in progress; the node that has the body gives its value.
  [[nodiscard]] Tensor body_input(const TensorMeta& meta);
  /// Ends the body with these results.
  [[nodiscard]] TracedBody end_body(const std::vector<Tensor>& results, const Line& where);
  void abandon_body() { scopes_.pop_back(); }
  /// The own gradient of which `id` is an output; null: the gradient follows from the op.
  [[nodiscard]] const OwnGradient* own_gradient(NodeId id) const;

  /// What the trace has depended on so far. `error`: why the trace fails at this point, if it does.
  [[nodiscard]] TraceConditions reliance(std::optional<std::string> error) const;
  /// Ends the trace: places asserts and inputs, and substitutes what is known about sizes in all
  /// nodes.
  [[nodiscard]] Graph finish();

 private:
  explicit Trace(const TraceSetup& setup) : setup_(setup), env_(setup.shapes) {}
  [[nodiscard]] const Nesting& known_nesting() const;
  void add_symbols();
  void add_inputs();
  NodeId append(Node node, std::uint32_t scope);
  [[nodiscard]] std::uint32_t scope() const { return scopes_.empty() ? 0 : scopes_.back().number; }
  /// The input that stands for a value of an outer graph in the body in progress; `id` itself if
  /// its node belongs to that body.
  [[nodiscard]] NodeId input_for(NodeId id, const Line& where);
  /// The outermost value that an input of a body stands for.
  [[nodiscard]] NodeId origin(NodeId id) const;
  [[nodiscard]] shapes::Expr dim(const DimDecision& decision) const;
  void fix_sizes(const Node& node, const Line& where);
  void need_one_definition(const OwnDefinition& own, const shapes::Location& where);
  [[nodiscard]] const SourceDecision& source_of(std::size_t source, Kind kind) const;
  [[nodiscard]] std::optional<std::int64_t> local_value(shapes::Symbol symbol) const;
  [[nodiscard]] std::optional<std::int64_t> local_scalar(std::string_view source) const;
  [[nodiscard]] std::int64_t agreed(std::int64_t mine);
  /// The agreed number of a float source, pinned by a guard; `mine`: the bits of this rank's
  /// number.
  [[nodiscard]] double pinned(const std::string& source, std::int64_t mine, std::string why);
  [[nodiscard]] bool is_uniform(const shapes::Expr& size);
  /// The answer to the next question in the trace that this one repeats.
  [[nodiscard]] std::optional<std::int64_t> earlier_answer() const;
  [[nodiscard]] std::optional<std::vector<HostValue::Step>> host_steps(NodeId id) const;
  [[nodiscard]] shapes::Expr host_symbol(HostValue value, shapes::Range range);

  TraceSetup setup_;
  shapes::ShapeEnv env_;
  std::vector<Node> nodes_;
  std::vector<shapes::Expr> symbols_;          // symbols of the decision, by number
  std::set<shapes::Symbol> settled_;           // the settled ones of symbols_
  std::vector<std::optional<NodeId>> inputs_;  // per source
  std::map<std::string, NodeId> ranks_;        // by group
  std::vector<Graph::Output> outputs_;
  std::vector<GroupGuard> group_guards_;
  std::vector<std::size_t> asked_before_;  // by group guard: number of size questions before it
  std::vector<UniformSize> uniform_;       // stated by the program; collectives add theirs
  UniformFacts facts_{nodes_,
                      known_nesting()};  // of the nodes before the last question to the group
  std::vector<SymbolBinding> host_values_;
  std::vector<std::int64_t> answers_;
  std::map<NodeId, std::vector<shapes::Symbol>> read_back_;
  std::map<shapes::Fingerprint, NodeId> same_nodes_;
  struct Scope {
    std::uint32_t number = 0;
    std::map<shapes::Fingerprint, NodeId> same_nodes{};
    std::vector<NodeId> inputs{};      // own inputs, then those that stand for outer values
    std::vector<NodeId> captured{};    // these outer values, in the outer graph
    std::map<NodeId, NodeId> shown{};  // inputs, by outer value
  };
  std::vector<Scope> scopes_;  // bodies in progress, the innermost last
  std::uint32_t scope_count_ = 0;
  std::vector<std::uint32_t> scope_of_;                 // by node; 0: in no body
  std::map<NodeId, NodeId> captured_as_;                // by input of a body: the outer value
  std::map<std::string, shapes::Fingerprint> own_ops_;  // by name
  std::set<NodeId> stopped_;
  std::map<NodeId, std::shared_ptr<const OwnGradient>> own_gradients_;  // by output
  std::int64_t own_count_ = 0;
  std::optional<shapes::Location> standing_;
  std::optional<DType> autocast_;
  bool ended_ = false;
};

/// Runs `body` in a fresh trace and returns the finished graph. An exception of `body` becomes a
/// Status with Code::TraceError: what happened, the user's line, what to do. If the group could not
/// answer a question, returns that status.
[[nodiscard]] Result<Graph> trace(const TraceSetup& setup, const std::function<void(Trace&)>& body);

/// The input that holds this rank's number in a group: "job.rank", or "job.rank(tensor)".
[[nodiscard]] std::string rank_source(std::string_view group);

/// The base name of the file and the line.
[[nodiscard]] shapes::Location location(const Line& where);

}  // namespace lockstep::worker
