// JSON text as a tree, read strictly. Scenario files and records come from outside, so text that is
// not plain JSON (duplicate keys, a byte order mark, NUL bytes, deep nesting, text after the end)
// is an error that names its place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/collectives/base/status.h>

namespace lockstep::worker::simulator {

/// One JSON value. A number written without fraction and exponent that fits int64 is an integer;
/// any other number is a double. Value type.
struct Json {
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // in text order; keys are unique
  /// A number written as an integer that does not fit int64.
  struct HugeInteger {
    double value = 0;
  };

  std::variant<std::nullptr_t, bool, std::int64_t, HugeInteger, double, std::string, Array, Object>
      value = nullptr;

  template <class T>
  [[nodiscard]] const T* as() const {
    return std::get_if<T>(&value);
  }
  /// Returns the member with this key; null if there is none, or if this value is not an object.
  [[nodiscard]] const Json* find(std::string_view key) const;
  /// Returns the kind of value for messages: "an object", "an integer", …
  [[nodiscard]] std::string_view kind() const;
};

/// Deepest nesting of containers.
inline constexpr int kMaxJsonDepth = 64;

/// Reads one JSON document. Errors: BadInput, "NAME: PATH: what, at line L, column C".
[[nodiscard]] Result<Json> parse_json(std::string_view text, std::string_view name);
/// Reads one line of a file as a document; `name` is "FILE:LINE". Errors: BadInput, "NAME: PATH:
/// what, at column C".
[[nodiscard]] Result<Json> parse_json_line(std::string_view text, std::string_view name);

/// The place of a value in a document; links to its parent's place. Lives on the reader's stack.
class JsonPath {
 public:
  JsonPath() = default;
  [[nodiscard]] JsonPath at(std::string_view key) const { return {this, key, 0}; }
  [[nodiscard]] JsonPath at(std::size_t index) const { return {this, {}, index}; }
  /// "calls[0].inputs[1].ranks"; "" for the root. Keys that are not identifiers appear as ["…"].
  [[nodiscard]] std::string text() const;

 private:
  JsonPath(const JsonPath* parent, std::string_view key, std::size_t index)
      : parent_(parent), key_(key), index_(index) {}
  const JsonPath* parent_ = nullptr;
  std::string_view key_;  // data() is null for an index
  std::size_t index_ = 0;
};

/// Returns an error about the value at `path` in a document called `name`.
[[nodiscard]] Status json_error(std::string_view name, const JsonPath& path, std::string_view what);

/// Returns `text` in quotes on one line, with control characters escaped, cut if it is long.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace lockstep::worker::simulator
