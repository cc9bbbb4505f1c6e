#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/worker/simulator/draw/json_document.h>

namespace lockstep::worker::simulator {
namespace {

constexpr std::size_t kShownBytes = 60;
constexpr std::ptrdiff_t kShownLevels = 12;

std::string path_step(std::string_view key, bool first) {
  bool plain = !key.empty();
  for (const char c : key)
    plain = plain && (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_');
  if (!plain) return '[' + in_quotes(key) + ']';
  return (first ? "" : ".") + std::string(key);
}

/// Builds the tree from the parser's events, and keeps the path of the current value.
class TreeBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(std::string_view text, std::string_view name, bool one_line)
      : text_(text), name_(name), one_line_(one_line) {}

  bool null() override { return put({}); }
  bool boolean(bool v) override { return put({v}); }
  bool number_integer(number_integer_t v) override { return put({std::int64_t{v}}); }
  bool number_unsigned(number_unsigned_t v) override {
    if (v > static_cast<std::uint64_t>(INT64_MAX))
      return put({Json::HugeInteger{static_cast<double>(v)}});
    return put({static_cast<std::int64_t>(v)});
  }
  bool number_float(number_float_t v, const string_t& written) override {
    if (written.find_first_of(".eE") == string_t::npos) return put({Json::HugeInteger{v}});
    return put({v});
  }
  bool string(string_t& v) override { return put({std::move(v)}); }
  bool binary(binary_t&) override { return fail("binary values are not JSON"); }
  bool start_object(std::size_t) override { return open({Json::Object{}}); }
  bool start_array(std::size_t) override { return open({Json::Array{}}); }
  bool key(string_t& v) override {
    Level& level = levels_.back();
    const bool fresh = level.add(v);
    level.key = std::move(v);
    return fresh || fail("this key occurs twice in its object");
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& e) override {
    position_ = position;
    const std::string_view what = e.what();
    const std::size_t dash = what.find(" - ");
    std::string_view reason =
        dash == what.npos ? what.substr(what.find("] ") + 2) : what.substr(dash + 3);
    reason = reason.substr(0, reason.find("; last read"));
    return fail(fmt::format("this is not JSON ({})", reason));
  }

  [[nodiscard]] Result<Json> finish() && {
    if (error_) return *std::move(error_);
    return std::move(root_);
  }

 private:
  struct Level {
    Json value;
    std::optional<std::string> key;  // key of the member being read
    std::set<std::string> keys;      // filled only if there are many members

    /// False if the object has this key already.
    [[nodiscard]] bool add(const std::string& name) {
      constexpr std::size_t kMany = 16;
      const auto& members = std::get<Json::Object>(value.value);
      if (members.size() < kMany) return value.find(name) == nullptr;
      if (keys.empty())
        for (const auto& member : members) keys.insert(member.first);
      return keys.insert(name).second;
    }
  };

  [[nodiscard]] std::string path() const {
    std::string out;
    for (const Level& level : levels_) {
      if (&level - levels_.data() == kShownLevels) return out + "…";
      if (const auto* array = level.value.as<Json::Array>())
        out += fmt::format("[{}]", array->size());
      else if (level.key)
        out += path_step(*level.key, out.empty());
    }
    return out;
  }

  bool fail(std::string_view what) {
    const std::string at = path();
    std::string place;
    if (position_ > 0) {
      const std::string_view before = text_.substr(0, std::min(position_, text_.size()));
      const std::size_t newline = before.rfind('\n', before.size() < 2 ? 0 : before.size() - 2);
      const std::size_t column =
          newline == before.npos ? before.size() : before.size() - newline - 1;
      const auto lines = std::count(before.begin(), before.end() - (before.empty() ? 0 : 1), '\n');
      place = one_line_ ? fmt::format(" at column {}", column)
                        : fmt::format(" at line {}, column {}", lines + 1, column);
    }
    std::string clean;
    for (const char c : what)
      clean +=
          static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f ? '?' : c;
    error_ =
        bad_input(fmt::format("{}: {}{}{}{}.", name_, at, at.empty() ? "" : ": ", clean, place));
    return false;
  }

  bool open(Json value) {
    if (levels_.size() >= kMaxJsonDepth)
      return fail(fmt::format("nested deeper than {} levels", kMaxJsonDepth));
    levels_.push_back({std::move(value), std::nullopt, {}});
    return true;
  }
  bool close() {
    Json done = std::move(levels_.back().value);
    levels_.pop_back();
    return put(std::move(done));
  }
  bool put(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Level& level = levels_.back();
    if (auto* array = std::get_if<Json::Array>(&level.value.value))
      array->push_back(std::move(value));
    else {
      std::get<Json::Object>(level.value.value)
          .emplace_back(*std::move(level.key), std::move(value));
      level.key.reset();
    }
    return true;
  }

  std::string_view text_, name_;
  bool one_line_;
  std::vector<Level> levels_;
  Json root_;
  std::optional<Status> error_;
  std::size_t position_ = 0;
};

Result<Json> parse(std::string_view text, std::string_view name, bool one_line) {
  const auto refuse = [&](std::string_view what) {
    return bad_input(fmt::format("{}: {}.", name, what));
  };
  if (text.find_first_not_of(" \t\r\n") == text.npos)
    return refuse(fmt::format("the {} is empty, where a JSON document is expected",
                              one_line ? "line" : "file"));
  if (text.find('\0') != text.npos) return refuse("this is not JSON (it holds a NUL byte)");
  if (text.starts_with("\xEF\xBB\xBF"))
    return refuse("this is not JSON (it starts with a byte order mark; remove it)");
  TreeBuilder builder(text, name, one_line);
  (void)nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return std::move(builder).finish();
}

}  // namespace

const Json* Json::find(std::string_view key) const {
  if (const auto* object = as<Object>())
    for (const auto& [name, member] : *object)
      if (name == key) return &member;
  return nullptr;
}

std::string_view Json::kind() const {
  constexpr std::string_view kNames[] = {"null",
                                         "a bool",
                                         "an integer",
                                         "an integer that does not fit 64 bits",
                                         "a number that is no integer",
                                         "a string",
                                         "a list",
                                         "an object"};
  return kNames[value.index()];
}

Result<Json> parse_json(std::string_view text, std::string_view name) {
  return parse(text, name, false);
}

Result<Json> parse_json_line(std::string_view text, std::string_view name) {
  return parse(text, name, true);
}

std::string JsonPath::text() const {
  if (parent_ == nullptr) return {};
  std::string out = parent_->text();
  out += key_.data() == nullptr ? fmt::format("[{}]", index_) : path_step(key_, out.empty());
  return out;
}

Status json_error(std::string_view name, const JsonPath& path, std::string_view what) {
  const std::string at = path.text();
  return bad_input(fmt::format("{}: {}{}{}.", name, at, at.empty() ? "" : ": ", what));
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  std::size_t n = std::min(text.size(), kShownBytes);
  while (n < text.size() && n > 0 && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) --n;
  for (const char c : text.substr(0, n)) {
    if (c == '"' || c == '\\')
      out += std::string{'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + (n < text.size() ? "…\"" : "\"");
}

}  // namespace lockstep::worker::simulator
