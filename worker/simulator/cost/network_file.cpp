#include <algorithm>
#include <cctype>
#include <filesystem>

#include <fmt/format.h>

#include <lockstep/coordinator/store/archive.h>
#include <lockstep/worker/simulator/cost/network_file.h>
#include <lockstep/worker/simulator/draw/regular_file.h>

namespace lockstep::worker::simulator {

template <class Archive>
static void serialize(Archive& archive, Link& link) {
  archive(link.latency_ns, link.bytes_per_us);
}

template <class Archive>
static void serialize(Archive& archive, Crowd& crowd) {
  archive(crowd.ranks, crowd.latency_ns, crowd.read_bytes_per_us);
}

template <class Archive>
static void serialize(Archive& archive, NetworkModel& network, std::uint32_t) {
  archive(network.between, network.within, network.ranks_per_host, network.cores_per_host,
          network.join_bytes_per_us, network.read_bytes_per_us, network.crowds);
}

}  // namespace lockstep::worker::simulator

CEREAL_CLASS_VERSION(lockstep::worker::simulator::NetworkModel, 2)  // version 1 was JSON

namespace lockstep::worker::simulator {
namespace {

constexpr std::string_view kKind = "network";
constexpr std::size_t kMostBytes = 1 << 16;

/// True if a calibration can give these values.
bool plausible(const NetworkModel& network) {
  const auto latency = [](std::int64_t ns) { return 0 <= ns && ns <= 1'000'000'000; };
  const auto rate = [](std::int64_t per_us) { return 1 <= per_us && per_us <= 1'000'000'000; };
  bool fits = rate(network.join_bytes_per_us) && rate(network.read_bytes_per_us) &&
              network.ranks_per_host >= 1 && network.cores_per_host >= 1;
  for (const Link& link : {network.between, network.within})
    fits = fits && latency(link.latency_ns) && rate(link.bytes_per_us);
  std::int32_t below = network.cores_per_host;
  for (const Crowd& crowd : network.crowds) {
    fits =
        fits && crowd.ranks > below && latency(crowd.latency_ns) && rate(crowd.read_bytes_per_us);
    below = crowd.ranks;
  }
  return fits;
}

}  // namespace

bool network_name_fits(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
         });
}

std::string network_file(std::string_view name, const std::string& folder) {
  return fmt::format("{}/{}.network", folder, name);
}

Bytes network_bytes(const NetworkModel& network) { return coordinator::pack(kKind, network); }

Result<std::optional<NetworkModel>> load_network(std::string_view name, const std::string& folder) {
  if (!network_name_fits(name) || folder.empty()) return std::optional<NetworkModel>();
  const std::string file = network_file(name, folder);
  const auto refused = [&](const std::string& path, std::string_view why) {
    return bad_input(fmt::format(
        "{}: {}; measure it again with lockstep dryrun --calibrate --name {}.", path, why, name));
  };
  std::error_code failed;
  if (!std::filesystem::exists(file, failed) || failed) {
    const std::string first = fmt::format("{}/{}.json", folder, name);
    if (std::filesystem::exists(first, failed) && !failed)
      return refused(first, "it is of version 1, this program reads 2");
    return std::optional<NetworkModel>();
  }
  const auto bytes = read_file(file, kMostBytes);
  if (!bytes) return bytes.error();
  auto network = coordinator::unpack<NetworkModel>(kKind, std::as_bytes(std::span(*bytes)));
  if (!network) return refused(file, network.error().message);
  if (!plausible(*network)) return refused(file, "no calibration comes to what it says");
  network->name = std::string(name);
  return std::optional<NetworkModel>(*std::move(network));
}

}  // namespace lockstep::worker::simulator
