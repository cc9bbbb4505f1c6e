#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/agree/process/world.h>
#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/toolchain/shared_build.h>
#include <lockstep/worker/job/frame_steps.h>
#include <lockstep/worker/tensor/graph/control.h>
#include <lockstep/worker/tensor/graph/graph.h>
#include <lockstep/worker/tensor/graph/op.h>
#include <lockstep/worker/tensor/trace/captures.h>

namespace lockstep::worker {

namespace {

double milliseconds(Duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

/// The collectives that other ranks must make as well: kind, group, attributes and sizes, without
/// the number of rows if ranks may differ in it.
std::string collectives_text(const Graph& graph) {
  std::string out;
  for (const Node& node : graph.nodes) {
    if (!runs_collectives(node)) continue;
    if (!node.bodies.empty()) out += fmt::format("{}\n", op_row(node.op).name);
    for (const auto& body : node.bodies) out += collectives_text(*body);
    if (!node.bodies.empty()) continue;
    out += fmt::format("{} of {}", op_row(node.op).name, dtype_name(node.meta.dtype));
    for (std::size_t d = node.op == Op::AllToAll ? 1 : 0; d < node.meta.sizes.size(); ++d)
      out += " x " + joint_size_text(node.meta.sizes[d]);
    if (!node.ints.empty()) out += fmt::format(", {{{}}}", fmt::join(node.ints, ", "));
    if (!node.text.empty()) out += ", group " + node.text;
    out += "\n";
  }
  return out;
}

/// The first collective over an unknown group.
const Node* of_no_group(const Graph& graph, const std::function<bool(const std::string&)>& known) {
  for (const Node& node : graph.nodes) {
    if (op_row(node.op).kind == OpClass::Collective && !node.text.empty() && !known(node.text))
      return &node;
    for (const auto& body : node.bodies)
      if (const Node* inner = of_no_group(*body, known)) return inner;
  }
  return nullptr;
}

/// Where the traced function fixed a size of `input` to a number: "to_int() at a.cpp:3 fixes
/// x.size(0)".
std::string fixed_text(const Graph& graph, const std::string& input) {
  std::vector<std::string> parts;
  for (const shapes::Guard& guard : graph.guards)
    for (const SymbolBinding& known : graph.symbols)
      if (guard.predicate.relation == shapes::Predicate::Relation::Equal &&
          guard.predicate.expr.symbols() == std::vector{known.symbol} &&
          known.source.starts_with(input + ".size("))
        parts.push_back(fmt::format("{} at {} fixes {}",
                                    guard.note.empty() ? "the branch" : "to_int()",
                                    guard.where.text(), known.source));
  return parts.empty() ? "an input" : fmt::format("{}", fmt::join(parts, "; "));
}

/// Shows peers that this rank is busy and alive, though they see no progress: a slow trace or
/// compile is not a dead rank. In a compile, the build of each unit renews the lease.
class Lease {
 public:
  Lease(JobContext& job, Phase phase, Duration time) : job_(job) {
    job_.phase(phase);
    job_.busy_for(time);
  }
  ~Lease() {
    job_.busy_for(Duration{0});
    job_.phase(Phase::Running);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

 private:
  JobContext& job_;
};

}  // namespace

TraceSetup FrameRunner::Steps::setup(const Decision& decision) {
  return {.frame = frame_.cache().name,
          .decision = decision,
          .observation = &seen_,
          .group_size = frame_.over.data->size(),
          .group = frame_.over.group,
          .nesting = &frame_.job.nesting,
          .local = frame_.consistency == Consistency::Local && !frame_.audited,
          .host = this,
          .peers_may_differ = frame_.audited ||
                              frame_.consistency == Consistency::SameCollectives ||
                              frame_.consistency == Consistency::SharedSizes,
          .constraints = frame_.constraints.texts(),
          .specialize_float = frame_.job.decision.specialize_float,
          .low_precision = frame_.job.low_precision,
          .shapes = {.complex = frame_.complex_branches}};
}

Result<TraceReport> FrameRunner::Steps::trace(const Decision& decision) {
  JobContext& job = frame_.job;
  if (frame_.origin == State::Origin::File) {
    TraceReport none;
    none.failure = nothing_fits();
    return none;
  }
  if (job.log.on("info") && frame_.cache().lookup(seen_) == 0)
    misfits_ = frame_.cache().explain(seen_);
  // Waiting ranks allow one deadline more than the lease, which makes kEdgeDeadlines deadlines.
  const Lease lease(job, Phase::Tracing, (kEdgeDeadlines - 1) * job.settings.deadline);
  const auto traced = [&]() -> Result<Graph> {
    if (frame_.origin == State::Origin::Function) return worker::trace(setup(decision), body_);
    DistantTrace distant = frame_.tracer(setup(decision));
    if (distant.round_failed) round_failed_ = std::move(distant.round_failed);
    return std::move(distant.graph);
  };
  Result<Graph> graph = traced();
  if (round_failed_) return *round_failed_;
  made_.decision = decision;
  TraceReport report = report_of(std::move(graph));
  if (report.failure) refused_ = report.failure;
  return report;
}

std::optional<Status> FrameRunner::Steps::trace_again(const Compiled& entry, int number) {
  JobContext& job = frame_.job;
  const Lease lease(job, Phase::Tracing, (kEdgeDeadlines - 1) * job.settings.deadline);
  TraceSetup again = setup(entry.decision);
  again.answers = &entry.traced().answers;
  const Result<Graph> graph = worker::trace(again, body_);
  if (graph && graph->fingerprint() == entry.fingerprint) return std::nullopt;
  // The error of a failed trace begins with the frame's name, as the text below does.
  const std::string prefix = fmt::format("frame {}: ", frame_.cache().name);
  std::string what = graph ? capture_text(entry.traced(), *graph) : graph.error().message;
  if (what.starts_with(prefix)) what.erase(0, prefix.size());
  return Status{
      Code::TraceError,
      fmt::format(
          "{}traced again, its function does not give entry {} any more: {}; what a traced "
          "function captures is a constant of the entry, so what changes between calls must "
          "be an input",
          prefix, number, what)};
}

TraceReport FrameRunner::Steps::report_of(Result<Graph> graph) {
  TraceReport report;
  if (!graph) {
    report.failure = graph.error();
    return report;
  }
  const Node* unknown = of_no_group(*graph, [&](const std::string& group) {
    return frame_.job.groups.find(group) != frame_.job.groups.end();
  });
  if (unknown != nullptr) {
    report.failure = Status{Code::TraceError,
                            fmt::format("frame {}: {}: group {} has not been declared in this job",
                                        frame_.cache().name, unknown->where.text(), unknown->text)};
    return report;
  }
  made_.graph = std::move(*graph);
  GraphPrints prints = prints_of(made_.graph);
  report.graph = made_.fingerprint = prints.graph;
  report.skeleton = prints.skeleton;
  // Nodes that may differ between ranks are left out of the search for a difference.
  report.prefixes = frame_.consistency == Consistency::SameCollectives
                        ? made_.graph.joint_prefixes()
                        : std::move(prints.prefixes);
  made_.nodes = made_.graph.nodes.size();
  if (frame_.audited) made_.collectives = collectives_text(made_.graph);
  report.collectives = made_.graph.collectives_fingerprint();
  if (frame_.job.feed) frame_.job.feed->keep({made_.fingerprint, made_.graph.text()});
  report.group_guards = made_.graph.group_guards;
  report.guards = made_.graph.guards;
  report.uniform = made_.graph.agreed_uniform();
  report.host_values = made_.graph.host_values();
  return report;
}

RoundKey FrameRunner::Steps::next_question() {
  RoundKey key = frame_.agreed.rounds->key();
  key.kind = RoundKey::Kind::Verify;
  key.attempt = ++questions_;
  return key;
}

Result<bool> FrameRunner::Steps::group_any(bool mine, const shapes::Predicate& /*asked*/) {
  auto answer = frame_.agreed.driver().any_rank(next_question(), mine);
  if (!answer) round_failed_ = answer.error();
  return answer;
}

Result<std::int64_t> FrameRunner::Steps::broadcast_from_lowest(std::int64_t mine) {
  auto answer = frame_.agreed.driver().broadcast_from_lowest(next_question(), mine);
  if (!answer) round_failed_ = answer.error();
  return answer;
}

std::string FrameRunner::Steps::explain(std::size_t node) {
  const Graph& graph = made_.graph;
  if (frame_.consistency == Consistency::SameCollectives) {
    const std::vector<NodeId> joint = graph.joint_nodes();
    if (node >= joint.size()) return "";
    node = joint[node];
  }
  std::string text;
  if (node < graph.nodes.size())
    text = fmt::format("{}   # {}", graph.node_text(static_cast<NodeId>(node)),
                       graph.nodes[node].op == Op::Input ? fixed_text(graph, graph.nodes[node].text)
                                                         : graph.nodes[node].where.text());
  return text;
}

std::optional<Status> FrameRunner::Steps::compile() {
  JobContext& job = frame_.job;
  if (job.mode != RunMode::Compiled) {
    story_ = job.runs() ? "interpreted" : "not compiled";
    return std::nullopt;
  }
  return build(generate(std::move(made_.graph), job.device ? Target::Cuda : Target::Host));
}

std::optional<Status> FrameRunner::Steps::build(Result<Program> program) {
  JobContext& job = frame_.job;
  const GroupContext& agreed = frame_.agreed;
  const Instant start = job.clock.now();
  const Lease lease(job, Phase::Compiling, job.settings.deadline);
  BuildTools tools = job.tools;
  tools.members = agreed.group.members;
  tools.building = [&](const std::string& unit) {
    job.note(fmt::format("builds {}, {}", unit, frame_.cache().name));
    job.busy_for(kBuildLimit);
  };
  if (!job.device)  // the host's compiler runs as child processes
    tools.side_by_side = [&](int count, const std::function<void(int)>& act) {
      job.threads->run(count, [&](int k, int) { act(k); });
    };
  const SharedUnits made = build_together(agreed.driver(), agreed.rounds->key(), program, tools);
  // If a peer failed, there is nothing to load, and the commit vote reports the peer's failure to
  // all ranks.
  if (!made.objects) return made.failure;
  const std::size_t kernels = program->kernels.size();
  auto loaded = Executable::load(std::move(*program), *made.objects, job.clock, job.device);
  if (!loaded) return loaded.error();
  if (frame_.recordings) (*loaded)->capture(*frame_.recordings);
  made_.executable = std::move(*loaded);
  story_ = fmt::format("{} kernels in {} units, {} of them built here, {} received, {:.0f} ms",
                       kernels, made.objects->size(), made.built, made.received,
                       milliseconds(job.clock.now() - start));
  return std::nullopt;
}

}  // namespace lockstep::worker
