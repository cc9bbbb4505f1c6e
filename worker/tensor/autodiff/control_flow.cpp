#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/autodiff/control_flow.h>
#include <lockstep/worker/tensor/graph/control.h>
#include <lockstep/worker/tensor/graph/half.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/language/op_builder.h>
#include <lockstep/worker/tensor/trace/traced_body.h>

namespace lockstep::worker {
namespace {

using Tensors = std::vector<Tensor>;
using SharedBody = std::shared_ptr<const TracedBody>;

/// A body in progress, abandoned if its function throws.
class BodyInProgress {
 public:
  explicit BodyInProgress(Trace& trace) : trace_(trace) { trace.begin_body(); }
  ~BodyInProgress() {
    if (open_) trace_.abandon_body();
  }
  BodyInProgress(const BodyInProgress&) = delete;
  BodyInProgress& operator=(const BodyInProgress&) = delete;
  Tensors inputs(const Tensors& like) {
    Tensors out;
    for (const Tensor& tensor : like) out.push_back(trace_.body_input(meta_of(tensor)));
    return out;
  }
  SharedBody end(std::string_view what, const Tensors& results, const Line& where) {
    if (!results.empty()) (void)trace_of(what, results, where);
    auto body = std::make_shared<const TracedBody>(trace_.end_body(results, where));
    open_ = false;
    return body;
  }

