#include <algorithm>
#include <fstream>
#include <optional>

#include <fmt/format.h>

#include <lockstep/collectives/nccl/nccl.h>
#include <lockstep/worker/agree/agreement/rank_table.h>
#include <lockstep/worker/compile/device/cuda_device.h>
#include <lockstep/worker/job/job_devices.h>

namespace lockstep::worker {
namespace {

/// The texts of all ranks: each distinct text with its ranks.
Result<std::vector<RankValue>> all_say(CallDriver& driver, const std::string& mine) {
  const auto rank_table =
      driver.tree_join(rank_table_payload(driver.group().rank(), mine), join_rank_tables);
  if (!rank_table) return rank_table.error();
  return rank_table_values(*rank_table);
}

/// Identifies the host: equal in all processes of a host, and in no others.
std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

int count_below(const RankSet& ranks, Rank self) {
  const RankSet others = ranks.minus(RankSet::range(self, Rank{ranks.runs().back().last}));
  return static_cast<int>(others.size());
}

Result<std::shared_ptr<Device>> open_nth(int index, Rank rank) {
  const auto count = cuda_device_count(rank);
  if (!count) return count.error();
  if (*count == 0)
    return environment_error(
        fmt::format("rank {}: the NVIDIA driver shows this process no device", rank.value));
  auto device = open_cuda_device({.ordinal = index % *count, .rank = rank});
  if (!device) return device.error();
  return std::shared_ptr<Device>(*std::move(device));
}

/// A sentence about this rank without its number, so that other ranks can report the same sentence.
std::string without_rank(std::string text, Rank self) {
  for (const char* const after : {"'s ", " has ", ": "}) {
    const std::string name = fmt::format("rank {}{}", self.value, after);
    if (const auto at = text.find(name); at != std::string::npos) text.erase(at, name.size());
  }
  return text;
}

/// The startup of a group's NCCL communicators. Meanwhile the ranks exchange their progress,
/// because peers of a rank on which the startup fails would wait forever. Every rank takes part in
/// the same rounds, and the last round has the same result on all.
class NcclStartup {
 public:
  explicit NcclStartup(CallDriver& driver) : driver_(driver) {}

  /// Reports, every 20 ms, that the startup has neither succeeded nor failed on this rank. Returns
  /// true if it failed on another rank, or the exchange failed.
  bool under_way() {
    using namespace std::chrono_literals;
    if (clock_.now() < next_) return false;
    tell(kUnderWay);
    next_ = clock_.now() + 20ms;
    return over_.has_value();
  }
  /// Reports the end on this rank; `failure` nullopt: it succeeded. Returns why the startup failed
  /// on some rank; empty: it succeeded on all.
  Result<std::string> ended(const std::optional<Status>& failure) {
    std::string mine;
    if (failure) mine = (failure->code == Code::RankLost ? 'b' : 'a') + failure->message;
    while (!over_) tell(mine);
    return *over_;
  }

 private:
  static constexpr const char* kUnderWay = "under way";

  /// Exchanges the ranks' progress. A rank's own failure takes precedence over NCCL's report of a
  /// lost rank.
  void tell(const std::string& mine) {
    const auto said = all_say(driver_, mine);
    if (!said) {
      over_ = said.error();
      return;
    }
    const std::string* worst = nullptr;  // 'a' before 'b' before "under way"; ignores ""
    for (const RankValue& value : *said)
      if (!value.value.empty() && (worst == nullptr || value.value[0] < worst->front()))
        worst = &value.value;
    if (worst == nullptr)
      over_ = std::string();
    else if (*worst != kUnderWay)
      over_ = worst->substr(1);
  }

