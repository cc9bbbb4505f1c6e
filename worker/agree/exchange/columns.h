// The fixed-layout vector of a miss: columns of 64-bit words over the slots and sources of a layout
// that is equal on all ranks, so that no names are sent. Joined word by word, without decoding.
// Format, all little-endian: a header (version, sections, slots, sources: u32 each; digest of the
// layout: two u64); then the columns whose section the header announces, in the order of `Column`;
// then the users' fields, if some rank has any (field.h). Bytes of peers are checked before use: an
// invalid vector makes the join empty, and an empty vector is invalid, too.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/shapes/expr/fingerprint.h>

namespace lockstep::worker {

/// A slot is one size, int or bool of a source. Where a rank lacks a slot, Least is INT64_MAX and
/// Greatest INT64_MIN.
enum class Column : std::uint8_t {
  Least,           // per slot; always present
  Marks,           // per slot, a bit per Mark; absent: nothing is marked
  Orders,          // per source, order of a tensor's dims (dim_order.h); absent: all contiguous
  Kinds,           // per source, OR of the ranks' bits (exchange_mixed.cpp)
  FirstSpec,       // per source, its spec on the lowest rank that has it; 0: no rank has it
  LeastDims,       // per source, the least number of dims of a tensor
  StoredStates,    // per slot, shapes::Seen::State of the stored scalar or size
  StoredValues,    // per slot, the value of that state
  StoredSmallest,  // per slot, the smallest size seen
  StoredSizeDims,  // per source: -1 unset, INT64_MAX dynamic, else the number of dims
  StoredSmallestDims,
  Greatest,  // per slot; absent: equal to Least
  First,     // per slot, value on the lowest rank that has it; absent: equal to Least
};
inline constexpr std::size_t kColumns = static_cast<std::size_t>(Column::First) + 1;

/// Version of the messages about a call. Raised when columns are added or removed, or the stored
/// state of a source changes.
inline constexpr std::uint32_t kColumnsVersion = 3;

/// Columns that are present together.
enum Section : std::uint32_t {
  kMarks = 1,
  kOrders = 2,
  kMixed = 4,   // ranks have different sources or hold different stored states
  kStored = 8,  // ranks hold different stored states
  kGreatest = 16,
  kFirst = 32,
  kFields = 64,  // not columns but the bytes after them. Vectors without fields are as in earlier
                 // builds, so fields did not raise the version.
};

/// Must be equal on all ranks for their vectors to be joined.
struct ColumnLayout {
  shapes::Fingerprint digest;
  std::uint32_t slots = 0, sources = 0;
  bool operator==(const ColumnLayout&) const = default;
};

/// The words of one column, at an address of any alignment.
class Words {
 public:
  Words() = default;
  explicit Words(const std::byte* start) : start_(start) {}
  [[nodiscard]] bool absent() const { return start_ == nullptr; }
  [[nodiscard]] const std::byte* data() const { return start_; }
  [[nodiscard]] std::int64_t operator[](std::size_t i) const {
    std::int64_t word = 0;
    std::memcpy(&word, start_ + i * sizeof word, sizeof word);
    return word;
  }

 private:
  const std::byte* start_ = nullptr;
};

/// Reads a vector; borrows its bytes.
class Columns {
 public:
  /// nullopt: not a valid vector.
  [[nodiscard]] static std::optional<Columns> of(std::span<const std::byte> bytes);

  [[nodiscard]] const ColumnLayout& layout() const { return layout_; }
  [[nodiscard]] std::uint32_t sections() const { return sections_; }
  [[nodiscard]] Words words(Column column) const {
    return words_[static_cast<std::size_t>(column)];
  }
  /// The word at `i`, or the value that an absent column stands for. A column of section kMixed or
  /// kStored must be present.
  [[nodiscard]] std::int64_t word(Column column, std::size_t i) const;
  /// The bytes behind the columns, not decoded.
  [[nodiscard]] std::span<const std::byte> fields() const { return fields_; }

 private:
  ColumnLayout layout_;
  std::uint32_t sections_ = 0;
  std::array<Words, kColumns> words_;
  std::span<const std::byte> fields_;
};

/// Writes a vector; all words are zero at first.
class ColumnWriter {
 public:
  ColumnWriter(const ColumnLayout& layout, std::uint32_t sections);
  void set(Column column, std::size_t i, std::int64_t word);
  /// Requires as many words as the column has.
  void set(Column column, std::span<const std::int64_t> words);
  void fill(Column column, std::int64_t word);
  /// Joins every word of `a` with that of `b`, whose ranks are higher. Requires that this writer
  /// has the layout and all sections of both, and the sections of Greatest and First.
  void join(const Columns& a, const Columns& b);
  /// Returns the vector. Omits First if First repeats Least; then also omits Greatest if Greatest
  /// repeats Least.
  [[nodiscard]] Bytes take() &&;

 private:
  ColumnLayout layout_;
  std::uint32_t sections_;
  std::array<std::size_t, kColumns> start_{};
  Bytes bytes_;
};

/// Appends encoded fields to a vector that has none. Does nothing if `fields` is empty.
void append_fields(Bytes& vector, std::span<const std::byte> fields);

/// The join for the tree: the ranks of `lower` are below those of `higher`. Associative to the
/// byte. The length depends on the number of ranks only through the distinct values of fields.
/// Vectors over different layouts join to an empty one.
[[nodiscard]] Bytes join_columns(std::span<const std::byte> lower,
                                 std::span<const std::byte> higher);

}  // namespace lockstep::worker
