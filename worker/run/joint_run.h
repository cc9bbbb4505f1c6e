// One rank's part in a run whose failures are joint: what it does in status rounds, comparisons and
// collectives before and after it has failed. Where those stand is said by error_sync_points.h. The
// interpreter and the executable are its engines: they compute the values.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/graph/graph.h>
#include <lockstep/worker/run/carried_status.h>
#include <lockstep/worker/run/graph_collective.h>
#include <lockstep/worker/run/run_host.h>

namespace lockstep::worker {

/// One run after another; one thread.
class JointRun {
 public:
  /// What an engine has started and not waited for may have failed before `known`, the failure that
  /// the rank knows of: the first of both. An engine that waits for each step has none of it.
  using Earliest = std::function<std::optional<LocalFailure>(std::optional<LocalFailure> known)>;
  /// Starts a collective of zeros where the values are; false: it goes over the host.
  using StartZeros = std::function<Result<bool>(const NodeBuffers& sizes)>;
  /// A collective of the graph.
  struct Exchange {
    NodeId node = 0;
    std::string_view label;
    bool carries_status = false;  // ErrorSync::Piggybacked
    bool told_later = false;      // ErrorSyncPoints::told_from(node)
  };

  /// `graph` outlives it.
  explicit JointRun(const Graph& graph, Earliest earliest = {});

  /// A run begins, over the ranks of the frame. Both stay until the next one begins.
  void begin(collectives::Communicator& frame, RunHost& host);

  /// This rank fails at a node. The first failure counts.
  void fail(NodeId node, Status status);
  /// An input has other sizes than the graph was made for, which breaks what asserts say: they come
  /// first, in the user's words. It is this rank's failure at the next node that `fail_on_input`
  /// is called for. The first one counts.
  void refuse_input(Status status);
  /// Called before a node that another rank, or the host, sees values of.
  void fail_on_input(NodeId node);
  [[nodiscard]] bool failed() const { return failure_.has_value(); }
  [[nodiscard]] bool input_refused() const { return input_error_.has_value(); }
  /// The engine carries out the next step: an assert, or one that computes.
  [[nodiscard]] bool goes_on(bool asserts) const {
    return !failed() && (asserts || !input_refused());
  }
  /// Waits for what was started. Errors: this rank's failure so far.
  Result<void> well();

  /// A status round, with this rank's failure. Errors: the joint error of all ranks.
  [[nodiscard]] Result<void> settle();
  /// A rank has told by a counts exchange that it failed: who, and why.
  [[nodiscard]] Status told();
  /// The lists of an AllToAll fit this rank's rows, and the size of its group; else it fails.
  void check_splits(NodeId node, std::span<const std::int64_t> splits, std::int64_t operand_rows,
                    std::int64_t result_rows);
  /// The comparison of an AllToAll's split lists, or of `sizes`, with those of its peers. `values`
  /// are not looked at on a rank that has failed, which takes part and tells in the status round
  /// that follows. What differs is the failure of all that took part. Errors: the communicator's.
  [[nodiscard]] Result<void> compare_splits(NodeId node, std::span<const std::int64_t> values,
                                            std::string_view label);
  [[nodiscard]] Result<void> compare_sizes(NodeId node, std::span<const shapes::Expr> sizes,
                                           std::span<const std::int64_t> values,
                                           std::string_view label);

  /// The collective on the host, its root filled. True on all ranks if it carried a status and one
  /// of them has failed: told() says who. Errors: the communicator's.
  [[nodiscard]] Result<bool> exchange(const Exchange& of, const NodeBuffers& buffers);
  /// The same for a rank that has failed: with zeros. `sizes` are none where the rank does not know
  /// them. Errors: its own failure, where it cannot take part or nobody would be told; the joint
  /// error, where the collective carried a status; the communicator's.
  [[nodiscard]] Result<void> take_part(const Exchange& of, const std::optional<NodeBuffers>& sizes,
                                       const StartZeros& start = {});

  /// Who carries out a node's collective. Errors: Internal.
  [[nodiscard]] Result<collectives::Communicator*> ranks(NodeId node) const;
  /// After the last step and its status round: this rank's failure, or an input refused.
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
