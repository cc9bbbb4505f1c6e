#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/worker/agree/process/coordinator_address.h>

namespace lockstep::worker {
namespace {

using coordinator::Endpoint;
using coordinator::PortFile;
using coordinator::Secret;

constexpr std::string_view kSuffix = ".port";

/// A coordinator that was found by its port file.
struct Candidate {
  std::string name;  // by which a user may name it
  PortFile at;
};

/// True if a server accepts connections at `endpoint`; waits for at most half a second.
bool listens(const Endpoint& endpoint) {
  constexpr int kPatienceMs = 500;
  boost::system::error_code failed;
  boost::asio::io_context io{1};
  boost::asio::ip::tcp::socket socket(io);
  socket.async_connect({boost::asio::ip::make_address(endpoint.address, failed), endpoint.port},
                       [&failed](const boost::system::error_code& outcome) { failed = outcome; });
  if (failed) return false;
  failed = boost::asio::error::timed_out;
  io.run_for(std::chrono::milliseconds(kPatienceMs));
  return !failed;
}

/// "train.4711.port" is of the job "train", whose rank 0 is process 4711.
std::string job_of(const std::string& file_name) {
  const std::string stem = file_name.substr(0, file_name.size() - kSuffix.size());
  return stem.substr(0, stem.rfind('.'));
}

/// The coordinators hosted by jobs on this host. Removes the port files of coordinators that do not
/// listen.
std::vector<Candidate> hosted(const Settings& settings) {
  std::vector<Candidate> out;
  std::error_code failed;
  for (const auto& entry :
       std::filesystem::directory_iterator(settings.cache_dir + "/jobs", failed)) {
    const std::string name = entry.path().filename();
    if (!name.ends_with(kSuffix)) continue;
    auto found = PortFile::read(entry.path());
    if (!found) continue;
    if (listens(found->endpoint))
      out.push_back({job_of(name), *std::move(found)});
    else
      ::unlink(entry.path().c_str());
  }
  std::sort(out.begin(), out.end(),
            [](const Candidate& a, const Candidate& b) { return a.name < b.name; });
  return out;
}

Status ambiguous(const std::vector<Candidate>& all) {
  std::string names;
  for (const Candidate& one : all)
    names += fmt::format("\n  {}  {}", one.at.endpoint.text(), one.name);
  return bad_input(fmt::format(
      "{} coordinators listen on this host; say which by name or address:{}", all.size(), names));
}

/// The only coordinator that listens on this host.
Result<PortFile> any(const Settings& settings) {
  std::vector<Candidate> all = hosted(settings);
  auto own = PortFile::read(default_port_file(settings));
  if (!own && own.error().code != Code::Environment) return own.error();
  if (own && (all.empty() || listens(own->endpoint)))
    all.push_back({"lockstep coordinator", *std::move(own)});
  if (all.size() > 1) return ambiguous(all);
  if (all.size() == 1) return all[0].at;
  return environment_error(
      fmt::format("No coordinator is known: no job on this host hosts one, and there is "
                  "no port file {}; start a job or lockstep coordinator, or say where it "
                  "is (its address or its port file, or LOCKSTEP_COORDINATOR).",
                  default_port_file(settings)));
}

Result<PortFile> named(const Settings& settings, const std::string& job) {
  std::vector<Candidate> all = hosted(settings);
  std::erase_if(all, [&](const Candidate& one) { return one.name != file_name_of(job); });
  if (all.size() > 1) return ambiguous(all);
  if (all.size() == 1) return all[0].at;
  std::error_code failed;
  if (std::filesystem::exists(job, failed)) return PortFile::read(job);
  return environment_error(
      fmt::format("{} is no address, no port file, and no job on this host that hosts a "
                  "coordinator.",
                  job));
}

/// The address, with the secret of its port file, if any.
Result<PortFile> look_up(const Settings& settings, std::string where) {
  if (where.empty() && settings.coordinator != kNoCoordinator) where = settings.coordinator;
  if (where.empty()) return any(settings);
  if (where.find('/') != std::string::npos) return PortFile::read(where);
  if (where.find(':') == std::string::npos) return named(settings, where);
  const auto endpoint = Endpoint::parse(where);
  if (!endpoint) return endpoint.error();
  std::vector<Candidate> known = hosted(settings);
  if (auto own = PortFile::read(default_port_file(settings)))
    known.push_back({"", *std::move(own)});
  for (const Candidate& one : known)
    if (one.at.endpoint == *endpoint) return one.at;
  return PortFile{*endpoint, std::nullopt};
}

}  // namespace

std::string default_port_file(const Settings& settings) {
  return settings.cache_dir + "/coordinator.port";
}

std::string job_port_file(const Settings& settings, const std::string& job, int pid) {
  return fmt::format("{}/jobs/{}.{}{}", settings.cache_dir, file_name_of(job), pid, kSuffix);
}

Result<CoordinatorAddress> CoordinatorAddress::find(const Settings& settings,
                                                    const std::string& where,
                                                    const std::string& token_file) {
  auto found = look_up(settings, where);
  if (!found) return found.error();
  const auto with = [&](Result<Secret> secret) -> Result<CoordinatorAddress> {
    if (!secret) return secret.error();
    return CoordinatorAddress{found->endpoint, *std::move(secret)};
  };
  if (!token_file.empty()) return with(collectives::read_secret(token_file));
  if (!settings.token.empty())
    return with(collectives::secret_of(settings.token, "LOCKSTEP_TOKEN"));
  if (!settings.token_file.empty()) return with(collectives::read_secret(settings.token_file));
  if (found->secret) return with(*found->secret);
  return Status{Code::Version,
                fmt::format("The coordinator at {} asks for a secret, and none is known; give its "
                            "port file instead of its address, or its --token-file, or "
                            "LOCKSTEP_TOKEN.",
                            found->endpoint.text())};
}

}  // namespace lockstep::worker