 private:
  Trace& trace_;
  bool open_ = true;
};

SharedBody traced_body(Trace& trace, std::string_view what, const Tensors& inputs,
                       const std::function<Tensors(const Tensors&)>& f, const Line& where) {
  BodyInProgress body(trace);
  return body.end(what, f(body.inputs(inputs)), where);
}

/// Appends the outer values that the bodies use, each once, to `operands`.
void add_captured(std::vector<NodeId>& operands, Trace& trace,
                  const std::vector<SharedBody>& bodies) {
  const auto own = static_cast<std::ptrdiff_t>(operands.size());
  for (const SharedBody& body : bodies)
    for (const NodeId id : body->captured())
      if (std::find(operands.begin() + own, operands.end(), id) == operands.end())
        operands.push_back(trace.operand(Tensor(trace.shared_from_this(), id), {}));
}

/// Records the node and its results, with `backward` as their gradient. `node` has only its own
/// operands; those for captured values are added.
Tensors record(Trace& trace, Node node, const std::vector<SharedBody>& bodies,
               std::optional<shapes::Symbol> row, const BackwardFunction& backward,
               const Line& where) {
  const std::size_t first = node.inputs.size() - body_operands(node).size();
  std::vector<NodeId> operands(node.inputs.begin() + static_cast<std::ptrdiff_t>(first),
                               node.inputs.end());
  add_captured(operands, trace, bodies);
  node.inputs.resize(first);
  node.inputs.insert(node.inputs.end(), operands.begin(), operands.end());
  for (const SharedBody& body : bodies) node.bodies.push_back(body->graph(operands, row));
  const Tensor all = trace.add_node(std::move(node), where);
  const Node recorded = trace.node(all.node());
  const std::size_t count = result_metas(recorded).size();
  Tensors results;
  OwnGradient own{recorded.inputs, {}, backward, trace.here(where)};
  for (std::size_t k = 0; k < count; ++k) {
    Node result;
    result.op = Op::Result;
    result.inputs = {all.node()};
    result.ints = {static_cast<std::int64_t>(k)};
    result.meta = result_metas(recorded)[k];
    results.push_back(trace.add_node(std::move(result), where));
    own.outputs.push_back(results.back().node());
  }
  if (count == 0) refuse(where, op_row(recorded.op).name, "its functions give nothing");
  trace.add_own_gradient(std::move(own));
  return results;
}

/// True for a gradient that exists and is not zero everywhere.
bool counts(Trace& trace, const Tensor& gradient) {
  if (!gradient.traced() || !is_float(gradient.dtype())) return false;
  const Node& node = trace.node(gradient.node());
  return node.op != Op::Full || node.number != 0;
}

/// The gradients that count; empty tensors in place of the others.
Tensors counting(Trace& trace, const Tensors& grads) {
  Tensors out;
  for (const Tensor& gradient : grads) out.push_back(counts(trace, gradient) ? gradient : Tensor());
  return out;
}

/// The operands, from number `from` on, that are floats and whose gradients are asked for.
std::vector<std::size_t> wanted_of(const BackwardCall& call, std::size_t from) {
  std::vector<std::size_t> out;
  for (std::size_t i = from; i < call.inputs.size(); ++i)
    if (call.wanted[i] && is_float(call.inputs[i].dtype())) out.push_back(i);
  return out;
}

/// For each outer value that `body` captured: the tensor in `now` at the place that the value's
/// node has in `then`.
Tensors captured_now(const TracedBody& body, const std::vector<NodeId>& then, const Tensors& now) {
  Tensors out;
  for (const NodeId id : body.captured())
    out.push_back(now[static_cast<std::size_t>(std::ranges::find(then, id) - then.begin())]);
  return out;
}

// Cond and Call: bodies without inputs of their own, of which one runs.

Tensors record_one_of(Trace& trace, const Tensor& predicate,
                      const std::vector<std::function<Tensors()>>& functions, const Line& where) {
  Node node;
  node.op = predicate.empty() ? Op::Call : Op::Cond;
  if (!predicate.empty()) node.inputs = {trace.operand(predicate, where)};
  const std::string_view what = op_row(node.op).name;
  std::vector<SharedBody> bodies;
  for (const auto& f : functions)
    bodies.push_back(traced_body(
        trace, what, {}, [&](const Tensors&) { return f(); }, where));
  std::vector<NodeId> then;
  for (const SharedBody& body : bodies)
    for (const NodeId id : body->captured())
      if (std::ranges::find(then, id) == then.end()) then.push_back(id);
  const auto backward = [bodies, then, where](const BackwardCall& call) -> Tensors {
    Trace& now = *call.outputs.at(0).trace();
    const bool branches = bodies.size() == 2;
    const std::vector<std::size_t> wanted = wanted_of(call, branches ? 1 : 0);
    const Tensors grads = counting(now, call.grads);
    const Tensors operands(call.inputs.begin() + (branches ? 1 : 0), call.inputs.end());
    Tensors out(call.inputs.size());
    if (wanted.empty()) return out;
    std::vector<std::function<Tensors()>> back;
    for (const SharedBody& body : bodies)
      back.push_back([&] {
        const Tensors results = body->replay(now, {}, captured_now(*body, then, operands));
        Tensors wrt;
        for (const std::size_t i : wanted) wrt.push_back(call.inputs[i]);
        return pull_back(now, results, grads, wrt);
      });
    const Tensors found = record_one_of(now, branches ? call.inputs[0] : Tensor(), back, where);
    for (std::size_t i = 0; i < wanted.size(); ++i) out[wanted[i]] = found[i];
    return out;
  };
  return record(trace, std::move(node), bodies, std::nullopt, backward, where);
}

// Scan.

/// Row `t` of a tensor, without its dim 0.
Tensor row_of(const Tensor& xs, const shapes::Expr& t, const Line& where) {
  const std::vector<shapes::Expr> sizes = meta_of(xs).sizes;
  Node slice;
  slice.exprs = {t};
  slice.ints = {0};
  slice.meta = meta_of(xs);
  slice.meta.sizes[0] = 1;
  return view(emit(Op::Slice, {xs}, std::move(slice), where), {sizes.begin() + 1, sizes.end()},
              where);
}

/// What the gradient of a recorded scan needs to know of it.
struct ScanRecord {
  SharedBody body;
  std::vector<NodeId> own;  // inputs of the body for carries
  std::vector<NodeId> rows;
  std::size_t ys = 0;
};

/// Returns all results of the node. `t` is the number of the row.
Tensors record_scan(Trace& trace, const ScanFunction& f, const Tensors& init, const Tensors& xs,
                    const shapes::Expr& t, bool reversed, const Line& where);

class ScanGradient {
 public:
  ScanGradient(ScanRecord scan, std::vector<NodeId> captured, shapes::Expr t, bool reversed,
               const Line& where)
      : scan_(std::move(scan)),
        captured_(std::move(captured)),
        t_(std::move(t)),
        reversed_(reversed),
        where_(where),
        carries_(scan_.own.size()),
        xs_(scan_.rows.size()) {}

