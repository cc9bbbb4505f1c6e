#include <algorithm>

#include <lockstep/worker/simulator/draw/draw.h>

namespace lockstep::worker::simulator {
namespace {

/// FNV-1a.
std::uint64_t digest(const std::string& text) {
  std::uint64_t out = 0xCBF29CE484222325ull;
  for (const char c : text) out = (out ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return out;
}

std::int64_t dealt(Share share, std::int64_t group, std::int64_t groups) {
  const std::int64_t each = share.total / groups, rest = share.total % groups;
  return each + (rest * (group + 1) / groups - rest * group / groups);
}

std::int64_t dealt(Batches batches, std::int64_t group, std::int64_t) {
  const std::int64_t full = batches.total / batches.batch;
  if (group < full) return batches.batch;
  return group == full ? batches.total % batches.batch : 0;
}

}  // namespace

std::int64_t Sharing::groups() const {
  std::int64_t out = 1;
  for (const Axis& axis : axes) out *= axis.size;
  return out;
}

std::uint64_t Draw::place(std::uint64_t seed, std::uint64_t call, std::uint64_t index) const {
  if (per.every_call) return mixed(call_place(seed, call), index);
  return mixed(mixed(mixed(seed, UINT64_MAX), digest(source)), dim ? *dim + 1 : 0);
}

std::int64_t Draw::at(std::uint64_t place, std::int32_t rank) const {
  const std::int64_t group = per.group_of(rank);
  if (const auto* share = std::get_if<Share>(&from)) return dealt(*share, group, per.groups());
  if (const auto* batches = std::get_if<Batches>(&from)) return dealt(*batches, group, 0);
  const auto number = per.all_ranks() ? 0 : static_cast<std::uint64_t>(group) + 1;
  return std::get<Distribution>(from).at(mixed(place, number));
}

Bounds Draw::reach() const {
  if (const auto* share = std::get_if<Share>(&from))
    return {std::min<std::int64_t>(share->total, 0), std::max<std::int64_t>(share->total, 0)};
  if (const auto* batches = std::get_if<Batches>(&from)) return {0, batches->batch};
  return std::get<Distribution>(from).reach();
}

}  // namespace lockstep::worker::simulator
