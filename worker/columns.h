// The fixed-layout vector of a miss: columns of 64-bit words over the slots of a layout that all
// ranks hold alike, so that no names travel. Joined elementwise, without decoding.
//
//   header    version, sections, slots, sources (u32 each), digest of the layout (two u64)
//   least     a word per slot: the smallest value of any rank
//   marks     a byte per slot, a bit per Mark, padded to words; absent: nothing is marked
//   strides   a word per slot, encoded; absent: every tensor is contiguous
//   greatest  a word per slot; absent: every rank has `least`
//   first     a word per slot, of the lowest rank; absent: as `least`
//
// All little-endian. Bytes of peers are checked before use: what is no such vector joins to an
// empty one, which is none either.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/shapes/dynamism.h>
#include <lockstep/shapes/fingerprint.h>

namespace lockstep::worker {

/// A view of such a vector; borrows the bytes. Sections that are absent read as said above.
class Columns {
 public:
  enum Section : std::uint32_t { Marks = 1, Strides = 2, Greatest = 4, First = 8 };

  /// nullopt: not such a vector (another version, a length that the header does not lead to).
  [[nodiscard]] static std::optional<Columns> of(std::span<const std::byte> bytes);

  [[nodiscard]] std::uint32_t slots() const { return slots_; }
  [[nodiscard]] const shapes::Fingerprint& layout() const { return layout_; }
  [[nodiscard]] bool has(Section section) const { return (sections_ & section) != 0; }
  [[nodiscard]] std::int64_t least(std::size_t slot) const { return word(least_, slot); }
  [[nodiscard]] std::int64_t greatest(std::size_t slot) const { return word(greatest_, slot); }
  [[nodiscard]] std::int64_t first(std::size_t slot) const { return word(first_, slot); }
  [[nodiscard]] std::uint8_t marks(std::size_t slot) const;
  [[nodiscard]] std::int64_t stride(std::size_t slot) const;

 private:
  friend Bytes join_columns(std::span<const std::byte>, std::span<const std::byte>);
  [[nodiscard]] static std::int64_t word(const std::byte* column, std::size_t slot);

  std::uint32_t sections_ = 0, slots_ = 0, sources_ = 0;
  shapes::Fingerprint layout_;
  const std::byte *least_ = nullptr, *marks_ = nullptr, *strides_ = nullptr, *greatest_ = nullptr,
                  *first_ = nullptr;
};

/// One rank's vector. `marks` (a bit each) and `strides` (encoded) are empty or as long as
/// `values`.
[[nodiscard]] Bytes columns_of(const shapes::Fingerprint& layout,
                               std::span<const std::int64_t> values,
                               std::span<const std::uint8_t> marks,
                               std::span<const std::int64_t> strides);

/// For the tree: lower's ranks are below higher's. Associative to the byte, as long for a million
/// ranks as for two. Vectors over different layouts join to an empty one.
[[nodiscard]] Bytes join_columns(std::span<const std::byte> lower,
                                 std::span<const std::byte> higher);

/// A stride as a word: 0 is what a contiguous tensor has there, so that it need not be said.
[[nodiscard]] std::int64_t stride_code(const shapes::Seen& stride, std::size_t dim,
                                       std::size_t ndim);
/// Undoes stride_code. nullopt: no such word.
[[nodiscard]] std::optional<shapes::Seen> stride_of(std::int64_t code, std::size_t dim,
                                                    std::size_t ndim);

}  // namespace lockstep::worker
