// How ranks of one group communicate: control rounds (messages by which they agree) and data
// collectives (tensors). The backends are MPI, TCP, simulated and fake; each exports only a
// factory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/collectives/base/dtype.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/collectives/host_runs.h>
#include <lockstep/collectives/round.h>

namespace lockstep::collectives {

/// For Min and Max of floats, a not-a-number on one rank gives not-a-number on all, and 0 is above
/// -0. On GPUs NCCL's rules hold.
enum class Reduce : std::uint8_t { Sum, Min, Max };

/// One collective on tensors. Buffers are contiguous rows of `row_elements` elements; counts are
/// numbers of rows, so that 32-bit counts of MPI do not overflow. Buffers belong to the caller and
/// stay valid until the operation is done; `send` and `receive` do not overlap.
struct Collective {
  enum class Kind : std::uint8_t {
    AllToAll,       // send_rows[p] rows to peer p, receive_rows[p] from it, in rank order
    AllReduce,      // rows in both buffers
    AllGather,      // rows from each rank; size*rows received, in rank order
    ReduceScatter,  // size*rows sent; rows received: this rank's share of the reduction
    Broadcast,      // rows in `receive`, filled on the root beforehand; `send` unused
  };
  Kind kind = Kind::AllReduce;
  DType dtype = DType::F32;
  Reduce reduce = Reduce::Sum;
  Rank root{};
  const void* send = nullptr;
  void* receive = nullptr;
  std::int64_t row_elements = 1;
  std::int64_t rows = 0;
  std::span<const std::int64_t> send_rows{}, receive_rows{};
  /// Names the operation in reports ("all_to_all_single moe.cpp:41").
  std::string_view label{};
};

/// "all_to_all_single", as users write it.
[[nodiscard]] std::string_view collective_name(Collective::Kind kind);

/// "all_reduce sum of f32, 3 rows, 4 elements per row": what must be equal on all ranks.
[[nodiscard]] std::string shape_text(const Collective& collective);

/// Checks `collective` for one rank of a group of `size`, equally on every backend. Errors:
/// BadInput (counts that are missing, negative or too large; no buffer; no such root; a reduction
/// that the dtype does not have, as a sum of bool).
[[nodiscard]] Result<void> check(const Collective& collective, int size);

/// Total numbers of elements that this rank sends and receives. Requires check() to have passed.
struct CollectiveExtent {
  std::int64_t send = 0, receive = 0;
  [[nodiscard]] static CollectiveExtent of(const Collective& collective, int size);
};

/// One group of ranks as seen from one of them. Not thread-safe: one thread per object. At most one
/// round and one collective are under way at a time. Neither holds up the other: a round that was
/// started ahead of its use stays under way while collectives run. The backend watches every wait.
class Communicator {
 public:
  virtual ~Communicator() = default;

  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// "mpi", "simulated", "fake rank 3 of 8 (nothing is exchanged)"
  [[nodiscard]] virtual std::string name() const = 0;
  /// True if every other rank is assumed to do and send what this rank does (fake.h). In a round in
  /// which only one rank contributes, this rank then contributes in its place.
  [[nodiscard]] virtual bool mirrors() const { return false; }

  /// Which ranks share a host, for rounds that gather the messages of a host; null: not known.
  /// Equal on all ranks.
  [[nodiscard]] virtual const HostRuns* hosts() const { return nullptr; }

  /// Starts a round and advances it as far as possible without waiting. `round` must live until it
  /// has ended.
  virtual void start(Round& round) = 0;
  /// Starts a collective. Errors: BadInput (see check()), and those of poll().
  [[nodiscard]] virtual Result<void> start(const Collective& collective) = 0;
  /// Advances what is under way; true once nothing is under way. Never blocks. Errors: RankLost,
  /// Stuck, Internal (the transport failed).
  [[nodiscard]] virtual Result<bool> poll() = 0;
  /// Polls until nothing is under way: spins first, then yields, then sleeps. The wait is watched.
  [[nodiscard]] virtual Result<void> wait() = 0;

  /// Starts a round and waits until nothing is under way.
  [[nodiscard]] Result<void> run(Round& round);
  /// Starts a collective and waits for its end, but not for the end of a round under way.
  [[nodiscard]] virtual Result<void> run(const Collective& collective) = 0;
};

}  // namespace lockstep::collectives
