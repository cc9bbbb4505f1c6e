// A user field: a value that a rank gives a call besides its inputs, and that the group joins to
// one value before it decides on the call. It is no input: no size, symbol or stored state.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/status.h>

namespace lockstep::worker {

/// Object: a text that identifies an object; always joined by Equal.
enum class FieldType : std::uint8_t { Bool, Int, Text, Bytes, Object };
inline constexpr int kFieldTypes = 5;
/// "bool", "int", "string", "bytes", "object"
[[nodiscard]] std::string_view field_type_name(FieldType type);

/// How the ranks' values are joined. Equal: all ranks must have the same value. Min, Max: the least
/// or greatest value. Union: the distinct values, ordered by the lowest rank that has each.
enum class FieldJoin : std::uint8_t { Equal, Min, Max, Union };
inline constexpr int kFieldJoins = 4;
/// "equal", "min", "max", "union"
[[nodiscard]] std::string_view field_join_name(FieldJoin join);

/// kMostFieldBytes: maximum length of a text, of bytes or of an object. kMostUnionBytes: maximum
/// length of all values of a joined field together, where an int counts 8 and a bool 1.
inline constexpr std::size_t kMostFieldBytes = 1024, kMostUnionBytes = 65536;

/// The part of a field that must be equal on all ranks.
struct FieldSpec {
  std::string name;
  FieldType type = FieldType::Int;
  FieldJoin join = FieldJoin::Equal;
  bool operator==(const FieldSpec&) const = default;
};

/// A number (a bool is 0 or 1), or bytes; the other member is zero or empty. Numbers are ordered by
/// value, strings by their unsigned bytes.
struct FieldValue {
  std::int64_t number = 0;
  std::string bytes;
  auto operator<=>(const FieldValue&) const = default;
};

/// One rank's field.
struct Field {
  FieldSpec spec;
  FieldValue value;
  bool operator==(const Field&) const = default;
};

/// The group's field: one value; for a union one or more.
struct JoinedField {
  FieldSpec spec;
  std::vector<FieldValue> values;
  bool operator==(const JoinedField&) const = default;
  /// True if an entry made for these values serves a rank that has `own`: the same value (equal),
  /// not below the least (min), not above the greatest (max), or one of them (union).
  [[nodiscard]] bool absorbs(const Field& own) const;
  /// True if an entry made for these values serves every rank that an entry made for `older`
  /// serves.
  [[nodiscard]] bool absorbs(const JoinedField& older) const;
};

/// Number of bytes that a value adds to those limited by kMostUnionBytes.
[[nodiscard]] std::size_t bytes_of(FieldType type, const FieldValue& value);
/// Text for messages: true, 512, "text", 0x00ff. A long value is cut; its length and a fingerprint
/// follow.
[[nodiscard]] std::string value_text(FieldType type, const FieldValue& value);
/// "max 512"; "union "a", "b""; for a long union the first values and a fingerprint.
[[nodiscard]] std::string joined_text(const JoinedField& field);
/// "int, max"
[[nodiscard]] std::string spec_text(const FieldSpec& spec);

/// True if an entry with these joined values serves a rank with `own`: the same fields, each
/// absorbed.
[[nodiscard]] bool absorb(const std::vector<JoinedField>& joined, const std::vector<Field>& own);
/// Why absorb() is false: the first field that does not fit. nullopt: absorb() is true. "capacity
/// is 600, the entry has max 512"
[[nodiscard]] std::optional<std::string> field_misfit(const std::vector<JoinedField>& joined,
                                                      const std::vector<Field>& own);

/// Sorts fields by the bytes of their names, as in an observation.
void sort_fields(std::vector<Field>& fields);
/// The error that one rank can find in a field (BadInput): no name, or a value that is too long.
[[nodiscard]] std::optional<Status> field_error(const Field& field);

/// One field over a range of ranks, joined in rank order by the tree; follows the columns of an
/// exchange (field_join.cpp). At most one of `clash`, `differs` and `too_large` is set; `values` is
/// then empty, so that a failed join does not depend on the order of joins.
struct FieldCell {
  FieldSpec spec;          // of the lowest rank that has it
  bool missing = false;    // some rank does not have it
  bool clash = false;      // another type or join on some rank
  bool differs = false;    // joined by "equal", but the values differ
  bool too_large = false;  // the union is above kMostUnionBytes
  std::vector<FieldValue> values;
  bool operator==(const FieldCell&) const = default;
};
/// Sorted by the bytes of their names; names are unique.
using FieldCells = std::vector<FieldCell>;

/// The cells of one rank.
[[nodiscard]] FieldCells cells_of(const std::vector<Field>& fields);
/// The ranks of `lower` are below those of `higher`. A field that one side lacks is marked missing.
/// Associative to the byte, whatever the shape of the tree.
[[nodiscard]] FieldCells join_fields(const FieldCells& lower, const FieldCells& higher);

[[nodiscard]] Bytes encode_fields(const FieldCells& cells);
/// Checks the bytes of peers. nullopt: bytes that no rank writes.
[[nodiscard]] std::optional<FieldCells> decode_fields(std::span<const std::byte> bytes);

}  // namespace lockstep::worker
