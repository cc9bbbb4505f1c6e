// An operation on a process group, as its rank issues it and as it is posted for peers; whether the
// operations of two members fit. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/rank.h>

namespace lockstep::lines {

/// The members whose part an operation needs before a wait for it ends.
enum class Needs : std::uint8_t {
  All,
  Root,      // for a broadcast, except on its root; for a receive, whose root is the sender
  Senders,   // the members from which the operation takes anything
  Nobody,    // for a broadcast on its root; for a send that may be buffered
  Receiver,  // for a send that ends when it is received
};

/// An operation as its rank issues it. Views are read only during the call that gets them.
struct Operation {
  std::string_view kind{};       // "all_reduce"
  std::string_view dtype{};      // "f32"
  std::string_view reduction{};  // "sum"; empty: no reduction
  std::int32_t root = -1;        // member of the group; -1: no root
  Needs needs = Needs::All;
  /// True for a send or a receive: the other side has another kind and root.
  bool paired = false;
  /// Numbers of elements that must be equal on all members, one per tensor.
  std::span<const std::int64_t> elements{};
  /// Sizes of the first tensor, for messages.
  std::span<const std::int64_t> shape{};
  /// Numbers of elements sent to and taken from members, where members may differ: empty, one
  /// number (for the root) or one per member.
  std::span<const std::int64_t> to{}, from{};
  /// "train.py:41 layers.3.mlp"
  std::string_view place{};
};

inline constexpr std::size_t kShownSizes = 7;

/// Id of a text in the memory that holds the entry; 0: no text.
using TextId = std::uint32_t;

/// An operation as posted in memory. `equal` is the digest of what must be equal on all members.
struct Posted {
  std::uint64_t equal = 0;
  TextId kind = 0, dtype = 0, reduction = 0, place = 0;
  std::int32_t root = -1;
  std::uint32_t tensors = 0;       // size of Operation::elements
  std::uint32_t to = 0, from = 0;  // numbers of values of Operation::to and Operation::from
  std::uint64_t values = 0;        // position of its values in memory
  std::uint64_t site = 0;          // digest of its place; 0: no place, or paired
  std::int64_t shape[kShownSizes] = {};
  std::uint8_t sizes = 0;  // sizes in `shape`; 255: there are more
  Needs needs = Needs::All;
  std::uint8_t paired = 0;  // 1: a send or a receive
  std::uint8_t unused[13] = {};
};
static_assert(sizeof(Posted) == 128);

/// A posted operation with its values: first those of Operation::to, then those of Operation::from.
struct Entry {
  Posted posted;
  std::vector<std::int64_t> values;
};

/// Digest of what must be equal on all members.
[[nodiscard]] std::uint64_t digest_of(const Operation& operation);
/// Digest of the operation's place, which may differ between members. 0: it has no place, or it is
/// a send or receive, whose other side always has another place.
[[nodiscard]] std::uint64_t site_of(const Operation& operation);

/// Whether the entries of two members fit: what must be equal is equal, and each takes what the
/// other sends.
[[nodiscard]] bool fits(const Entry& a, int member_a, const Entry& b, int member_b);

/// The members other than `self`, in a group of `size`, whose part the operation needs before it
/// ends for `self`.
[[nodiscard]] std::vector<int> needed_of(const Entry& entry, int self, int size);

/// The texts of an entry, read from its memory.
struct EntryTexts {
  std::string kind, dtype, reduction, place;
};

/// "all_reduce sum f32[5, 4] at train.py:41".
[[nodiscard]] std::string text_of(const Entry& entry, const EntryTexts& texts);
/// "sends 3 elements to member 1 and takes 2 from it"; empty: the entry has no number for `peer`.
[[nodiscard]] std::string splits_text(const Entry& entry, int peer);

}  // namespace lockstep::lines
