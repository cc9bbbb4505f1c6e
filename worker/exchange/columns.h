// The fixed-layout vector of a miss: columns of 64-bit words over the slots and sources of a layout
// that all ranks hold alike, so that no names travel. Joined word by word, without decoding.
// All little-endian: a header (version, sections, slots, sources: u32 each; digest of the layout:
// two u64), then those columns, in the order of `Column`, whose section is announced in the header,
// and behind them the fields of users, where some rank has any (field.h).
// Bytes of peers are checked before use: an invalid vector makes the join empty, and an empty
// vector is invalid, too.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/shapes/expr/fingerprint.h>

namespace lockstep::worker {

/// A slot is one size or scalar of a source. A slot that a rank does not have is `least` INT64_MAX
/// and `greatest` INT64_MIN.
enum class Column : std::uint8_t {
  Least,           // per slot; always there
  Marks,           // per slot, a bit per Mark; absent: nothing is marked
  Orders,          // per source, of a tensor's dims (dim_order.h); absent: all contiguous
  Kinds,           // per source, bits that some rank has (exchange_mixed.cpp)
  FirstSpec,       // per source, what the lowest rank that has it sees; 0: none has it
  LeastDims,       // per source, the fewest dims of a tensor
  StoredStates,    // per slot, shapes::Seen::State of the stored scalar or size
  StoredValues,    // per slot, its value
  StoredSmallest,  // per slot, the smallest size seen
  StoredSizeDims,  // per source: -1 unset, INT64_MAX dynamic, else the number of dims
  StoredSmallestDims,
  Greatest,  // per slot; absent: as Least
  First,     // per slot, of the lowest rank that has it; absent: as Least
};
inline constexpr std::size_t kColumns = static_cast<std::size_t>(Column::First) + 1;

/// The version of what ranks send each other about a call. Higher where a column comes or goes, or
/// what is stored of a source changes.
inline constexpr std::uint32_t kColumnsVersion = 3;

/// Columns come and go together.
enum Section : std::uint32_t {
  kMarks = 1,
  kOrders = 2,
  kMixed = 4,   // ranks have different sources
  kStored = 8,  // ranks hold different stored states
  kGreatest = 16,
  kFirst = 32,
  kFields = 64,  // no columns: the rest of the bytes. Without fields a vector is as it was before
                 // there were any, so this is no version of its own.
};

/// What all ranks must hold alike for their vectors to be joined.
struct ColumnLayout {
  shapes::Fingerprint digest;
  std::uint32_t slots = 0, sources = 0;
  bool operator==(const ColumnLayout&) const = default;
};

/// The words of one column, at any address.
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
  /// nullopt: not such a vector.
  [[nodiscard]] static std::optional<Columns> of(std::span<const std::byte> bytes);

  [[nodiscard]] const ColumnLayout& layout() const { return layout_; }
  [[nodiscard]] std::uint32_t sections() const { return sections_; }
  [[nodiscard]] Words words(Column column) const {
    return words_[static_cast<std::size_t>(column)];
  }
  /// What the word says, or what its absence says. Requires Stored or Mixed columns to be there.
  [[nodiscard]] std::int64_t word(Column column, std::size_t i) const;
  /// What stands behind the columns; unread.
  [[nodiscard]] std::span<const std::byte> fields() const { return fields_; }

 private:
  ColumnLayout layout_;
  std::uint32_t sections_ = 0;
  std::array<Words, kColumns> words_;
  std::span<const std::byte> fields_;
};

/// Writes one rank's vector: zeros at first.
class ColumnWriter {
 public:
  ColumnWriter(const ColumnLayout& layout, std::uint32_t sections);
  void set(Column column, std::size_t i, std::int64_t word);
  /// Requires as many words as the column has.
  void set(Column column, std::span<const std::int64_t> words);
  void fill(Column column, std::int64_t word);
  /// Every word of a's ranks joined with that of b's, which are above them. Requires one layout and
  /// all sections of both, and those of Greatest and First.
  void join(const Columns& a, const Columns& b);
  /// The vector, without columns that repeat `least`.
  [[nodiscard]] Bytes take() &&;

 private:
  ColumnLayout layout_;
  std::uint32_t sections_;
  std::array<std::size_t, kColumns> start_{};
  Bytes bytes_;
};

/// Puts encoded fields behind the columns of a vector that has none; none: leaves it as it is.
void append_fields(Bytes& vector, std::span<const std::byte> fields);

/// For the tree: lower's ranks are below higher's. Associative to the byte; as long for a million
/// ranks as for two, but for the distinct values of fields. Vectors over different layouts join to
/// an empty one.
[[nodiscard]] Bytes join_columns(std::span<const std::byte> lower,
                                 std::span<const std::byte> higher);

}  // namespace lockstep::worker
