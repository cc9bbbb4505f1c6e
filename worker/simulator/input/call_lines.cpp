#include <fmt/format.h>

#include <lockstep/worker/simulator/input/call_lines.h>
#include <lockstep/worker/simulator/input/scenario_reader.h>

namespace lockstep::worker::simulator {

Result<void> CallLines::add(const LineReader::Line& line) {
  const auto call = parse(size(), line.text);
  if (!call) return call.error();
  partition_.add(*call);
  places_.push_back(
      {line.offset, static_cast<std::uint32_t>(line.text.size()), check_of(line.text)});
  return {};
}

std::string CallLines::where(std::size_t index) const {
  return fmt::format("{}:{}", path_, index + 2);  // lines count from 1; line 1 is no call
}

Result<ScenarioCall> CallLines::read(std::size_t index) const {
  const Place& place = places_[index];
  const auto text = read_again(path_, {place.offset, place.size, place.check}, where(index));
  if (!text) return text.error();
  return parse(index, *text);
}

Result<ScenarioCall> CallLines::parse(std::size_t index, std::string_view text) const {
  const std::string name = where(index);
  const auto json = parse_json_line(text, name);
  if (!json) return json.error();
  return ScenarioReader(name, {.world_size = world_size_, .seed = {}}).read_call_alone(*json);
}

}  // namespace lockstep::worker::simulator
