// The data plane of the TCP backend: each collective as one or two exchanges of blocks, each with
// each. Used by tcp.cpp only.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/collectives/communicator.h>
#include <lockstep/collectives/tcp/tcp_mesh.h>

namespace lockstep::collectives {

/// The ranks of a group, by their place in it, as the mesh numbers them.
struct TcpGroup {
  TcpMesh* mesh = nullptr;
  std::uint64_t id = 0;
  std::vector<Rank> ranks;
  Rank self;  // its place
};

/// Drives one Collective at a time. Reductions go in rank order, and each element is reduced once,
/// so all ranks have the same bits. One thread.
class TcpData {
 public:
  explicit TcpData(TcpGroup group) : group_(std::move(group)) {}

  /// Requires check() to have passed, and that none is under way.
  void start(const Collective& collective);
  [[nodiscard]] bool under_way() const { return collective_.has_value(); }
  /// Moves as far as it can; true when it has ended. Errors: Internal (ranks met in different
  /// collectives, or their split lists do not fit); nothing can be trusted after that.
  [[nodiscard]] Result<bool> advance();
  /// Peers that this rank still waits for, by their place in the group.
  [[nodiscard]] std::vector<Rank> awaited() const;

 private:
  /// What goes to one peer and what comes from it.
  struct Block {
    std::span<const std::byte> send;
    std::size_t sent = 0;  // of the message: its head and these
    bool sends = false, receives = false;
    std::span<std::byte> receive;
  };
  void exchange_blocks();
  void lay_out();
  void lay_out_shares();
  void lay_out_gather();
  void feed(std::size_t peer);
  [[nodiscard]] Result<bool> hear(std::size_t peer);
  void reduce_share();
  void swap(std::size_t peer, std::span<const std::byte> send, std::span<std::byte> receive);
  [[nodiscard]] std::size_t row_bytes() const;
  /// First element of a rank's share of a reduction.
  [[nodiscard]] std::int64_t share(std::size_t rank) const;
  [[nodiscard]] bool reduces() const;

  TcpGroup group_;
  std::optional<Collective> collective_;
  std::string shape_;          // what must be equal on all ranks
  Bytes head_;                 // of each message: shape_, with its length
  bool second_ = false;        // of an all_reduce: the shares are reduced and go round
  std::vector<Block> blocks_;  // by place in the group
  Bytes scratch_;              // what the others bring to this rank's share
  std::vector<std::int64_t> send_rows_, receive_rows_;
};

}  // namespace lockstep::collectives
