#include <map>
#include <optional>

#include <fmt/format.h>

#include <lockstep/collectives/base/number_text.h>
#include <lockstep/worker/simulator/draw/json_document.h>
#include <lockstep/worker/simulator/draw/lengths_file.h>
#include <lockstep/worker/simulator/draw/regular_file.h>

namespace lockstep::worker::simulator {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// Returns a decimal integer of 0 or more, without other text.
std::optional<std::int64_t> whole(std::string_view text) {
  const auto out = number_in<std::int64_t>(text);
  return out && *out >= 0 ? out : std::nullopt;
}

bool names_columns(std::string_view line) { return line.find_first_of("0123456789") == line.npos; }

std::optional<Bin> bin_of(std::string_view line) {
  const std::size_t comma = line.find(',');
  const auto length = whole(trimmed(line.substr(0, comma)));
  const auto count =
      comma == line.npos ? std::optional<std::int64_t>{1} : whole(trimmed(line.substr(comma + 1)));
  if (!length || !count) return std::nullopt;
  return Bin{*length, *count};
}

}  // namespace

Result<std::vector<Bin>> parse_lengths(std::string_view text, std::string_view name) {
  const auto refuse = [&](std::size_t line, std::string_view what) {
    return bad_input(fmt::format("{}:{}: {}.", name, line, what));
  };
  std::map<std::int64_t, std::int64_t> counts;
  std::int64_t total = 0;
  bool first = true;
  std::size_t number = 1;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = trimmed(text.substr(at, end - at));
    at = end + 1;
    if (line.empty() || line.starts_with('#')) continue;
    const bool heading = first && names_columns(line);
    first = false;
    if (heading) continue;
    const auto bin = bin_of(line);
    if (!bin)
      return refuse(number,
                    fmt::format("{} is no length, nor a length and a count such as \"12,3\"",
                                in_quotes(line)));
    if (bin->weight > INT64_MAX - total) return refuse(number, "the counts do not fit 64 bits");
    total += bin->weight;
    counts[bin->value] += bin->weight;
    if (counts.size() > static_cast<std::size_t>(kMaxTable))
      return refuse(number, fmt::format("more than {} different lengths", kMaxTable));
  }
  if (total == 0) return refuse(number, "the file holds no length");
  std::vector<Bin> out;
  for (const auto& [value, weight] : counts) out.push_back({value, weight});
  return out;
}

Result<std::vector<Bin>> read_lengths_file(const std::string& path) {
  const auto text = read_file(path, kMaxLengthsBytes);
  if (!text) return text.error();
  return parse_lengths(*text, path);
}

}  // namespace lockstep::worker::simulator
