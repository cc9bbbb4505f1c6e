// One coordinator under the load of a large job: ranks that are connections of this process report
// once a second each. What it takes of a core and of memory, and how long what a rank says takes to
// be on the page of somebody who asks again and again; or, with --page, of one who follows the
// status page's updates, which come once a second. usage: coordinator_load RANKS SECONDS [--page]
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>
#include <vector>

#include "coordinator_process.h"
#include "running_server.h"
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <lockstep/coordinator/client/ask_status.h>

using namespace lockstep;
using namespace lockstep::coordinator;
using namespace std::chrono_literals;

namespace {

struct SimulatedRank {
  RawSocket socket;
  Session session;
  SimulatedRank(const PortFile& at, int rank, int size)
      : socket(at.endpoint),
        session(Session::Side::Client, *at.secret, collectives::random_nonce()) {
    const Identity identity{.job = "load",
                            .rank = {rank},
                            .size = size,
                            .incarnation = Incarnation(1),
                            .host = fmt::format("n{}", rank / 8),
                            .pid = rank,
                            .build = "b1"};
    if (!shake_hands(socket, session) || !socket.write(session.seal(Join{identity}))) {
      fmt::print(stderr, "rank {} could not join\n", rank);
      std::exit(1);
    }
  }
  void report(std::uint64_t step, const std::string& event) {
    const SlotReport report{.waiting = step % 2 == 0,
                        .phase = Phase::Running,
                        .operation = OperationKind::Vote,
                        .begun = step,
                        .ordinal = step,
                        .event = event,
                        .looks = step * 20,
                        .looks_waiting = step * 8,
                        .groups = {{0, step}, {7, step}, {9, step}}};
    if (!socket.write(session.seal(report))) std::exit(1);
  }
};

/// Seconds of processor time that the process has used.
double processor_seconds(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::string resident(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmRSS")) return line.substr(line.find_first_of("0123456789"));
  return "?";
}

double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

/// Documents, one after the other: asked for, or as the page gets them.
class Documents {
 public:
  Documents(const PortFile& at, bool follow) : at_(at) {
    if (!follow) return;
    updates_ = std::make_unique<RawSocket>(at.endpoint);
    const std::string_view request = "GET /updates HTTP/1.1\r\nHost: localhost\r\n\r\n";
    if (!updates_->write(std::as_bytes(std::span(request)))) std::exit(1);
  }
  std::string next() {
    if (!updates_) {
      auto document = ask_status(at_.endpoint, *at_.secret, 4s);
      if (!document) std::exit(1);
      return *std::move(document);
    }
    for (std::size_t end = came_.find("\n\n");; end = came_.find("\n\n")) {
      if (end != std::string::npos) {
        std::string document = came_.substr(0, end);
        came_.erase(0, end + 2);
        return document;
      }
      const Bytes part = updates_->read_some();
      if (part.empty()) std::exit(1);
      came_.append(reinterpret_cast<const char*>(part.data()), part.size());
    }
  }

 private:
  const PortFile& at_;
  std::unique_ptr<RawSocket> updates_;
  std::string came_;
};

}  // namespace

int main(int argc, char** argv) {
  const bool follow = argc == 4 && std::string_view(argv[3]) == "--page";
  if (argc != 3 && !follow) return 2;
  const int size = std::atoi(argv[1]), rounds = std::atoi(argv[2]);
  struct rlimit limit {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  std::string folder = "/tmp/lockstep-load-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  const worker::cli::CoordinatorProcess process({"--port-file", folder + "/port"}, folder);
  if (!process.says("ready at")) return 1;
  const PortFile at = PortFile::read(folder + "/port").value();
  const SystemClock clock;
  const Instant began = clock.now();
  std::vector<std::unique_ptr<SimulatedRank>> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(std::make_unique<SimulatedRank>(at, r, size));
  fmt::print("{} ranks joined in {:.2f} s\n", size, seconds(clock.now() - began));

  // Whoever asks does so beside the reports.
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> shown{0}, told{0};
  std::vector<double> lags, answers;
  std::atomic<std::int64_t> told_at{0};
  std::thread page([&] {
    Documents documents(at, follow);
    while (!over) {
      const Instant asked = clock.now();
      const std::string document = documents.next();
      const std::uint64_t waited = told.load();
      answers.push_back(seconds(clock.now() - asked));
      if (waited > shown && document.find(fmt::format("mark {}\"", waited)) != std::string::npos) {
        lags.push_back(seconds(clock.now() - Instant(told_at.load())));
        shown = waited;
      }
    }
  });
  const double before = processor_seconds(process.pid());
  const Instant start = clock.now();
  for (int round = 1; round <= rounds; ++round) {
    for (int r = 0; r < size; ++r) {
      ranks[static_cast<std::size_t>(r)]->report(
          static_cast<std::uint64_t>(round), r == 0 ? fmt::format("mark {}", told.load()) : "step");
      std::this_thread::sleep_until(std::chrono::steady_clock::time_point(
          start + (round - 1) * 1s + Duration(1s) * (r + 1) / size));
      if (r % (size / 4) == 0 && shown == told) {
        told_at = clock.now().count();
        ranks[0]->report(static_cast<std::uint64_t>(round), fmt::format("mark {}", told + 1));
        ++told;
      }
    }
  }
  const double took = seconds(clock.now() - start);
  const double used = processor_seconds(process.pid()) - before;
  over = true;
  page.join();
  std::sort(lags.begin(), lags.end());
  std::sort(answers.begin(), answers.end());
  fmt::print("{} reports in {:.2f} s; coordinator: {:.1f} % of a core beside {} answers, {}\n",
             static_cast<long>(size) * rounds, took, 100 * used / took, answers.size(),
             resident(process.pid()));
  fmt::print("answer: median {:.3f} s, most {:.3f} s\n", answers[answers.size() / 2],
             answers.back());
  if (!lags.empty())
    fmt::print("from a rank to the page: median {:.3f} s, p99 {:.3f} s, most {:.3f} s of {}\n",
               lags[lags.size() / 2], lags[lags.size() * 99 / 100], lags.back(), lags.size());
  return 0;
}
