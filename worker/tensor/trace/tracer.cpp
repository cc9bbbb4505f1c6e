#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <lockstep/shapes/guard_set.h>
#include <lockstep/worker/agree/exchange/constraints.h>
#include <lockstep/worker/tensor/graph/control.h>
#include <lockstep/worker/tensor/graph/count_limit.h>
#include <lockstep/worker/tensor/graph/node_order.h>
#include <lockstep/worker/tensor/graph/own_op.h>
#include <lockstep/worker/tensor/graph/shape_rules.h>
#include <lockstep/worker/tensor/trace/mask_rewrite.h>
#include <lockstep/worker/tensor/trace/named_call.h>
#include <lockstep/worker/tensor/trace/own_gradient.h>
#include <lockstep/worker/tensor/trace/read_backs.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;
using shapes::Symbol;

}  // namespace

shapes::Location location(const Line& where) {
  const char* slash = std::strrchr(where.file_name(), '/');
  return {slash ? slash + 1 : where.file_name(), where.line()};
}

std::shared_ptr<Trace> Trace::start(const TraceSetup& setup) {
  const std::shared_ptr<Trace> trace(new Trace(setup));
  trace->add_symbols();
  trace->add_inputs();
  return trace;
}

void Trace::add_symbols() {
  const DeclaredSizes declared = declared_sizes(setup_.constraints, setup_.decision);
  const std::vector<Symbol> names = setup_.decision.trace_symbols();
  for (const SymbolDecision& symbol : setup_.decision.symbols) {
    shapes::Range range{symbol.min.value_or(shapes::Range::kMin), shapes::Range::kMax};
    auto constraint =
        symbol.pinned_is_error ? shapes::Constraint::Varies : shapes::Constraint::None;
    if (const auto promised = declared.ranges.find(names[symbols_.size()]);
        promised != declared.ranges.end()) {
      range = intersect(range, promised->second);
      constraint = shapes::Constraint::WholeRange;
    }
    symbols_.push_back(symbol.unbacked
                           ? env_.unbacked(symbol.source, range, {})
                           : env_.backed(symbol.source, symbol.hint, range, constraint));
    if (symbol.settled) settled_.insert(*symbols_.back().as_symbol());
  }
  for (const shapes::Guard& relation : declared.relations)
    env_.declare(relation.predicate, relation.where);
}

Expr Trace::dim(const DimDecision& decision) const {
  return decision.is_symbol ? symbols_.at(decision.symbol) : Expr(decision.value);
}

void Trace::add_inputs() {
  for (const SourceDecision& source : setup_.decision.sources) {
    inputs_.emplace_back();
    if (source.spec.kind != Kind::Tensor && source.spec.kind != Kind::Float) continue;
    Node node;
    node.op = Op::Input;
    node.text = source.spec.name;
    node.meta.dtype = source.spec.kind == Kind::Float ? DType::F64 : source.spec.dtype;
    for (const DimDecision& d : source.dims) node.meta.sizes.push_back(dim(d));
    inputs_.back() = append(std::move(node), 0);
  }
}

const SourceDecision& Trace::source_of(std::size_t source, Kind kind) const {
  const SourceDecision& decision = setup_.decision.sources.at(source);
  if (decision.spec.kind != kind)
    throw TraceUsageError(fmt::format("input {} is a {}, but was asked for as a {}",
                                      decision.spec.name, kind_name(decision.spec.kind),
                                      kind_name(kind)));
  return decision;
}

Tensor Trace::tensor_input(std::size_t source) {
  (void)source_of(source, Kind::Tensor);
  return {shared_from_this(), *inputs_[source]};
}
SymInt Trace::int_input(std::size_t source) {
  return integer(dim(source_of(source, Kind::Int).dims.at(0)));
}

std::int64_t Trace::fixed_int_input(std::size_t source) {
  const std::string& name = source_of(source, Kind::Int).spec.name;
  return env_.to_int(int_input(source).expr(), {fmt::format("{}{}", kFixedInput, name), 0});
}
bool Trace::bool_input(std::size_t source) const {
  return source_of(source, Kind::Bool).dims.at(0).value != 0;
}

const JoinedField& Trace::joined_field(std::string_view name) const {
  if (const JoinedField* field = setup_.decision.field(name)) return *field;
  throw TraceUsageError(fmt::format("frame {} has no field {}", setup_.frame, name));
}

