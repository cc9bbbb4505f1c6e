// One rank's part in a run whose failures are joint: what it does in status rounds, comparisons and
// collectives before and after it has failed. error_sync_points.h says where these are in a graph.
// The interpreter and the executable are its engines: they compute the values.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/compile/run/carried_status.h>
#include <lockstep/worker/compile/run/graph_collective.h>
#include <lockstep/worker/compile/run/run_host.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

/// Does one run after another. Single-threaded.
class JointRun {
 public:
  /// Waits for the steps that the engine has started. Returns the earliest among `known` and the
  /// failures of these steps. Not needed by an engine that waits for each step.
  using Earliest = std::function<std::optional<LocalFailure>(std::optional<LocalFailure> known)>;
  /// Starts a collective of zeros on the device that holds the values. False: it must run over the
  /// host.
  using StartZeros = std::function<Result<bool>(const NodeBuffers& sizes)>;
  /// A collective of the graph.
  struct Exchange {
    NodeId node = 0;
    std::string_view label;
    bool carries_status = false;  // ErrorSync::Piggybacked
    bool reported_later = false;  // a later status follows: ErrorSyncPoints::told_from(node)
  };

  /// `graph` outlives it.
  explicit JointRun(const Graph& graph, Earliest earliest = {});

  /// Begins a run over the ranks of the frame. Both arguments must live until the next run begins.
  void begin(collectives::Communicator& frame, RunHost& host);

  /// Records this rank's failure at a node. Only the first failure counts.
  void fail(NodeId node, Status status);
  /// Records that an input has other sizes than the graph was made for. If an assert fails because
  /// of it, the assert is reported instead, in the user's words; else the error becomes this rank's
  /// failure at the next node passed to fail_on_input(). Only the first call counts.
  void refuse_input(Status status);
  /// Makes a refused input this rank's failure at `node`. Called before a node whose values another
  /// rank or the host sees.
  void fail_on_input(NodeId node);
  [[nodiscard]] bool failed() const { return failure_.has_value(); }
  [[nodiscard]] bool input_refused() const { return input_error_.has_value(); }
  /// True if the engine has to carry out the next step. `asserts`: the step is an assert, or
  /// another step that is carried out even after a refused input.
  [[nodiscard]] bool goes_on(bool asserts) const {
    return !failed() && (asserts || !input_refused());
  }
  /// Waits for started steps. Errors: this rank's failure so far.
  Result<void> well();

  /// Runs a status round with this rank's failure, if any. Errors: the joint error of all ranks.
  [[nodiscard]] Result<void> settle();
  /// Returns the joint error after a counts exchange in which some rank reported that it failed.
  /// Runs a status round.
  [[nodiscard]] Status told();
  /// Fails this rank if the split lists of an AllToAll do not fit its rows or the size of its
  /// group.
  void check_splits(NodeId node, std::span<const std::int64_t> splits, std::int64_t operand_rows,
                    std::int64_t result_rows);
  /// Compare the split lists of an AllToAll, or the values of `sizes`, with those of the peers. A
  /// rank that has failed takes part but ignores `values`; it reports its failure in the status
  /// round that follows. A mismatch of splits is the receiver's failure, a mismatch of sizes the
  /// failure of all ranks of the group. Errors: the communicator's.
  [[nodiscard]] Result<void> compare_splits(NodeId node, std::span<const std::int64_t> values,
                                            std::string_view label);
  [[nodiscard]] Result<void> compare_sizes(NodeId node, std::span<const shapes::Expr> sizes,
                                           std::span<const std::int64_t> values,
                                           std::string_view label);

  /// Runs the collective on the host. Returns true on all ranks if it carried a status and a rank
  /// has failed; told() then returns the error. Errors: the communicator's.
  [[nodiscard]] Result<bool> exchange(const Exchange& of, const NodeBuffers& buffers);
  /// Takes part in the collective with zeros, on a rank that has failed. `sizes` is nullopt if the
  /// rank does not know them. Errors: this rank's failure, if it cannot take part or no later
  /// status would report it; the joint error, if the collective carried a status; the
  /// communicator's.
  [[nodiscard]] Result<void> take_part(const Exchange& of, const std::optional<NodeBuffers>& sizes,
                                       const StartZeros& start = {});

  /// Returns the communicator of a node's collective. Errors: Internal.
  [[nodiscard]] Result<collectives::Communicator*> ranks(NodeId node) const;
  /// Called after the last step and its status round. Errors: this rank's failure, or a refused
  /// input.
  [[nodiscard]] Result<void> end();

 private:
  template <class Compare>
  Result<void> compare(NodeId node, std::span<const std::int64_t> values, Compare compare);

  const Graph& graph_;
  Earliest earliest_;
  CarriedStatus carried_;
  collectives::Communicator* frame_ = nullptr;
  RunHost* host_ = nullptr;
  std::optional<LocalFailure> failure_;
  std::optional<Status> input_error_;
};

}  // namespace lockstep::worker
