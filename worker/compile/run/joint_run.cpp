#include <utility>

#include <lockstep/worker/compile/run/comparison.h>
#include <lockstep/worker/compile/run/joint_run.h>
#include <lockstep/worker/compile/run/run_failure.h>

namespace lockstep::worker {

JointRun::JointRun(const Graph& graph, Earliest earliest)
    : graph_(graph), earliest_(std::move(earliest)) {}

void JointRun::begin(collectives::Communicator& frame, RunHost& host) {
  frame_ = &frame;
  host_ = &host;
  failure_.reset();
  input_error_.reset();
}

void JointRun::fail(NodeId node, Status status) {
  if (failed()) return;
  failure_ = LocalFailure{std::move(status), node};
  if (earliest_) failure_ = earliest_(std::move(failure_));
}

void JointRun::refuse_input(Status status) {
  if (!input_error_) input_error_ = std::move(status);
}

void JointRun::fail_on_input(NodeId node) {
  if (input_error_) fail(node, *input_error_);
}

Result<void> JointRun::well() {
  if (!failed() && earliest_) failure_ = earliest_(std::nullopt);
  return failed() ? failure_->status : Result<void>{};
}

Result<void> JointRun::settle() {
  auto settled = host_->settle(failure_);
  if (settled && failed()) return failure_->status;
  return settled;
}

Status JointRun::told() {
  const auto settled = settle();
  return settled ? missing_failure_error(graph_) : settled.error();
}

void JointRun::check_splits(NodeId node, std::span<const std::int64_t> splits,
                            std::int64_t operand_rows, std::int64_t result_rows) {
  const auto group = ranks(node);
  if (!group) return fail(node, group.error());
  if (auto misfit =
          splits_failure(graph_, node, splits, operand_rows, result_rows, (*group)->size()))
    fail(node, *std::move(misfit));
}

template <class Compare>
Result<void> JointRun::compare(NodeId node, std::span<const std::int64_t> values, Compare compare) {
  if (failed() && !host_->reaches_all()) return {};
  const auto group = ranks(node);
  if (!group) return group.error();
  if (failed()) values = {};
  std::optional<Status> misfit;
  auto done = compare(**group, values, misfit);
  if (misfit) fail(node, *std::move(misfit));
  return done;
}

Result<void> JointRun::compare_splits(NodeId node, std::span<const std::int64_t> values,
                                      std::string_view label) {
  return compare(node, values, [&](auto& group, auto splits, auto& misfit) {
    return worker::compare_splits(group, *host_, graph_.nodes[node], splits, label, misfit);
  });
}

Result<void> JointRun::compare_sizes(NodeId node, std::span<const shapes::Expr> sizes,
                                     std::span<const std::int64_t> values, std::string_view label) {
  return compare(node, values, [&](auto& group, auto known, auto& misfit) {
    return worker::compare_sizes(group, *host_, graph_, graph_.nodes[node], sizes, known, label,
                                 misfit);
  });
}

Result<bool> JointRun::exchange(const Exchange& of, const NodeBuffers& buffers) {
  const Node& node = graph_.nodes[of.node];
  const auto group = ranks(of.node);
  if (!group) return group.error();
  fill_root(node, buffers);
  const auto collective = collective_of(node, buffers, of.label);
  if (of.carries_status) return carried_.all_to_all_with_status(**group, collective, false);
  if (auto done = (*group)->run(collective); !done) return done.error();
  return false;
}

Result<void> JointRun::take_part(const Exchange& of, const std::optional<NodeBuffers>& sizes,
                                 const StartZeros& start) {
  if (!of.reported_later || !host_->reaches_all() || !sizes) return failure_->status;
  const Node& node = graph_.nodes[of.node];
  const auto group = ranks(of.node);
  if (!group) return group.error();
  if (of.carries_status) {
    const auto any =
        carried_.all_to_all_with_status(**group, collective_of(node, *sizes, of.label), true);
    return any ? told() : any.error();
  }
  if (start) {
    const auto started = start(*sizes);
    if (!started) return started.error();
    if (*started) return {};
  }
  return take_part_with_zeros(**group, node, *sizes, graph_.nodes[node.inputs[0]].meta.dtype,
                              of.label);
}

Result<collectives::Communicator*> JointRun::ranks(NodeId node) const {
  return ranks_of(graph_.nodes[node], *frame_, *host_);
}

Result<void> JointRun::end() {
  if (auto so_far = well(); !so_far) return so_far;
  if (input_refused()) return *input_error_;
  return {};
}

}  // namespace lockstep::worker