  /// A scan in the other direction. It carries the gradients of carried values, and sums of the
  /// gradients of captured ones. The gradient of a matrix that only one product uses is a product
  /// of two factors in each trip. These are stacked, and their rows multiplied at once after the
  /// scan.
  Tensors operator()(const BackwardCall& call) const {
    Trace& trace = *call.outputs.at(0).trace();
    Way way;
    way.grads = counting(trace, call.grads);
    const auto saved = call.outputs.end() - static_cast<std::ptrdiff_t>(carries_);
    Tensors init, xs(saved, call.outputs.end());
    for (std::size_t k = 0; k < xs_; ++k) xs.push_back(call.inputs[carries_ + k]);
    for (std::size_t k = 0; k < carries_; ++k)
      if (is_float(call.inputs[k].dtype())) {
        way.carries.push_back(k);
        init.push_back(way.grads[k].traced() ? way.grads[k] : zeros_like(call.inputs[k]));
      }
    for (std::size_t k = carries_; k < way.grads.size(); ++k)
      if (way.grads[k].traced()) {
        way.stacked.push_back(k);
        xs.push_back(way.grads[k]);
      }
    for (const std::size_t i : wanted_of(call, carries_)) {
      if (i < carries_ + xs_) {
        way.xs.push_back(i);
      } else if (is_factor(i)) {
        way.factors.push_back(i);
      } else {
        way.captured.push_back(i);
        init.push_back(sum_of(zeros_like(call.inputs[i])));
      }
    }
    std::vector<Form> forms;
    const Tensors results = record_scan(
        trace,
        [&](const Tensors& carry, const Tensors& rows) {
          return trip(call, way, carry, rows, forms);
        },
        init, xs, t_, !reversed_, where_);
    Tensors out(call.inputs.size());
    std::size_t at = 0;
    for (const std::size_t k : way.carries) out[k] = results[at++];
    for (const std::size_t k : way.captured) out[k] = cast(results[at++], call.inputs[k].dtype());
    for (const std::size_t k : way.xs) out[k] = results[at++];
    for (std::size_t i = 0; i < forms.size(); ++i) {
      const Tensor& like = call.inputs[way.factors[i]];
      if (forms[i] == Form::None) {
        out[way.factors[i]] = zeros_like(like);
        continue;
      }
      const Tensor left = swapped(rows_of_all(results[at])), right = rows_of_all(results[at + 1]);
      at += 2;
      const Tensor product = emit(Op::Matmul, {left, right}, {}, where_);
      out[way.factors[i]] = forms[i] == Form::Product ? product : swapped(product);
    }
    return out;
  }

 private:
  /// The operands and results that take part, by number.
  struct Way {
    Tensors grads;
    std::vector<std::size_t> carries, stacked, xs, captured, factors;
  };
  /// How the gradient of a factor follows from the two stacked matrices.
  enum class Form : std::uint8_t { None, Product, SwappedProduct };

  /// True if operand `i` is captured, and used by one product of matrices alone.
  [[nodiscard]] bool is_factor(std::size_t i) const {
    const Node* user = scan_.body->only_user(captured_[i]);
    return user != nullptr && user->op == Op::Matmul && user->meta.sizes.size() == 2;
  }
  [[nodiscard]] Tensor swapped(const Tensor& x) const {
    Node node;
    node.ints = {1, 0};
    return emit(Op::Permute, {x}, std::move(node), where_);
  }
  /// The rows of all trips, one below the other.
  [[nodiscard]] Tensor rows_of_all(const Tensor& stacked) const {
    const std::vector<shapes::Expr> sizes = meta_of(stacked).sizes;
    return view(stacked, {sizes[0] * sizes[1], sizes[2]}, where_);
  }
  /// Appends both factors of a gradient to `ys`, with as many rows in each.
  [[nodiscard]] Form take_factors(Trace& trace, const Tensor& gradient, Tensors& ys) const {
    if (!counts(trace, gradient)) return Form::None;
    NodeId id = gradient.node();
    bool swaps = false;
    for (; trace.node(id).op == Op::Permute; id = trace.node(id).inputs[0])
      swaps = swaps != (trace.node(id).ints[0] == 1);
    const std::vector<NodeId> of = trace.node(id).inputs;
    const auto tensor = [&](NodeId node) { return Tensor(trace.shared_from_this(), node); };
    ys.push_back(swapped(tensor(of.at(0))));
    ys.push_back(tensor(of.at(1)));
    return swaps ? Form::SwappedProduct : Form::Product;
  }
  /// `x` in a dtype that has sums.
  static Tensor sum_of(const Tensor& x) { return is_half(x.dtype()) ? cast(x, DType::F32) : x; }