std::size_t Trace::source(std::string_view name) const {
  const auto& sources = setup_.decision.sources;
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i].spec.name == name) return i;
  throw TraceUsageError(fmt::format("frame {} has no input {}", setup_.frame, name));
}

std::string rank_source(std::string_view group) {
  return group.empty() ? "job.rank" : fmt::format("job.rank({})", group);
}

Tensor Trace::rank(const std::string& group) {
  const auto [at, fresh] = ranks_.emplace(group, static_cast<NodeId>(nodes_.size()));
  if (fresh) {
    Node node;
    node.op = Op::Input;
    node.text = rank_source(group);
    node.meta = {DType::I64, {}};
    (void)append(std::move(node), 0);
  }
  return {shared_from_this(), at->second};
}

void Trace::output(std::string name, const Tensor& value) {
  for (const Graph::Output& other : outputs_)
    if (other.name == name) throw TraceUsageError(fmt::format("two outputs are called {}", name));
  if (value.trace().get() != this)
    throw TraceUsageError(
        fmt::format("output {} was not computed in frame {}; return what the frame "
                    "computes from its inputs",
                    name, setup_.frame));
  if (scope_of_[value.node()] != 0)
    throw TraceUsageError(fmt::format(
        "output {} is a value of a branch or a loop's body; give it back as a result of that",
        name));
  outputs_.push_back({std::move(name), value.node()});
}

shapes::Location Trace::here(const Line& where) const {
  return standing_ ? *standing_ : location(where);
}

void Trace::need_open(std::string_view what, const Line& where) const {
  if (!ended_) return;
  const std::string line = where.line() == 0 ? "" : location(where).text() + ": ";
  throw TraceUsageError(fmt::format(
      "{}{} of frame {} is used after its trace has ended; return it from the frame and "
      "use what the call gives",
      line, what, setup_.frame));
}

TensorMeta Trace::meta(NodeId id) const {
  need_open("a tensor", Line());
  TensorMeta meta = nodes_[id].meta;
  for (Expr& size : meta.sizes) size = env_.simplify(size);
  return meta;
}

NodeId Trace::operand(const Tensor& tensor, const Line& where) {
  if (tensor.trace().get() == this) {
    need_open("a tensor", where);
    return input_for(tensor.node(), where);
  }
  throw TraceUsageError(fmt::format(
      "{}: {} is used in frame {}; {}", here(where).text(),
      tensor.empty()    ? "an empty tensor"
      : tensor.traced() ? "a tensor of another trace"
                        : "a concrete tensor",
      setup_.frame, tensor.empty() ? "give it a value first" : "pass it to the frame as an input"));
}

void Trace::need_own(const SymInt& n, const Line& where) const {
  if (!n.trace() || n.trace().get() == this) return;
  n.trace()->need_open("an integer", where);
  throw TraceUsageError(fmt::format(
      "{}: an integer of another trace is used in frame {}; pass it to the frame as an input",
      here(where).text(), setup_.frame));
}

Tensor Trace::add_node(Node node, const Line& where) {
  node.where = here(where);
  if (setup_.local && op_row(node.op).kind == OpClass::Collective)
    throw TraceUsageError(fmt::format(
        "{}: {} in frame {}, which is local: its ranks do not agree on its calls, so they cannot "
        "meet in a collective; give the frame another consistency",
        node.where.text(), op_row(node.op).name, setup_.frame));
  need_open("an integer", where);
  fix_sizes(node, where);
  std::vector<TensorMeta> operands;
  for (const NodeId input : node.inputs) operands.push_back(meta(input));
  rewrite_exprs(node, [&](const Expr& expr) { return env_.simplify(expr); });
  Result<TensorMeta> result = result_meta(node, operands);
  if (!result)
    throw TraceUsageError(node.where.text() + ": " + NamedCall::said(result.error().message));
  node.meta = std::move(*result);
  const auto next = static_cast<NodeId>(nodes_.size());
  if (node.op == Op::Own) need_one_definition(*node.own, node.where);
  if (!must_keep(node)) {
    auto& known = scopes_.empty() ? same_nodes_ : scopes_.back().same_nodes;
    const auto [same, fresh] = known.emplace(node_fingerprint(node), next);
    if (!fresh) return {shared_from_this(), same->second};
  }
  return {shared_from_this(), append(std::move(node), scope())};
}

