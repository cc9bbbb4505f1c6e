#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <lockstep/collectives/base/number_text.h>
#include <lockstep/collectives/wire/encryption.h>
#include <lockstep/worker/agree/process/settings.h>

namespace lockstep::worker {
namespace {

std::string variable(const char* name, std::string fallback = {}) {
  const char* value = std::getenv(name);
  return value && *value ? value : std::move(fallback);
}

Status bad(std::string_view name, std::string_view value, std::string_view wanted) {
  return {.code = Code::BadInput,
          .message = fmt::format("{}={} is not understood; it takes {}.", name, value, wanted),
          .source = std::string(name),
          .groups = {}};
}

std::string default_cache_dir() {
  const std::string xdg = variable("XDG_CACHE_HOME");
  if (!xdg.empty()) return xdg + "/lockstep";
  const std::string home = variable("HOME");
  if (!home.empty()) return home + "/.cache/lockstep";
  return fmt::format("/tmp/lockstep-{}", getuid());
}

/// The launch's id, as PMIx (Open MPI's mpirun, others) or Slurm gives it.
std::string launch_id() {
  const std::string pmix = variable("PMIX_NAMESPACE");
  if (!pmix.empty()) return pmix;
  const std::string job = variable("SLURM_JOB_ID");
  return job.empty() ? job : job + "." + variable("SLURM_STEP_ID");
}

Result<std::set<std::string>> topics(std::string_view text) {
  static const std::set<std::string, std::less<>> known = {"off",    "info",  "debug",
                                                           "guards", "graph", "output_code"};
  std::set<std::string> out;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view topic = text.substr(0, comma);
    if (!known.contains(topic))
      return bad("LOCKSTEP_LOG", topic,
                 "a comma list of off, info, debug, guards, graph, output_code");
    out.emplace(topic);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return out;
}

Result<std::chrono::milliseconds> seconds(std::string_view text) {
  const auto value = number_in<double>(text);
  if (!value || !(*value > 0) || *value > 1e7)
    return bad("LOCKSTEP_DEADLINE_SECONDS", text, "a number of seconds above 0");
  return std::chrono::milliseconds(static_cast<std::int64_t>(*value * 1000));
}

Result<int> whole_number(const char* name, int least, const std::optional<int>& otherwise) {
  const std::string text = variable(name);
  if (text.empty() && otherwise) return *otherwise;
  if (const auto value = number_in<int>(text); value && *value >= least) return *value;
  return bad(name, text, fmt::format("a whole number from {} up", least));
}

/// Reads where the processes of a job meet, and the rank of this one.
Result<void> read_rendezvous(Settings& settings) {
  settings.rendezvous = variable("LOCKSTEP_RENDEZVOUS");
  if (settings.rendezvous.empty() && !settings.trace) return {};
  const auto launcher = launcher_from_environment();
  // A command that is no rank needs neither number; for ranks rendezvous_of() requires both.
  const auto told = [&](int Launcher::*which) {
    if (launcher) return std::optional((*launcher).*which);
    return settings.trace ? std::nullopt : std::optional(Settings::kUnset);
  };
  const auto rank = whole_number("LOCKSTEP_RANK", 0, told(&Launcher::rank));
  if (!rank) return rank.error();
  const auto size = whole_number("LOCKSTEP_WORLD_SIZE", 1, told(&Launcher::size));
  if (!size) return size.error();
  if (*size != Settings::kUnset && *rank >= *size)
    return bad("LOCKSTEP_RANK", std::to_string(*rank),
               fmt::format("a number below LOCKSTEP_WORLD_SIZE, which is {}", *size));
  settings.rank = *rank;
  settings.world_size = *size;
  if (settings.launch.empty())  // the name of a file, without its private folder
    settings.launch = std::filesystem::path(settings.rendezvous).filename();
  return {};
}

Result<void> read_trace(Settings& settings) {
  const std::string folder = variable("LOCKSTEP_TRACE");
  if (folder.empty()) return {};
  const auto calls = whole_number("LOCKSTEP_TRACE_CALLS", 0, 0);
  if (!calls) return calls.error();
  settings.trace = TraceMode{folder, static_cast<std::uint64_t>(*calls),
                             !variable("LOCKSTEP_TRACE_SAVE").empty()};
  settings.infer = variable("LOCKSTEP_INFER");
  settings.coordinator = kNoCoordinator;
  settings.job_id.clear();
  return {};
}

Result<std::uint64_t> bytes(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  constexpr std::string_view kUnits = "KMGT";
  const std::size_t power = unit.empty() ? 0 : kUnits.find(unit) + 1;
  const bool known = unit.empty() || (unit.size() == 1 && power != 0);
  const std::size_t shift = known ? 10 * power : 0;
  if (failed != std::errc{} || !known || value == 0 || value > (std::uint64_t{1} << 60) >> shift)
    return bad("LOCKSTEP_CACHE_LIMIT", text, "a number of bytes above 0, such as 500M or 10G");
  return value << shift;
}

}  // namespace

Result<Settings> Settings::from_environment() {
  Settings settings;
  if (const std::string text = variable("LOCKSTEP_LOG"); !text.empty()) {
    auto parsed = topics(text);
    if (!parsed) return parsed.error();
    settings.log = *parsed;
  }
  if (const std::string text = variable("LOCKSTEP_DEADLINE_SECONDS"); !text.empty()) {
    const auto parsed = seconds(text);
    if (!parsed) return parsed.error();
    settings.deadline = *parsed;
  }
  if (const std::string text = variable("LOCKSTEP_COORDINATION"); !text.empty()) {
    if (text != "on" && text != "off") return bad("LOCKSTEP_COORDINATION", text, "on or off");
    settings.coordination = text == "on";
  }
  if (const std::string text = variable("LOCKSTEP_CACHE_LIMIT"); !text.empty()) {
    const auto parsed = bytes(text);
    if (!parsed) return parsed.error();
    settings.cache_limit = *parsed;
  }
  const auto checked = whole_number("LOCKSTEP_CHECK_CAPTURES", 0, 0);
  if (!checked) return checked.error();
  settings.check_captures = static_cast<std::uint32_t>(*checked);
  const auto threads = whole_number("LOCKSTEP_THREADS", 1, 0);
  if (!threads) return threads.error();
  if (*threads > kMostThreads)
    return bad("LOCKSTEP_THREADS", std::to_string(*threads),
               fmt::format("a whole number from 1 to {}", kMostThreads));
  settings.threads = *threads;
  settings.record_dir = variable("LOCKSTEP_RECORD");
  settings.cache_dir = variable("LOCKSTEP_CACHE_DIR", default_cache_dir());
  settings.coordinator = variable("LOCKSTEP_COORDINATOR");
  if (const auto wanted = collectives::encryption_wanted(); !wanted) return wanted.error();
  settings.token = variable("LOCKSTEP_TOKEN");
  settings.token_file = variable("LOCKSTEP_TOKEN_FILE");
  settings.launch = launch_id();
  settings.job_id = variable("LOCKSTEP_JOB_ID");
  if (auto read = read_trace(settings); !read) return read.error();
  if (auto read = read_rendezvous(settings); !read) return read.error();
  settings.compiler = variable("LOCKSTEP_CXX");
  return settings;
}

Result<Settings> Settings::traced(Settings own) {
  if (variable("LOCKSTEP_TRACE").empty()) return own;
  const auto told = from_environment();
  if (!told) return told.error();
  own.trace = told->trace;
  own.coordinator = told->coordinator;
  own.job_id = told->job_id;
  own.launch = told->launch;
  own.rendezvous = told->rendezvous;
  own.rank = told->rank;
  own.world_size = told->world_size;
  return own;
}

std::string TraceMode::sheet(int rank) const {
  return fmt::format("{}/rank-{:05d}.jsonl", folder, rank);
}
std::string TraceMode::program(int rank, int frame) const {
  return fmt::format("{}/rank-{:05d}.frame-{}.lsp", folder, rank, frame);
}
std::string TraceMode::stopped(int rank) const {
  return fmt::format("{}/rank-{:05d}.stopped", folder, rank);
}

std::string Settings::job_name() const {
  if (!job_id.empty()) return job_id;
  std::error_code failed;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", failed).filename();
  return launch.empty() ? program : fmt::format("{}-{}", program, launch);
}

std::optional<Launcher> launcher_from_environment() {
  return launcher_of([](const char* name) { return variable(name); });
}

int share_of_cores(std::span<const std::int32_t> ranks) {
  cpu_set_t mine;
  if (::sched_getaffinity(0, sizeof mine, &mine) != 0) return 1;
  std::array<int, CPU_SETSIZE> users{};
  for (const std::int32_t process : ranks) {
    cpu_set_t of;
    if (::sched_getaffinity(process, sizeof of, &of) != 0) of = mine;  // it has ended
    for (int core = 0; core < CPU_SETSIZE; ++core) users[core] += CPU_ISSET(core, &of) ? 1 : 0;
  }
  std::array<int, CPU_SETSIZE + 1> cores{};  // of this process, by the number of their users
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &mine)) ++cores[std::max(users[core], 1)];
  double share = 0;
  for (int of = 1; of <= CPU_SETSIZE; ++of) share += static_cast<double>(cores[of]) / of;
  return std::max(1, static_cast<int>(share + 1e-6));
}

int rank_if_known() {
  const auto launcher = launcher_from_environment();
  const int launched = launcher ? launcher->rank : 0;
  if (variable("LOCKSTEP_RENDEZVOUS").empty()) return launched;
  const auto rank = whole_number("LOCKSTEP_RANK", 0, launched);
  return rank ? *rank : launched;
}

std::string file_name_of(std::string name) {
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.') c = '_';
  return name.empty() || name[0] == '.' ? "_" + name : name;
}

std::string Settings::agreed_text() const {
  return fmt::format(
      "LOCKSTEP_CHECK_CAPTURES={}\nLOCKSTEP_COORDINATION={}\nLOCKSTEP_DEADLINE_SECONDS={}\n"
      "LOCKSTEP_JOB_ID={}\nLOCKSTEP_RECORD={}\n",
      check_captures, coordination ? "on" : "off", deadline.count() / 1000.0, job_id, record_dir);
}

}  // namespace lockstep::worker