  /// One trip. `carry`: gradients of carries, then sums; `rows`: carries before the trip, xs,
  /// gradients of stacked results. Adds a form for each factor.
  Scanned trip(const BackwardCall& call, const Way& way, const Tensors& carry, const Tensors& rows,
               std::vector<Form>& forms) const {
    Trace& trace = *carry_or(rows, carry).trace();
    std::map<NodeId, Tensor> given;
    for (std::size_t k = 0; k < carries_; ++k) given[scan_.own[k]] = rows[k];
    for (std::size_t k = 0; k < xs_; ++k) given[scan_.rows[k]] = rows[carries_ + k];
    const Tensors results =
        scan_.body->replay(trace, given, captured_now(*scan_.body, captured_, call.inputs));
    Tensors grads(results.size()), wrt;
    for (std::size_t i = 0; i < way.carries.size(); ++i) {
      grads[way.carries[i]] = carry[i];
      wrt.push_back(rows[way.carries[i]]);
    }
    for (std::size_t i = 0; i < way.stacked.size(); ++i)
      if (way.stacked[i] < results.size()) grads[way.stacked[i]] = rows[carries_ + xs_ + i];
    for (const std::size_t k : way.xs) wrt.push_back(rows[k]);
    for (const std::size_t k : way.captured) wrt.push_back(call.inputs[k]);
    for (const std::size_t k : way.factors) wrt.push_back(call.inputs[k]);
    Tensors found = pull_back(trace, results, grads, wrt);
    for (std::size_t i = 0; i < way.stacked.size(); ++i)
      for (std::size_t c = 0; c < way.carries.size(); ++c)
        if (way.stacked[i] == results.size() + way.carries[c])
          found[c] = found[c] + rows[carries_ + xs_ + i];
    Scanned out;
    auto next = found.begin();
    for (std::size_t i = 0; i < way.carries.size(); ++i) out.carry.push_back(*next++);
    out.ys.assign(next, next + static_cast<std::ptrdiff_t>(way.xs.size()));
    next += static_cast<std::ptrdiff_t>(way.xs.size());
    for (std::size_t i = way.carries.size(); i < carry.size(); ++i)
      out.carry.push_back(carry[i] + sum_of(*next++));
    for (; next != found.end(); ++next) forms.push_back(take_factors(trace, *next, out.ys));
    return out;
  }
  static const Tensor& carry_or(const Tensors& rows, const Tensors& carry) {
    return rows.empty() ? carry.front() : rows.front();
  }