/// Refuses a second own op of the same name: a name must identify the op to readers.
void Trace::need_one_definition(const OwnDefinition& own, const shapes::Location& where) {
  const auto [known, fresh] = own_ops_.emplace(own.name, own.fingerprint());
  if (fresh || known->second == own.fingerprint()) return;
  throw TraceUsageError(
      fmt::format("{}: frame {} uses two ops that are called {}; give one another name",
                  where.text(), setup_.frame, own.name));
}

bool Trace::only_settled(const Expr& size) const {
  const std::vector<Symbol> symbols = size.symbols();
  return !symbols.empty() &&
         std::ranges::all_of(symbols, [&](Symbol s) { return settled_.contains(s); });
}

std::optional<std::int64_t> Trace::number(const Expr& size, const Line& where) {
  const Expr known = env_.simplify(size);
  if (const auto constant = known.constant()) return constant;
  if (!only_settled(known)) return std::nullopt;
  for (const Symbol symbol : known.symbols()) (void)env_.to_int(Expr::symbol(symbol), here(where));
  return env_.to_int(known, here(where));
}

Expr Trace::one_or(const Expr& size, const Line& where) {
  if (!settled_.empty() && env_.peek(size, 0) == 1 && number(size, where) == 1) return 1;
  return size;
}

/// Host syncs need sizes that are numbers: pins sizes that are symbols only because the frame
/// settles.
void Trace::fix_sizes(const Node& node, const Line& where) {
  if (settled_.empty() || op_row(node.op).kind != OpClass::HostSync) return;
  for (const NodeId input : node.inputs)
    for (const Expr& size : meta(input).sizes) (void)number(size, where);
}

std::vector<SymInt> Trace::read_back(Op op, const Tensor& x, const Line& where, std::string name,
                                     std::int64_t least) {
  const NodeId id = x.trace().get() == this ? origin(x.node()) : operand(x, where);
  auto known = read_back_.find(id);
  if (known == read_back_.end()) {
    if (!scopes_.empty())
      throw TraceUsageError(fmt::format(
          "{}: a value is read back within a branch or a loop's body, where no size can depend on "
          "data; read it before, and use it inside",
          here(where).text()));
    Node node;
    node.op = op;
    node.inputs = {id};
    node.text = std::move(name);
    shapes::Range range{least, shapes::Range::kMax};
    const std::optional<Expr> limit = count_limit(nodes_, id);
    if (limit) range = intersect(range, {0, env_.range(*limit).upper});
    const TensorMeta from = meta(id);
    const std::int64_t count = from.sizes.empty() ? 1 : number(from.sizes[0], where).value_or(0);
    for (std::int64_t i = 0; i < count; ++i) {
      std::string source = node.text;
      if (source.empty()) source = op == Op::Item ? "item()" : fmt::format("tolist()[{}]", i);
      const Expr symbol = env_.unbacked(std::move(source), range, here(where));
      node.binds.push_back(*symbol.as_symbol());
      if (limit && !limit->constant())
        env_.declare(shapes::less_equal(symbol, *limit), here(where));
    }
    (void)add_node(node, where);
    known = read_back_.emplace(id, node.binds).first;
  }
  std::vector<SymInt> values;
  for (const Symbol symbol : known->second) values.push_back(integer(Expr::symbol(symbol)));
  return values;
}

std::optional<std::int64_t> Trace::local_value(Symbol symbol) const {
  for (const SymbolBinding& known : host_values_)
    if (known.symbol == symbol)
      return known.value.evaluate([this](std::string_view s) { return local_scalar(s); });
  const Decision& decision = setup_.decision;
  const auto number = std::find_if(symbols_.begin(), symbols_.end(),
                                   [&](const Expr& e) { return e.as_symbol() == symbol; });
  if (number == symbols_.end()) return std::nullopt;
  const auto index = static_cast<std::size_t>(number - symbols_.begin());
  if (!setup_.observation) return decision.symbols[index].hint;
  const std::vector<std::uint32_t>& offsets = setup_.observation->list->offsets();
  for (std::size_t s = 0; s < decision.sources.size(); ++s)
    for (std::size_t d = 0; d < decision.sources[s].dims.size(); ++d)
      if (const DimDecision& dim = decision.sources[s].dims[d];
          dim.is_symbol && dim.symbol == index)
        return setup_.observation->values.at(offsets[s] + d);
  return std::nullopt;
}

void Trace::need_uniform(UniformSize size) {
  if (!setup_.peers_may_differ) facts_.learn(size.expr, size.group);
  uniform_.push_back(std::move(size));
}

