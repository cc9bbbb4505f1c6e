#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include <lockstep/worker/agree/exchange/rank_constant.h>

namespace lockstep::worker {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// True if a number may follow `c`. Digits within a name ("s0", "%3", "f32") are no number.
bool may_precede(char c) {
  return !is_digit(c) && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != '%' &&
         c != '.';
}

/// The length of the number at `at`, or 0.
std::size_t number_length(std::string_view text, std::size_t at) {
  if (at > 0 && !may_precede(text[at - 1])) return 0;
  if (!is_digit(text[at]) && !(text[at] == '-' && at + 1 < text.size() && is_digit(text[at + 1])))
    return 0;
  double value = 0;
  const auto end = std::from_chars(text.data() + at, text.data() + text.size(), value).ptr;
  return static_cast<std::size_t>(end - text.data()) - at;
}

/// Splits `text` into texts and numbers, alternating; begins with a text.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t from = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = number_length(text, at);
    if (length == 0) {
      ++at;
      continue;
    }
    parts.push_back(text.substr(from, at - from));
    parts.push_back(text.substr(at, length));
    from = at += length;
  }
  parts.push_back(text.substr(from));
  return parts;
}

/// Index of the one part, a number, in which the texts differ; nullopt if they differ in another
/// way.
std::optional<std::size_t> differing_part(const std::vector<std::vector<std::string_view>>& texts) {
  std::optional<std::size_t> found;
  for (const auto& text : texts) {
    if (text.size() != texts[0].size()) return std::nullopt;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == texts[0][i] || found == i) continue;
      if (found || i % 2 == 0) return std::nullopt;
      found = i;
    }
  }
  return found;
}

double number(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The linear law from rank to number; empty if no such law holds or several ranks share a number.
std::string law_of(const std::vector<RankValue>& values) {
  struct Point {
    double rank, value;
  };
  std::vector<Point> points;
  for (const RankValue& value : values) {
    if (value.ranks.size() != 1) return {};
    points.push_back({static_cast<double>(value.ranks.runs().front().first), number(value.value)});
  }
  if (points.size() < 2) return {};
  const double slope = (points[1].value - points[0].value) / (points[1].rank - points[0].rank);
  const double start = points[0].value - slope * points[0].rank;
  const bool on_line = std::ranges::all_of(
      points, [&](const Point& p) { return start + slope * p.rank == p.value; });
  if (!on_line || slope == 0 || (points.size() == 2 && start != 0)) return {};
  std::string law = slope == 1 ? "the rank's number" : fmt::format("{} * the rank's number", slope);
  if (start != 0) law += fmt::format(" {} {}", start < 0 ? '-' : '+', start < 0 ? -start : start);
  return law;
}

}  // namespace

std::optional<RankConstant> rank_constant(const std::vector<RankValue>& rank_table) {
  std::vector<std::vector<std::string_view>> texts;
  for (const RankValue& value : rank_table) texts.push_back(parts_of(value.value));
  if (texts.size() < 2) return std::nullopt;
  const auto part = differing_part(texts);
  if (!part) return std::nullopt;
  RankConstant out;
  for (std::size_t i = 0; i < rank_table.size(); ++i)
    out.values.push_back({rank_table[i].ranks, std::string(texts[i][*part])});
  out.law = law_of(out.values);
  return out;
}

std::string without_numbers(std::string_view text) {
  std::string out;
  const std::vector<std::string_view> parts = parts_of(text);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i % 2 == 0)
      out += parts[i];
    else
      out += '#';
  }
  return out;
}

}  // namespace lockstep::worker
