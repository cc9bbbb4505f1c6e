#include <array>
#include <bit>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/coordinator/publisher.h>
#include <lockstep/worker/coordinator_address.h>
#include <lockstep/worker/job_publisher.h>

namespace lockstep::worker {
namespace {

std::string host_name() {
  std::array<char, coordinator::kHostBytes + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// The same on all ranks of one start, and another for another start where anybody says so.
std::string job_name(const Settings& settings, int size) {
  if (!settings.job_id.empty()) return settings.job_id;
  std::error_code failed;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", failed).filename();
  if (size == 1) return fmt::format("{}-{}", program, ::getpid());
  return settings.launch.empty() ? program : fmt::format("{}-{}", program, settings.launch);
}

coordinator::Incarnation fresh_incarnation() {
  const collectives::Nonce random = collectives::random_nonce();
  std::array<std::byte, 8> some{};
  std::copy_n(random.begin(), some.size(), some.begin());
  return coordinator::Incarnation(std::bit_cast<std::uint64_t>(some));
}

}  // namespace

std::shared_ptr<void> publish_progress(const World& world, const Settings& settings, const Log& log,
                                       const std::string& build) {
  const Rank self = world.all->rank();
  const auto say = [log, topic = self.value == 0 ? "info" : "debug"](const std::string& line) {
    log.line(topic, "lockstep: " + line);
  };
  auto at = CoordinatorAddress::find(settings, "", "");
  if (!at) {
    say(at.error().message + " The job goes on without it.");
    return nullptr;
  }
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
                                  .build = build},
                     .say = say});
  if (publisher) return std::shared_ptr<coordinator::Publisher>(std::move(*publisher));
  say(publisher.error().message);
  return nullptr;
}

}  // namespace lockstep::worker
