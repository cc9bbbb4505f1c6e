// An operation on a process group: as its rank issues it, as it is posted for its peers, and
// whether two of them fit. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/rank.h>

namespace lockstep::lines {

/// Whose part an operation needs before it ends for the rank that waits in it.
enum class Needs : std::uint8_t {
  All,
  Root,      // a broadcast, elsewhere than on its root; a receive: its root is the sender
  Senders,   // those from which it takes anything
  Nobody,    // a broadcast's root; a send that may be buffered
  Receiver,  // a send that ends when it is received
};

/// As a rank issues it. Views are read before the call that gets them returns.
struct Operation {
  std::string_view kind{};       // "all_reduce"
  std::string_view dtype{};      // "f32"
  std::string_view reduction{};  // "sum"; empty: it reduces nothing
  std::int32_t root = -1;        // member of the group; -1: there is none
  Needs needs = Needs::All;
  /// Its other side goes by another name: of a send and a receive.
  bool paired = false;
  /// Numbers of elements that all members need alike, a tensor each.
  std::span<const std::int64_t> elements{};
  /// What messages show: the sizes of its first tensor.
  std::span<const std::int64_t> shape{};
  /// Elements to and from each member, where these may differ: none, one number (to or from the
  /// root) or one per member.
  std::span<const std::int64_t> to{}, from{};
  /// "train.py:41 layers.3.mlp"
  std::string_view place{};
};

inline constexpr std::size_t kShownSizes = 7;

/// A text of the memory that an entry lies in; 0: none.
using TextId = std::uint32_t;

/// As it lies in memory. What `equal` covers must be alike on all members.
struct Posted {
  std::uint64_t equal = 0;
  TextId kind = 0, dtype = 0, reduction = 0, place = 0;
  std::int32_t root = -1;
  std::uint32_t tensors = 0;       // how many numbers of elements there were
  std::uint32_t to = 0, from = 0;  // how many numbers follow in `values`
  std::uint64_t values = 0;        // where they begin
  std::uint64_t site = 0;          // digest of its place; 0: it has none, or is paired
  std::int64_t shape[kShownSizes] = {};
  std::uint8_t sizes = 0;  // of them are shown; 255: more than fit
  Needs needs = Needs::All;
  std::uint8_t paired = 0;  // 1: a send or a receive
  std::uint8_t unused[13] = {};
};
static_assert(sizeof(Posted) == 128);

/// With the numbers that belong to it: `to` of them, then `from`.
struct Entry {
  Posted posted;
  std::vector<std::int64_t> values;
};

/// What must be equal of an operation.
[[nodiscard]] std::uint64_t digest_of(const Operation& operation);
/// Of its place, which need not be equal. 0: it has none, or its other side has another one anyway.
[[nodiscard]] std::uint64_t site_of(const Operation& operation);

/// Whether the entries of two members fit: what must be equal is, and each takes what the other
/// sends.
[[nodiscard]] bool fits(const Entry& a, int member_a, const Entry& b, int member_b);

/// The members of whom it needs its part before it ends for `self`, of a group of `size`.
[[nodiscard]] std::vector<int> needed_of(const Entry& entry, int self, int size);

/// The texts of an entry, as its memory has them.
struct EntryTexts {
  std::string kind, dtype, reduction, place;
};

/// "all_reduce sum f32[5, 4] at train.py:41"; what goes to `peer` and comes from it is added where
/// the two do not fit for that reason alone.
[[nodiscard]] std::string text_of(const Entry& entry, const EntryTexts& texts);
/// "sends 3 elements to member 1 and takes 2 from it"; empty: splits say nothing about it.
[[nodiscard]] std::string splits_text(const Entry& entry, int peer);

}  // namespace lockstep::lines
