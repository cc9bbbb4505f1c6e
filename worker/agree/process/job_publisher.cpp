#include <array>
#include <atomic>
#include <bit>
#include <mutex>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/collectives/tree.h>
#include <lockstep/coordinator/client/publisher.h>
#include <lockstep/worker/agree/process/coordinator_address.h>
#include <lockstep/worker/agree/process/embedded_coordinator.h>
#include <lockstep/worker/agree/process/job_publisher.h>

namespace lockstep::worker {
namespace {

std::string host_name() {
  std::array<char, coordinator::kHostBytes + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// The job's name, the same on all ranks. A job of one rank without job id and launch has its
/// process id added, so that its starts can be told apart.
std::string job_name(const Settings& settings, int size) {
  const bool told_apart = !settings.job_id.empty() || !settings.launch.empty() || size > 1;
  return settings.job_name() + (told_apart ? "" : fmt::format("-{}", ::getpid()));
}

coordinator::Incarnation fresh_incarnation() {
  const collectives::Nonce random = collectives::random_nonce();
  std::array<std::byte, 8> some{};
  std::copy_n(random.begin(), some.size(), some.begin());
  return coordinator::Incarnation(std::bit_cast<std::uint64_t>(some));
}

/// Rank 0's broadcast: its host, and the address and secret of the coordinator that it hosts.
Bytes written(const std::optional<coordinator::PortFile>& at) {
  ByteWriter out;
  out.u64(at ? host_id() : 0);
  out.text(at ? at->endpoint.text() : "");
  out.text(at && at->secret ? std::string_view(reinterpret_cast<const char*>(at->secret->data()),
                                               at->secret->size())
                            : std::string_view());
  return std::move(out).take();
}

/// Reads rank 0's broadcast. nullopt: there is no coordinator, or it is on another host.
std::optional<CoordinatorAddress> read(const Bytes& bytes) {
  ByteReader in(bytes);
  const std::uint64_t host = in.u64();
  const std::string endpoint = in.text();
  const std::string secret = in.text();
  const auto at = coordinator::Endpoint::parse(endpoint);
  if (!in.ok() || host != host_id() || !at) return std::nullopt;
  const auto spelled = std::as_bytes(std::span(secret));
  return CoordinatorAddress{*at, coordinator::Secret(spelled.begin(), spelled.end())};
}

/// Passes verdicts of the coordinator to the watchdog while the watchdog exists.
struct VerdictRelay {
  std::mutex mutex;
  collectives::Watch* watch = nullptr;  // null: the job is ending, or the ranks use TCP
  void obey(const Status& verdict) {
    const std::lock_guard lock(mutex);
    if (watch != nullptr) watch->end_job(verdict);
  }
};

/// The right to report to a coordinator. The first world that this process joins has it until that
/// world ends. Other worlds of the process are parts of the same job.
class Voice {
 public:
  Voice() : taken_(!in_use().test_and_set()) {}
  ~Voice() {
    if (taken_) in_use().clear();
  }
  Voice(const Voice&) = delete;
  Voice& operator=(const Voice&) = delete;
  [[nodiscard]] bool taken() const { return taken_; }

 private:
  static std::atomic_flag& in_use() {
    static std::atomic_flag flag;
    return flag;
  }
  bool taken_;
};

/// Held by a rank until its board is destroyed. Members are in this order, so that the publisher is
/// destroyed first.
struct Reporting {
  Voice voice;
  std::unique_ptr<EmbeddedCoordinator> coordinator;
  std::unique_ptr<coordinator::Publisher> publisher;
};

/// On rank 0, starts a coordinator, unless one is configured, coordinators are switched off or the
/// rank is alone.
std::unique_ptr<EmbeddedCoordinator> host_one(const World& world, const Settings& settings,
                                              const Log& log) {
  if (!settings.coordinator.empty() || world.all->rank().value != 0 || world.all->size() == 1)
    return nullptr;
  auto own = EmbeddedCoordinator::start(settings, job_name(settings, world.all->size()), log);
  if (own) return std::move(*own);
  log.line("info", "lockstep: " + own.error().message + " The job goes on without a coordinator.");
  return nullptr;
}

}  // namespace

Result<std::shared_ptr<coordinator::Feed>> publish_progress(World& world, const Settings& settings,
                                                            const Log& log,
                                                            const std::string& build,
                                                            const std::string& configuration) {
  const Rank self = world.all->rank();
  auto reporting = std::make_shared<Reporting>();
  if (reporting->voice.taken()) reporting->coordinator = host_one(world, settings, log);
  collectives::BroadcastRound told(
      self, world.all->size(), Rank{0},
      written(reporting->coordinator ? std::optional(reporting->coordinator->at()) : std::nullopt));
  if (auto done = world.all->run(told); !done) return done.error();
  const auto say = [log, topic = self.value == 0 ? "info" : "debug"](const std::string& line) {
    log.line(topic, "lockstep: " + line);
  };
  const std::shared_ptr<coordinator::Feed> nobody;
  if (settings.coordinator == kNoCoordinator || !reporting->voice.taken()) return nobody;
  std::optional<CoordinatorAddress> at = read(told.result());
  if (!settings.coordinator.empty()) {
    auto found = CoordinatorAddress::find(settings, "", "");
    if (!found) {
      say(found.error().message + " The job goes on without it.");
      return nobody;
    }
    at = std::move(*found);
  }
  if (!at || world.watch == nullptr) return nobody;
  auto feed = std::make_shared<coordinator::Feed>();
  if (self.value == 0) feed->configure(configuration);
  const auto relay = std::make_shared<VerdictRelay>();
  // Over TCP the watchdogs see all ranks themselves, and sooner than the coordinator.
  if (world.mesh == nullptr) relay->watch = world.watch.get();
  auto publisher = coordinator::Publisher::start(
      *world.board, {.coordinator = at->endpoint,
                     .secret = std::move(at->secret),
                     .identity = {.job = job_name(settings, world.all->size()),
                                  .rank = self,
                                  .size = world.all->size(),
                                  .incarnation = fresh_incarnation(),
                                  .host = host_name(),
                                  .host_id = host_id(),
                                  .pid = ::getpid(),
                                  .build = build,
                                  .deadline = world.watch->deadline()},
                     .say = say,
                     .feed = feed,
                     .obey = [relay](const Status& verdict) { relay->obey(verdict); }});
  if (!publisher) {
    say(publisher.error().message);
    return nobody;
  }
  reporting->publisher = std::move(*publisher);
  world.final_report->send_through([publisher = reporting->publisher.get()](const Status& verdict) {
    publisher->last_word(verdict);
  });
  world.reader = reporting;
  world.verdicts = std::shared_ptr<void>(nullptr, [relay](void*) {
    const std::lock_guard lock(relay->mutex);
    relay->watch = nullptr;
  });
  return feed;
}

}  // namespace lockstep::worker
