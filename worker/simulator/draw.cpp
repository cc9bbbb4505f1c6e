#include <lockstep/worker/simulator/draw.h>

namespace lockstep::worker::simulator {

std::uint64_t Draw::place(std::uint64_t seed, std::uint64_t call, std::uint64_t index) {
  return mixed(mixed(seed, call), index);
}

std::int64_t Draw::at(std::uint64_t place, std::int32_t rank) const {
  const std::uint64_t random =
      mixed(place, per_rank ? static_cast<std::uint64_t>(rank) + 1 : std::uint64_t{0});
  if (!choices.empty()) return choices[random % choices.size()];
  const std::uint64_t span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  const std::uint64_t offset = span == UINT64_MAX ? random : random % (span + 1);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
}

}  // namespace lockstep::worker::simulator