/// True if the size is the same on all ranks of the frame's group, by what the trace has recorded.
bool Trace::is_uniform(const Expr& size) {
  if (setup_.peers_may_differ) return false;
  std::vector<UniformSize> needed;
  while (facts_.next() < nodes_.size()) {
    add_needs(nodes_, facts_, needed);
    facts_.pass();
  }
  return facts_.uniform(size, "");
}

bool Trace::ask_group(const SymBool& condition, bool all, const Line& where) {
  need_open("an integer", where);
  const shapes::Predicate& predicate = condition.predicate();
  if (const std::optional<bool> proven = env_.prove(predicate)) return *proven;
  const std::string_view name = all ? "group_all" : "group_any";
  if (predicate.expr.has_unbacked())
    throw shapes::DataDependentError(fmt::format(
        "{}: {}({}) asks for a value that exists only when the graph runs; use where(), or check() "
        "what must hold",
        here(where).text(), name, predicate.text(env_.source_namer())));
  // All ranks would give the same answer: an ordinary branch.
  if (is_uniform(predicate.expr)) return static_cast<bool>(condition);
  const auto mine = predicate.evaluate([this](Symbol s) { return local_value(s); });
  if (!mine) env_.fails_without_value(predicate.expr, here(where));
  if (!mine)
    throw shapes::OverflowError(fmt::format("{}: {}({}) does not fit in 64 bits",
                                            here(where).text(), name,
                                            predicate.text(env_.source_namer())));
  bool answer = *mine;
  if (const auto earlier = earlier_answer()) {
    answer = *earlier != 0;
  } else if (setup_.host && setup_.answers == nullptr) {
    const Result<bool> any = all ? setup_.host->group_any(!*mine, predicate.negated())
                                 : setup_.host->group_any(*mine, predicate);
    if (!any) throw GroupFailure{any.error()};
    answer = all ? !*any : *any;
  }
  answers_.push_back(answer ? 1 : 0);
  asked_before_.push_back(env_.asked().size());
  group_guards_.push_back(
      {predicate, all ? GroupGuard::Over::All : GroupGuard::Over::Any, answer, here(where)});
  // A condition that holds on every rank holds on this one: useful in the branch that asked.
  if (all && answer) env_.check(predicate, here(where), "group_all");
  if (!all && !answer) env_.check(predicate.negated(), here(where), "group_any");
  return answer;
}

TraceConditions Trace::reliance(std::optional<std::string> error) const {
  TraceConditions out{shapes::point_trace(env_, std::move(error)), {}};
  shapes::PointTrace& sizes = out.sizes;
  for (std::size_t i = group_guards_.size(); i-- > 0;) {
    const GroupGuard& guard = group_guards_[i];
    sizes.relied.push_back({guard.value ? guard.predicate : guard.predicate.negated(), guard.where,
                            "of the group, all of whose ranks are taken to be alike"});
    sizes.asked.insert(sizes.asked.begin() + static_cast<std::ptrdiff_t>(asked_before_[i]),
                       {guard.predicate, guard.value, guard.where});
  }
  if (sizes.error && sizes.where.file.empty() && !nodes_.empty()) sizes.where = nodes_.back().where;
  std::map<Symbol, Expr> given;
  for (const SymbolBinding& value : host_values_) given[value.symbol] = value.hint;
  const auto told = [&](const shapes::Guard& guard) {
    const std::vector<Symbol> symbols = guard.predicate.expr.symbols();
    return std::ranges::any_of(symbols, [&](Symbol symbol) { return given.contains(symbol); });
  };
  for (shapes::Guard& guard : sizes.relied) {
    if (!told(guard)) continue;
    out.values.push_back(
        fmt::format("{}   # {}", guard.predicate.text(env_.source_namer()), guard.where.text()));
    guard.predicate = guard.predicate.substitute(given);
  }
  std::erase_if(sizes.relied,
                [](const shapes::Guard& guard) { return guard.predicate.constant() == true; });
  return out;
}

const Nesting& Trace::known_nesting() const {
  static const Nesting kNone;
  return setup_.nesting != nullptr ? *setup_.nesting : kNone;
}

void Trace::add_own_gradient(OwnGradient gradient) {
  const auto shared = std::make_shared<const OwnGradient>(std::move(gradient));
  for (const NodeId output : shared->outputs) own_gradients_[output] = shared;
}

