// How ranks of one group communicate: control rounds (bytes of the agreement) and data collectives
// (tensors). One backend per .cpp: MPI, TCP, simulated, fake; each exports a factory only.
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

/// Min and Max of floats: not-a-number on one rank gives not-a-number on all, and 0 is above -0
/// (GPUs: as in NCCL).
enum class Reduce : std::uint8_t { Sum, Min, Max };

/// One collective on tensors. Buffers are contiguous rows of `row_elements` elements; counts are
/// rows, so a row datatype keeps 32-bit counts from overflowing. Buffers belong to the caller and
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

/// Checks `collective` for one rank of a group of `size`; the same on every backend. Errors:
/// BadInput (counts missing, negative or too large, no buffer, no such root, a reduction that the
/// dtype does not have: a sum of bool).
[[nodiscard]] Result<void> check(const Collective& collective, int size);

/// Elements that this rank sends and receives in all. Requires check() to have passed.
struct CollectiveExtent {
  std::int64_t send = 0, receive = 0;
  [[nodiscard]] static CollectiveExtent of(const Collective& collective, int size);
};

/// One group of ranks as seen from one of them. Not thread-safe: one thread per object. At most one
/// round and one collective are under way at a time, and neither holds up the other: a round that
/// was started ahead of its use stays under way while collectives run. Every wait is watched by the
/// backend.
class Communicator {
 public:
  virtual ~Communicator() = default;

  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// "mpi", "simulated", "fake rank 3 of 8 (nothing is exchanged)"
  [[nodiscard]] virtual std::string name() const = 0;
  /// True if every other rank is taken to do and to send what this one does (fake.h). In a round in
  /// which one rank alone contributes, this rank then contributes in its place.
  [[nodiscard]] virtual bool mirrors() const { return false; }

  /// Which ranks share a host, for rounds that gather the messages of a host; null: not known.
  /// Equal on all ranks.
  [[nodiscard]] virtual const HostRuns* hosts() const { return nullptr; }

  /// Starts a round, which must outlive its run. Advances as far as possible without waiting.
  virtual void start(Round& round) = 0;
  /// Starts a collective. Errors: BadInput where counts do not fit the group.
  [[nodiscard]] virtual Result<void> start(const Collective& collective) = 0;
  /// Advances what is under way; true when nothing is any more. Never blocks.
  /// Errors: RankLost, Stuck, Internal (the transport failed).
  [[nodiscard]] virtual Result<bool> poll() = 0;
  /// Polls until nothing is under way. Spins first, then yields, then sleeps; watched.
  [[nodiscard]] virtual Result<void> wait() = 0;

  /// Starts a round and waits until nothing is under way.
  [[nodiscard]] Result<void> run(Round& round);
  /// Starts a collective and waits for its end, not for that of a round under way.
  [[nodiscard]] virtual Result<void> run(const Collective& collective) = 0;
};

}  // namespace lockstep::collectives