  ScanRecord scan_;
  std::vector<NodeId> captured_;
  shapes::Expr t_;  // row number; each body uses it for its own row
  bool reversed_;
  Line where_;
  std::size_t carries_, xs_;
};

Tensors record_scan(Trace& trace, const ScanFunction& f, const Tensors& init, const Tensors& xs,
                    const shapes::Expr& t, bool reversed, const Line& where) {
  const shapes::Expr trips = meta_of(xs.at(0)).sizes.at(0);
  Node node;
  node.op = Op::Scan;
  ScanRecord scan;
  Tensors operands = init;
  operands.insert(operands.end(), xs.begin(), xs.end());
  for (const Tensor& operand : operands) node.inputs.push_back(trace.operand(operand, where));
  scan.body = traced_body(
      trace, "scan", operands,
      [&](const Tensors& inputs) {
        const auto first_x = inputs.begin() + static_cast<std::ptrdiff_t>(init.size());
        const Tensors carry(inputs.begin(), first_x);
        Tensors rows;
        for (auto x = first_x; x != inputs.end(); ++x) rows.push_back(row_of(*x, t, where));
        for (const Tensor& c : carry) scan.own.push_back(c.node());
        for (const Tensor& row : rows) scan.rows.push_back(row.node());
        Scanned given = f(carry, rows);
        if (given.carry.size() != init.size())
          refuse(where, "scan",
                 fmt::format("{} values are carried, and a trip gives {}", init.size(),
                             given.carry.size()));
        scan.ys = given.ys.size();
        Tensors results = std::move(given.carry);
        results.insert(results.end(), given.ys.begin(), given.ys.end());
        return results;
      },
      where);
  node.exprs = {trips};
  node.ints = {static_cast<std::int64_t>(init.size()), static_cast<std::int64_t>(xs.size()),
               reversed ? 1 : 0};
  std::vector<NodeId> then = node.inputs;
  for (const NodeId id : scan.body->captured())
    if (std::find(then.begin() + static_cast<std::ptrdiff_t>(operands.size()), then.end(), id) ==
        then.end())
      then.push_back(id);
  for (std::size_t k = 0; k < operands.size(); ++k) then[k] = ~NodeId{0};  // these are not captured
  const SharedBody body = scan.body;
  return record(trace, std::move(node), {body}, t.as_symbol(),
                ScanGradient(std::move(scan), std::move(then), t, reversed, where), where);
}

}  // namespace

Scanned scan(const ScanFunction& f, const Tensors& init, const Tensors& xs, Line where) {
  if (xs.empty())
    refuse(where, "scan", "walks along rows of xs, and there are none; pass arange(n) for n trips");
  Tensors all = xs;
  all.insert(all.end(), init.begin(), init.end());
  const auto trace = trace_of("scan", all, where);
  for (const Tensor& x : xs)
    if (x.ndim() == 0)
      refuse(where, "scan",
             fmt::format("walks along dim 0, which {} has not", meta_text(meta_of(x))));
  for (const Tensor& x : xs)
    trace->env().check(shapes::equal(meta_of(x).sizes[0], meta_of(xs[0]).sizes[0]),
                       trace->here(where), "scan needs as many rows in each of xs");
  const shapes::Expr t =
      trace->env().unbacked("row of scan", {0, shapes::Range::kMax}, trace->here(where));
  Tensors results = record_scan(*trace, f, init, xs, t, false, where);
  results.resize(results.size() - init.size());
  const auto first_y = results.begin() + static_cast<std::ptrdiff_t>(init.size());
  return {{results.begin(), first_y}, {first_y, results.end()}};
}

Tensors while_loop(const LoopCondition& condition, const TracedFunction& f, const Tensors& init,
                   std::optional<std::int64_t> most_trips, Line where) {
  if (init.empty()) refuse(where, "while_loop", "carries nothing, so it would never end");
  if (most_trips.value_or(0) < 0) refuse(where, "while_loop", "makes at least 0 trips");
  const auto trace = trace_of("while_loop", init, where);
  Node node;
  node.op = Op::While;
  for (const Tensor& carried : init) node.inputs.push_back(trace->operand(carried, where));
  const SharedBody asks = traced_body(
      *trace, "while_loop", init, [&](const Tensors& carry) { return Tensors{condition(carry)}; },
      where);
  const SharedBody step = traced_body(*trace, "while_loop", init, f, where);
  node.ints = {static_cast<std::int64_t>(init.size()), most_trips.value_or(-1)};
  const auto backward = [where](const BackwardCall&) -> Tensors {
    refuse(where, "while_loop",
           "has no gradient, because how many trips to go back is known only when the graph runs; "
           "detach() what goes into it, or write a scan()");
  };
  return record(*trace, std::move(node), {asks, step}, std::nullopt, backward, where);
}

Tensors cond(const Tensor& predicate, const TracedFunction& then, const TracedFunction& otherwise,
             const Tensors& inputs, Line where) {
  const auto trace = trace_of("cond", std::vector{predicate}, where);
  if (predicate.ndim() != 0 || predicate.dtype() != DType::Bool)
    refuse(where, "cond",
           fmt::format("the predicate is a 0-d bool, not {}", meta_text(meta_of(predicate))));
  return record_one_of(*trace, predicate,
                       {[&] { return then(inputs); }, [&] { return otherwise(inputs); }}, where);
}

TracedFunction allow_in_graph(TracedFunction f, Line where) {
  return [f = std::move(f), where](const Tensors& inputs) {
    const auto trace = trace_of("allow_in_graph", inputs, where);
    return record_one_of(*trace, Tensor(), {[&] { return f(inputs); }}, where);
  };
}

}  // namespace lockstep::worker
