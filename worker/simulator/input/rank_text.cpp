#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include <lockstep/worker/simulator/draw/json_document.h>
#include <lockstep/worker/simulator/input/scenario.h>

namespace lockstep::worker::simulator {
namespace {

/// Takes one rank number from the start of `rest`; nullopt if there is none, it has a leading zero,
/// or it is outside the world.
std::optional<std::int32_t> take_rank(std::string_view& rest, int world_size, std::string& error) {
  const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  const std::string_view number = rest.substr(0, digits);
  if (number.empty()) {
    error = "ranks are written like \"0-3,7\", decimal and without spaces";
    return std::nullopt;
  }
  if (number.size() > 1 && number[0] == '0') {
    error =
        fmt::format("{} has a leading zero; ranks are written like \"0-3,7\"", in_quotes(number));
    return std::nullopt;
  }
  std::int32_t value = 0;
  const auto [end, status] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (status != std::errc{} || value >= world_size) {
    error = fmt::format("rank {} is outside the world, whose last rank is {}", number.substr(0, 20),
                        world_size - 1);
    return std::nullopt;
  }
  rest.remove_prefix(digits);
  return value;
}

std::optional<RankSet::Run> take_run(std::string_view& rest, int world_size, std::string& error) {
  const auto first = take_rank(rest, world_size, error);
  if (!first) return std::nullopt;
  if (!rest.starts_with('-')) return RankSet::Run{*first, *first};
  rest.remove_prefix(1);
  const auto last = take_rank(rest, world_size, error);
  if (!last) return std::nullopt;
  if (*first >= *last) {
    error = fmt::format("{}-{} is no range: the first rank must be below the last", *first, *last);
    return std::nullopt;
  }
  return RankSet::Run{*first, *last};
}

}  // namespace

std::optional<RankSet> parse_ranks(std::string_view text, int world_size, std::string& error) {
  std::vector<RankSet::Run> runs;
  for (std::string_view rest = text;;) {
    const auto run = take_run(rest, world_size, error);
    if (!run) return std::nullopt;
    runs.push_back(*run);
    if (rest.empty()) break;
    if (!rest.starts_with(',')) {
      error = fmt::format("{} is not understood after rank {}; ranks are written like \"0-3,7\"",
                          in_quotes(rest.substr(0, 1)), run->last);
      return std::nullopt;
    }
    rest.remove_prefix(1);
  }
  std::sort(runs.begin(), runs.end());
  RankSet out;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i > 0 && runs[i].first <= runs[i - 1].last) {
      error = fmt::format("rank {} occurs twice", runs[i].first);
      return std::nullopt;
    }
    out.insert(runs[i]);
  }
  return out;
}

}  // namespace lockstep::worker::simulator
