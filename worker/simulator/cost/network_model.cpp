#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/simulator/cost/network_file.h>
#include <lockstep/worker/simulator/cost/network_model.h>

namespace lockstep::worker::simulator {
namespace {

// Measured with Open MPI 4.1.4 between two ranks of one host, over shared memory: 0.5 to 0.6 us for
// a swap of up to 64 bytes, 9.6 GB/s at 64 KiB.
constexpr Link kShm{.latency_ns = 600, .bytes_per_us = 9'600};
// Usual figures of data centres: TCP over 10 Gb/s Ethernet, and 100 Gb/s InfiniBand or RoCE.
constexpr Link kTcp{.latency_ns = 25'000, .bytes_per_us = 1'250};
constexpr Link kRdma{.latency_ns = 1'500, .bytes_per_us = 12'500};
// Measured with 1,000 sources of 4 dims, 96,000 bytes: 7 us to join, 46 us to read and decide.
constexpr std::int64_t kJoin = 13'700, kRead = 2'090;

NetworkModel preset(std::string_view name, const Link& link) {
  NetworkModel out{.name = std::string(name), .between = link, .within = link};
  out.join_bytes_per_us = kJoin;
  out.read_bytes_per_us = kRead;
  return out;
}

struct Preset {
  std::string_view name;
  Link link;
};
constexpr Preset kPresets[] = {{"shm", kShm}, {"tcp", kTcp}, {"rdma", kRdma}};

/// Returns a plain decimal number without trailing text.
std::optional<double> decimal(std::string_view text) {
  double out = 0;
  const auto [end, status] =
      std::from_chars(text.data(), text.data() + text.size(), out, std::chars_format::fixed);
  if (status != std::errc{} || end != text.data() + text.size() || !std::isfinite(out)) return {};
  return out;
}

Status wrong(std::string_view text, std::string_view why) {
  return bad_input(fmt::format("--network {}: {}.", text, why));
}

/// "alpha=US,beta=GBPS", in either order.
Result<NetworkModel> own_values(std::string_view text) {
  std::optional<double> alpha, beta;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const std::string_view key = part.substr(0, part.find('='));
    auto& value = key == "alpha" ? alpha : beta;
    if ((key != "alpha" && key != "beta") || value)
      return wrong(text, "own values are alpha=MICROSECONDS,beta=GIGABYTES_PER_SECOND");
    value = decimal(part.substr(std::min(part.size(), key.size() + 1)));
    if (!value) return wrong(text, fmt::format("{} is not a plain decimal number", key));
  }
  if (!alpha || !beta) return wrong(text, fmt::format("{} is missing", alpha ? "beta" : "alpha"));
  if (*alpha < 0 || *alpha > 1e9) return wrong(text, "alpha is not within 0 and 1e9 microseconds");
  if (*beta < 0.001 || *beta > 1e6)
    return wrong(text, "beta is not within 0.001 and 1e6 gigabytes a second");
  return preset("own", {.latency_ns = std::llround(*alpha * 1000),
                        .bytes_per_us = std::llround(*beta * 1000)});
}

}  // namespace

std::int64_t capped_sum(std::int64_t a, std::int64_t b) { return std::min(a + b, kLongest); }

std::int64_t times(std::int64_t count, std::int64_t each) {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(count, each, &out)) return kLongest;
  return std::min(out, kLongest);
}

std::int64_t transfer_ns(std::uint64_t bytes, std::int64_t bytes_per_us) {
  if (bytes_per_us == 0) return 0;
  const auto rate = static_cast<std::uint64_t>(bytes_per_us);
  const std::uint64_t whole = bytes / rate;  // microseconds
  if (whole >= kLongest / 1000) return kLongest;
  return static_cast<std::int64_t>(whole * 1000 + (bytes % rate * 1000 + rate - 1) / rate);
}

std::int64_t NetworkModel::busy_ns(Rank from, Rank to, std::uint64_t bytes) const {
  return transfer_ns(bytes, link(from, to).bytes_per_us);
}

NetworkModel NetworkModel::in_world(int size) const {
  const std::int32_t ranks = std::min(ranks_per_host, size);
  if (crowds.empty() || ranks <= cores_per_host) return *this;
  NetworkModel out = *this;
  out.crowds.clear();
  Crowd below{cores_per_host, within.latency_ns, read_bytes_per_us};
  for (const Crowd& crowd : crowds) {
    if (ranks <= crowd.ranks) {
      const auto at = [&](std::int64_t low, std::int64_t high) {
        return low + (high - low) * (ranks - below.ranks) / (crowd.ranks - below.ranks);
      };
      out.within.latency_ns = at(below.latency_ns, crowd.latency_ns);
      out.read_bytes_per_us = at(below.read_bytes_per_us, crowd.read_bytes_per_us);
      return out;
    }
    below = crowd;
  }
  out.within.latency_ns = std::min(below.latency_ns * ranks / below.ranks, kLongest);
  out.read_bytes_per_us = std::max<std::int64_t>(1, below.read_bytes_per_us * below.ranks / ranks);
  return out;
}

std::vector<std::string_view> network_names() {
  std::vector<std::string_view> out;
  for (const Preset& known : kPresets) out.push_back(known.name);
  return out;
}

Result<NetworkModel> parse_network(std::string_view text, const std::string& folder) {
  if (text.find('=') != std::string_view::npos) return own_values(text);
  for (const Preset& known : kPresets)
    if (known.name == text) return preset(known.name, known.link);
  if (auto stored = load_network(text, folder); !stored || *stored) {
    if (!stored) return stored.error();
    return **stored;
  }
  return wrong(text, fmt::format("there is no such network; there are {}, what "
                                 "lockstep dryrun --calibrate --name NAME has stored, and "
                                 "alpha=US,beta=GBPS",
                                 fmt::join(network_names(), ", ")));
}

}  // namespace lockstep::worker::simulator