const OwnGradient* Trace::own_gradient(NodeId id) const {
  const auto found = own_gradients_.find(id);
  return found == own_gradients_.end() ? nullptr : found->second.get();
}

Graph Trace::finish() {
  Graph graph;
  graph.name = setup_.frame;
  std::vector<NodeId> place(nodes_.size());
  std::vector<Node> nodes;
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    if (scope_of_[id] != 0) continue;
    Node& node = nodes_[id];
    rewrite_exprs(node, [&](const Expr& expr) { return env_.simplify(expr); });
    for (NodeId& input : node.inputs) input = place[input];
    place[id] = static_cast<NodeId>(nodes.size());
    nodes.push_back(std::move(node));
  }
  for (Graph::Output& output : outputs_) output.node = place[output.node];
  Recording recording{std::move(nodes), outputs_};
  auto of_masks =
      rewrite_masks(recording, env_.deferred_asserts(), uniform_, env_, !setup_.peers_may_differ);
  graph.read_backs =
      read_back_lines(recording, env_.deferred_asserts(), uniform_, std::move(of_masks));
  NodeOrder order(std::move(recording.nodes), recording.outputs);
  for (const shapes::DeferredAssert& deferred : env_.deferred_asserts()) order.add(deferred);
  graph.nodes = order.place(setup_.peers_may_differ ? NodeOrder::Checks::AsRecorded
                                                    : NodeOrder::Checks::BeforeCounts);
  graph.peers_may_differ = setup_.peers_may_differ;
  for (const Graph::Output& output : recording.outputs)
    graph.outputs.push_back({output.name, order.placed(output.node)});
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    const SymbolDecision& decided = setup_.decision.symbols[i];
    graph.symbols.push_back({*symbols_[i].as_symbol(), decided.source, decided.hint});
  }
  graph.symbols.insert(graph.symbols.end(), host_values_.begin(), host_values_.end());
  shapes::GuardSet guards{{}, env_.guards()};
  for (const auto& record : env_.symbols()) guards.ranges[record.symbol] = record.declared;
  graph.guards = shapes::minimal_guards(guards);
  graph.group_guards = group_guards_;
  for (UniformSize& size : uniform_) {
    size.expr = env_.simplify(size.expr);
    if (!size.expr.constant()) graph.uniform.push_back(std::move(size));
  }
  graph.nesting = known_nesting();
  add_uniform_needs(graph);
  graph.answers = answers_;
  ended_ = true;
  return graph;
}

Result<Graph> trace(const TraceSetup& setup, const std::function<void(Trace&)>& body) {
  std::shared_ptr<Trace> trace;
  const auto rely = [&](std::optional<std::string> error) {
    if (setup.reliance == nullptr) return;
    if (trace)
      *setup.reliance = trace->reliance(std::move(error));
    else  // the declared constraints do not hold for these sizes
      setup.reliance->sizes = {.error = std::move(error), .only_here = true};
  };
  const auto failed = [&](std::string_view what) {
    rely(std::string(what));
    return Status{Code::TraceError, fmt::format("frame {}: {}", setup.frame, what)};
  };
  const struct Closing {
    const std::shared_ptr<Trace>& trace;
    ~Closing() {
      if (trace) trace->close();
    }
  } closing{trace};
  const auto last_line = [&]() -> std::string {
    if (!trace || trace->node_count() == 0) return "";
    const shapes::Location& where = trace->node(static_cast<NodeId>(trace->node_count() - 1)).where;
    return where.file.empty() ? "" : " (the last op before it: " + where.text() + ")";
  };
  try {
    trace = Trace::start(setup);
    body(*trace);
    rely(std::nullopt);
    Graph graph = trace->finish();
    if (const Result<void> sound = graph.verify(); !sound) return sound.error();
    return graph;
  } catch (const GroupFailure& failure) {
    return failure.status;
  } catch (const shapes::DataDependentError& error) {
    return failed(error.what());
  } catch (const shapes::ConstraintError& error) {
    return failed(error.what());
  } catch (const TraceUsageError& error) {
    return failed(error.what());
  } catch (const shapes::OverflowError& error) {
    return failed(fmt::format("{}: sizes leave 64 bits{}", error.what(), last_line()));
  } catch (const std::exception& error) {
    return failed(fmt::format("the traced function threw: {}{}", error.what(), last_line()));
  } catch (...) {
    return failed(fmt::format("the traced function threw something that is not a std::exception{}",
                              last_line()));
  }
}

}  // namespace lockstep::worker
