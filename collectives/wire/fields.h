// Writes and reads the fields of a message's structs. Each struct lists them once, for both
// directions:
//
//   void fields(auto& visit, Of<Presence> auto& x) { visit.rank(x.rank), visit.flag(x.here); }
//
// The function is in the namespace of the struct. FieldWriter lays fields out in the order of the
// list, little-endian, and cuts texts and lists that are too long. FieldReader trusts nothing: it
// checks lengths, ranges of values and enumerators, and that no byte is left over.
#pragma once

#include <algorithm>
#include <concepts>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/collectives/base/bytes.h>
#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/rank.h>

namespace lockstep::collectives {

/// A `Struct` (to read into), or a constant `Struct` (to write).
template <class T, class Struct>
concept Of = std::same_as<std::remove_const_t<T>, Struct>;
/// A visitor that sets the fields.
template <class Visitor>
concept Reads = std::remove_reference_t<Visitor>::kReads;

/// Upper bound of ranks, unless a message sets a lower one.
inline constexpr std::int64_t kAnyRank = std::numeric_limits<std::int32_t>::max();
inline constexpr std::size_t kAnyLength = std::numeric_limits<std::uint32_t>::max();
/// Longest span of time in a message: ten years.
inline constexpr Duration kLongestSpan = std::chrono::hours(10 * 365 * 24);

/// Visitors of the elements of a list. kStruct: elements are structs, visited by the fields() of
/// their namespace. kNumber: elements are numbers.
inline constexpr auto kStruct = [](auto& visit, auto& x) { fields(visit, x); };
inline constexpr auto kNumber = [](auto& visit, auto& x) { visit.number(x); };

class FieldWriter {
 public:
  static constexpr bool kReads = false;

  /// An integer or an enumerator of 1, 4 or 8 bytes with any value.
  template <class T>
  void number(T x) {
    static_assert(sizeof x == 1 || sizeof x == 4 || sizeof x == 8);
    if constexpr (sizeof x == 1) out_.u8(static_cast<std::uint8_t>(x));
    if constexpr (sizeof x == 4) out_.u32(static_cast<std::uint32_t>(x));
    if constexpr (sizeof x == 8) out_.u64(static_cast<std::uint64_t>(x));
  }
  /// A number below `end`.
  template <std::unsigned_integral T>
  void below(T x, std::uint64_t /*end*/) {
    number(x);
  }
  /// An enumerator of one byte, at most `last`.
  template <class T>
  void kind(T x, T /*last*/) {
    number(x);
  }
  void flag(bool x) { number(std::uint8_t{x}); }
  void port(std::uint16_t x) { out_.u32(x); }
  void rank(Rank x, std::int64_t /*end*/ = kAnyRank) { number(x.value); }
  void ranks(const RankSet& x, std::size_t most_runs = kAnyLength, std::int64_t /*end*/ = kAnyRank);
  /// A span of 0 to kLongestSpan; any other span is written as the nearer of these two.
  void span(Duration x) { out_.i64(std::clamp(x, Duration{0}, kLongestSpan).count()); }
  /// At most `most` bytes of any value.
  void bytes(std::string_view x, std::size_t most = kAnyLength) { out_.text(x.substr(0, most)); }
  void bytes(const Bytes& x, std::size_t most) {
    bytes(std::string_view(reinterpret_cast<const char*>(x.data()), x.size()), most);
  }
  /// A text of one line, or of several. The reader replaces control characters, which a terminal
  /// could obey.
  void line(std::string_view x, std::size_t most) { bytes(x, most); }
  void lines(std::string_view x, std::size_t most) { bytes(x, most); }
  template <class T, class Each>
  void optional(const std::optional<T>& x, Each each) {
    flag(x.has_value());
    if (x) each(*this, *x);
  }
  /// A list of at most `most` elements, each of at least `least_bytes` bytes.
  template <class T, class Each>
  void list(const std::vector<T>& x, std::size_t most, std::size_t /*least_bytes*/, Each each) {
    const std::size_t count = std::min(x.size(), most);
    out_.u32(static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      const auto& element = x[i];
      each(*this, element);
    }
  }
  /// A list as its count and one text. Elements are added to the text until it is longer than
  /// `most_bytes`.
  template <class T, class Each>
  void list_within(const std::vector<T>& x, std::size_t most, std::size_t most_bytes, Each each) {
    FieldWriter elements;
    std::uint32_t count = 0;
    for (; count < std::min(x.size(), most) && elements.out_.view().size() <= most_bytes; ++count)
      each(elements, x[count]);
    number(count);
    bytes(std::move(elements).take(), kAnyLength);
  }
  /// Does nothing here. In the reader: a condition that the fields so far meet in every correct
  /// message; if it does not hold, the message is not sound.
  void require(bool /*holds*/) {}
  [[nodiscard]] static constexpr bool sound() { return true; }

