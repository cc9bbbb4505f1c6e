// JSON text as a tree, read strictly: scenario files and records come from outside, so whatever is
// not plain JSON (duplicate keys, a byte order mark, NUL bytes, deep nesting, text after the end)
// is an error that says where. Refuses to guess.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/collectives/base/status.h>

namespace lockstep::worker::simulator {

/// One JSON value. An integer is a number written without fraction and exponent that fits int64;
/// any other number is a double. Value type.
struct Json {
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // as in the text; keys are unique
  /// A number written as an integer that int64 does not hold.
  struct HugeInteger {
    double value = 0;
  };

  std::variant<std::nullptr_t, bool, std::int64_t, HugeInteger, double, std::string, Array, Object>
      value = nullptr;

  template <class T>
  [[nodiscard]] const T* as() const {
    return std::get_if<T>(&value);
  }
  /// The member of an object; null where there is none or this is no object.
  [[nodiscard]] const Json* find(std::string_view key) const;
  /// "an object", "an integer", …: for messages.
  [[nodiscard]] std::string_view kind() const;
};

/// Containers within containers beyond this are an error.
inline constexpr int kMaxJsonDepth = 64;

/// Reads one JSON document. Errors: BadInput, "NAME: PATH: what, at line L, column C".
[[nodiscard]] Result<Json> parse_json(std::string_view text, std::string_view name);
/// The same of one line of a file; `name` is "FILE:LINE". Errors: BadInput, "NAME: PATH: what, at
/// column C".
[[nodiscard]] Result<Json> parse_json_line(std::string_view text, std::string_view name);

/// Where in a document a value stands, linked towards the root; lives on the reader's stack.
class JsonPath {
 public:
  JsonPath() = default;
  [[nodiscard]] JsonPath at(std::string_view key) const { return {this, key, 0}; }
  [[nodiscard]] JsonPath at(std::size_t index) const { return {this, {}, index}; }
  /// "calls[0].inputs[1].ranks"; keys that are no identifiers as ["…"]; "" for the root.
  [[nodiscard]] std::string text() const;

 private:
  JsonPath(const JsonPath* parent, std::string_view key, std::size_t index)
      : parent_(parent), key_(key), index_(index) {}
  const JsonPath* parent_ = nullptr;
  std::string_view key_;  // data() is null for an index
  std::size_t index_ = 0;
};

/// The error of a document called `name` at `path`.
[[nodiscard]] Status json_error(std::string_view name, const JsonPath& path, std::string_view what);

/// `text` in quotes on one line, control characters escaped, cut where it is long.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace lockstep::worker::simulator