  CallDriver& driver_;
  SystemClock clock_;
  Instant next_{0};
  std::optional<Result<std::string>> over_;
};

/// The broadcast payload: an id for a communicator, or why there is none.
Bytes told_id(Rank self) {
  const auto made = collectives::nccl_unique_id(self);
  std::string text(1, made ? 'i' : '-');
  if (made)
    text.append(made->begin(), made->end());
  else
    text += made.error().message;
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

}  // namespace

Result<void> JobDevices::open(CallDriver& everyone) {
  const Rank self = everyone.group().rank();
  const auto hosts = all_say(everyone, host_identity());
  if (!hosts) return hosts.error();
  int index = 0;
  for (const RankValue& host : *hosts)
    if (host.ranks.contains(self)) index = count_below(host.ranks, self);

  auto device = open_nth(index, self);
  const auto lacks = all_say(everyone, device ? "" : without_rank(device.error().message, self));
  if (!lacks) return lacks.error();
  std::vector<RankValue> lacking;
  RankSet without;
  for (const RankValue& value : *lacks) {
    if (value.value.empty()) continue;
    lacking.push_back(value);
    without.insert(value.ranks);
  }
  if (!lacking.empty()) {
    Status status = environment_error(
        fmt::format("{} cannot run on a GPU: {}; run the job on the host, or where every "
                    "rank has a GPU",
                    without.phrase(), lacking.front().value));
    if (lacking.size() > 1) status.groups = std::move(lacking);
    return status;
  }

  auto units = all_say(everyone, (*device)->unit_name());
  if (!units) return units.error();
  units_ = *std::move(units);
  for (const RankValue& unit : units_)
    if (unit.ranks.contains(self) && unit.ranks.size() > 1)
      if (auto shared = (*device)->share(); !shared) context_.tell(shared.error().message);
  const auto products = all_say(everyone, (*device)->product_identity());
  if (!products) return products.error();
  if (self.value == 0 && products->size() > 1) {
    std::string kinds;
    for (const RankValue& value : *products)
      kinds +=
          fmt::format("{}{}: {}", kinds.empty() ? "" : "; ", value.ranks.phrase(), value.value);
    context_.log.line("info", "lockstep: matrix products may round differently on: " + kinds);
  }
  context_.device = *std::move(device);
  return {};
}

Result<std::string> JobDevices::obstacle(const GroupContext& group, CallDriver& driver) {
  for (const RankValue& unit : units_) {
    const RankSet here = unit.ranks.minus(unit.ranks.minus(group.group.members));
    if (here.size() > 1) return fmt::format("{} share one GPU, which NCCL refuses", here.phrase());
  }
  const auto name = collectives::nccl_name(Rank{context_.rank()});
  const auto names = all_say(driver, name ? *name : name.error().message);
  if (!names) return names.error();
  const auto failed = all_say(driver, name ? "" : name.error().message);
  if (!failed) return failed.error();
  for (const RankValue& value : *failed)
    if (!value.value.empty()) return value.value;
  if (names->size() == 1) return std::string();
  return fmt::format("{} has {} and {} has {}", (*names)[0].ranks.phrase(), (*names)[0].value,
                     (*names)[1].ranks.phrase(), (*names)[1].value);
}

/// Connects the group by NCCL. Returns why this failed on any rank; empty: it succeeded.
Result<std::string> JobDevices::join(GroupContext& group, CallDriver& driver) {
  const Rank place = driver.group().rank();
  auto told =
      driver.broadcast(Rank{0}, place.value == 0 ? told_id(Rank{context_.rank()}) : Bytes{});
  if (!told) return told.error();
  std::string id(reinterpret_cast<const char*>(told->data()), told->size());
  const bool given = id.starts_with('i');
  id.erase(0, 1);
  collectives::NcclId agreed{};
  if (!given || id.size() != agreed.size()) return id;
  std::ranges::copy(id, agreed.begin());
  const Device& device = *context_.device;
  const int entry =
      context_.watch == nullptr
          ? -1
          : context_.watch->board().entry(
                shapes::fingerprint("nccl " + group.group.label()).low >> 1 | 1,
                group.group.members,
                fmt::format("NCCL of {}{}{}", group.group.name, group.group.name.empty() ? "" : " ",
                            group.group.members.phrase()));
  NcclStartup startup(driver);
  auto data = collectives::connect_nccl({.rank = place.value,
                                         .size = driver.group().size(),
                                         .id = agreed,
                                         .ordinal = device.ordinal(),
                                         .device_name = device.name(),
                                         .stream = device.stream(DeviceStream::Ranks),
                                         .watch = context_.watch,
                                         .board_entry = entry,
                                         .deadline = 2 * context_.settings.deadline,
                                         .poke = [this] { context_.poke(); },
                                         .give_up = [&] { return startup.under_way(); }});
  auto why = startup.ended(data ? std::nullopt : std::optional(data.error()));
  if (!why || !why->empty()) return why;
  group.device_data = data_.emplace_back(*std::move(data)).get();
  return std::string();
}

void JobDevices::close() {
  context_.everyone.device_data = nullptr;
  for (auto& [name, group] : context_.groups) group.device_data = nullptr;
  data_.clear();
}

void JobDevices::abort() {
  for (const auto& data : data_) data->abort();
}

Result<void> JobDevices::connect(GroupContext& group, CallDriver& driver) {
  auto why = obstacle(group, driver);
  if (why && why->empty()) why = join(group, driver);
  if (!why) return why.error();
  if (driver.group().rank().value != 0) return {};
  const std::string ranks = group.group.members.phrase();
  context_.log.line(
      "info",
      why->empty()
          ? fmt::format("lockstep: {} on GPUs (the first is {}); their collectives go by {}", ranks,
                        context_.device->name(), group.device_data->name())
          : fmt::format(
                "lockstep: {} on GPUs (the first is {}); their collectives are staged through "
                "the host, by {}, which is slow: {}",
                ranks, context_.device->name(), group.data->name(), *why));
  return {};
}

}  // namespace lockstep::worker