  [[nodiscard]] Bytes take() && { return std::move(out_).take(); }

 private:
  ByteWriter out_;
};

/// Reads the fields. Once a field is not sound, sound() stays false, and no field of the message
/// may be used.
class FieldReader {
 public:
  static constexpr bool kReads = true;
  explicit FieldReader(std::span<const std::byte> bytes) : in_(bytes) {}
  [[nodiscard]] bool sound() const { return sound_ && in_.ok(); }
  /// True if all bytes were read and every field is sound.
  [[nodiscard]] bool whole() const { return sound() && in_.at_end(); }

  template <class T>
  void number(T& x) {
    static_assert(sizeof x == 1 || sizeof x == 4 || sizeof x == 8);
    if constexpr (sizeof x == 1) x = static_cast<T>(in_.u8());
    if constexpr (sizeof x == 4) x = static_cast<T>(in_.u32());
    if constexpr (sizeof x == 8) x = static_cast<T>(in_.u64());
  }
  template <std::unsigned_integral T>
  void below(T& x, std::uint64_t end) {
    number(x);
    require(x < end);
    if (!sound_) x = 0;
  }
  template <class T>
  void kind(T& x, T last) {
    std::uint8_t number = 0;
    below(number, static_cast<std::uint64_t>(last) + 1);
    x = static_cast<T>(number);
  }
  void flag(bool& x);
  void port(std::uint16_t& x);
  void rank(Rank& x, std::int64_t end = kAnyRank);
  /// Sound only if the runs are in order and neither overlap nor touch, as in a RankSet.
  void ranks(RankSet& x, std::size_t most_runs = kAnyLength, std::int64_t end = kAnyRank);
  void span(Duration& x);
  void bytes(std::string& x, std::size_t most = kAnyLength);
  void bytes(Bytes& x, std::size_t most);
  void line(std::string& x, std::size_t most);
  void lines(std::string& x, std::size_t most);
  template <class T, class Each>
  void optional(std::optional<T>& x, Each each) {
    bool there = false;
    flag(there);
    if (there) each(*this, x.emplace());
  }
  template <class T, class Each>
  void list(std::vector<T>& x, std::size_t most, std::size_t least_bytes, Each each) {
    const std::uint32_t count = in_.count(least_bytes);
    require(count <= most);
    for (std::uint32_t left = count; left > 0 && sound(); --left) {
      T element{};
      each(*this, element);
      x.push_back(std::move(element));
    }
  }
  template <class T, class Each>
  void list_within(std::vector<T>& x, std::size_t most, std::size_t /*most_bytes*/, Each each) {
    std::uint32_t left = 0;
    below(left, most + 1);
    FieldReader elements(in_.bytes());
    for (; left > 0 && elements.sound(); --left) each(elements, x.emplace_back());
    require(elements.whole());
  }
  void require(bool holds) { sound_ = sound_ && holds; }

 private:
  ByteReader in_;
  bool sound_ = true;
};

/// Writes the fields of the alternative that a variant holds.
template <class Variant>
void write_alternative(FieldWriter& out, const Variant& message) {
  std::visit([&out](const auto& x) { fields(out, x); }, message);
}

/// Reads the alternative with this index from its fields; nullopt: there is no such alternative, or
/// `bytes` are not its fields.
template <class Variant>
[[nodiscard]] std::optional<Variant> read_alternative(std::size_t index, std::span<const std::byte> bytes) {
  FieldReader in(bytes);
  std::optional<Variant> out;
  const auto read = [&]<std::size_t kIndex>(std::integral_constant<std::size_t, kIndex>) {
    if (index == kIndex) fields(in, std::get<kIndex>(out.emplace(std::in_place_index<kIndex>)));
  };
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    (read(std::integral_constant<std::size_t, kIndex>{}), ...);
  }(std::make_index_sequence<std::variant_size_v<Variant>>{});
  if (!in.whole()) out.reset();
  return out;
}

}  // namespace lockstep::collectives
