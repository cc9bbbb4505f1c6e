// The data plane of the TCP backend: each collective is one or two exchanges of blocks between all
// pairs. Used by tcp.cpp only.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/collectives/communicator.h>
#include <lockstep/collectives/tcp/tcp_mesh.h>

namespace lockstep::collectives {

/// A group of ranks.
struct TcpGroup {
  TcpMesh* mesh = nullptr;
  std::uint64_t id = 0;
  std::vector<Rank> ranks;  // their numbers in the job, by place in the group
  Rank self;                // this rank's place in the group
};

/// Runs one Collective at a time. Reduces in rank order, and each element on one rank only, so that
/// all ranks have the same bits. Used by one thread.
class TcpData {
 public:
  explicit TcpData(TcpGroup group) : group_(std::move(group)) {}

  /// Requires that check() has passed, and that no collective is under way.
  void start(const Collective& collective);
  [[nodiscard]] bool under_way() const { return collective_.has_value(); }
  /// Sends and receives as far as it can; true when nothing is under way. Errors: Internal (ranks
  /// met in different collectives, or their split lists do not fit); after an error the group is
  /// unusable.
  [[nodiscard]] Result<bool> advance();
  /// Peers for which this rank still waits, numbered by place in the group.
  [[nodiscard]] std::vector<Rank> awaited() const;

 private:
  /// The block for one peer and the block from it.
  struct Block {
    std::span<const std::byte> send;
    std::size_t sent = 0;  // bytes of the message: its head and `send`
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
  std::string shape_;          // must be equal on all ranks
  Bytes head_;                 // start of each message: shape_, with its length
  bool second_ = false;        // second exchange of an all_reduce: the reduced shares
  std::vector<Block> blocks_;  // by place in the group
  Bytes scratch_;              // all ranks' input to this rank's share
  std::vector<std::int64_t> send_rows_, receive_rows_;
};

}  // namespace lockstep::collectives
