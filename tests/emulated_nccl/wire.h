// What ranks of the emulated NCCL say to the place where they meet, over a unix socket: a greeting,
// then one launch after the other, each answered when its part of every operation in it is done.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nccl.h>

namespace lockstep::emulated {

using Block = std::vector<std::byte>;

/// The abstract name of a socket (no file is left behind), as an ncclUniqueId begins with it.
using SocketName = std::array<char, 64>;

struct Greeting {
  std::int32_t size = 0, rank = 0;
  std::array<char, 16> unit{};  // the GPU's UUID; all zero: unknown
};

enum class Kind : std::int32_t {
  Send,
  Receive,
  AllReduce,
  AllGather,
  ReduceScatter,
  Broadcast,
  Finalize
};

/// `peer`: also the root of a broadcast. `count`: as the call of NCCL had it.
struct Operation {
  Kind kind = Kind::Send;
  std::int32_t type = 0, reduce = 0, peer = 0;
  std::uint64_t count = 0;
  bool operator==(const Operation&) const = default;
  [[nodiscard]] bool pairwise() const { return kind == Kind::Send || kind == Kind::Receive; }
  /// "ncclAllReduce of 5 elements of type 7, operation 0"
  [[nodiscard]] std::string text() const;
};

/// One launch: what this rank brings to each operation.
struct Launched {
  std::vector<Operation> operations;
  std::vector<Block> blocks;  // as many; empty for what only receives
};

/// What it takes away.
struct Answered {
  ncclResult_t result = ncclSuccess;
  std::string text;
  std::vector<Block> blocks;  // one for each operation; empty for what only sends
};

/// Bytes of an element; 0 for a type that NCCL has not.
[[nodiscard]] std::size_t type_size(std::int32_t type);

/// All or nothing; false, and nullopt, where the other end has gone.
[[nodiscard]] bool write(int socket, const Greeting& greeting);
[[nodiscard]] bool write(int socket, const Launched& launched);
[[nodiscard]] bool write(int socket, const Answered& answered);
[[nodiscard]] std::optional<Greeting> read_greeting(int socket);
[[nodiscard]] std::optional<Launched> read_launched(int socket);
[[nodiscard]] std::optional<Answered> read_answered(int socket);

/// A socket that listens at a new name, and one that is connected to it; -1 where there is none.
[[nodiscard]] int listen_at_new_name(SocketName& name);
[[nodiscard]] int connect_to(const SocketName& name);

}  // namespace lockstep::emulated
