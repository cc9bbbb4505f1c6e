// Pages of made-up jobs, for the test of the page: the production core, fed by ranks of this
// process, and the production generator.
// usage: page_scenes DIRECTORY      a file for each scene
//        page_scenes --serve        a coordinator with two ranks: prints its address, then takes
//        each
//                                   line on stdin as the event that rank 1 notes
#include <algorithm>
#include <fstream>
#include <iostream>

#include "running_server.h"
#include "watched_ranks.h"
#include <fmt/format.h>

#include <lockstep/coordinator/documents/page.h>
#include <lockstep/coordinator/documents/status_document.h>

using namespace lockstep;
using namespace lockstep::coordinator;

namespace {

constexpr int kLarge = 16'384, kHosts = 64;

CallEvent compiled(std::uint64_t call, std::string reason, std::string_view graph) {
  return {.frame = "train_step",
          .call = call,
          .outcome = CallEvent::Outcome::Compiled,
          .entry = static_cast<std::int32_t>(call),
          .graph = shapes::fingerprint(graph),
          .nodes = 212,
          .reason = std::move(reason),
          .decisions = call == 0 ? "tokens=[5, 10]" : "tokens=[s0, 10] s0>=2",
          .waited = milliseconds(12),
          .exchange = milliseconds(1),
          .trace = milliseconds(8),
          .compile = milliseconds(900)};
}

std::string graph_text(bool dynamic) {
  std::string out;
  for (int node = 0; node < 212; ++node)
    out += fmt::format("n{} = mul(n{}, n{}) [{}, 10]  train.cpp:{}\n", node, node, node / 2,
                       dynamic && node % 50 < 3 ? "s0" : "5", 40 + node);
  return out + (dynamic ? "n212 = sum(n211) []\n" : "");
}

void tell(WatchedRanks& ranks, int rank, const CallEvent& event) {
  const auto wanted = ranks.service.told(ranks.connections.at(rank), event, ranks.now);
  if (wanted)
    ranks.service.graph(ranks.connections.at(rank),
                        {*wanted, graph_text(*wanted == shapes::fingerprint("dynamic"))});
}

/// A job that has compiled twice and runs, each rank waiting a part of its time.
void run(WatchedRanks& ranks) {
  ranks.join_all();
  const int size = static_cast<int>(ranks.identities.size());
  ranks.service.configure(ranks.connections.at(0),
                          {"consistency=same_graph\nrecompile_limit=8\nassume_at_least_two=true\n"
                           "deadline_seconds=600\n"});
  for (int r = 0; r < size; ++r) {
    SlotReport& report = ranks.reports[static_cast<std::size_t>(r)];
    report.counters = {.reused = 4096, .compiled = 2, .votes = 4103, .exchanges = 2};
    ranks.note(r, "call 4098 of train_step");
  }
  for (int r = 0; r < size; ++r) {
    CallEvent event = compiled(0, "first call", "static");
    event.compile += milliseconds(r % 400);
    tell(ranks, r, event);
    tell(ranks, r,
         compiled(1, fmt::format("tokens.size(0) is {}, the entry has 5", 6 + r % 2), "dynamic"));
  }
  for (int second = 0; second < 8; ++second) {
    for (int r = 0; r < size; ++r) {
      SlotReport& report = ranks.reports[static_cast<std::size_t>(r)];
      report.looks += 20;
      report.looks_waiting += r % 11 == 3 && (size < kLarge || r == 4242) ? 1 : 9;
    }
    ranks.pass(seconds(1));
  }
}

/// All but `missing` wait in a vote, for so long.
void hold_up(WatchedRanks& ranks, const RankSet& missing, seconds time) {
  const int size = static_cast<int>(ranks.identities.size());
  for (int r = 0; r < size; ++r)
    if (!missing.contains(Rank{r})) ranks.wait(r);
  ranks.pass(time);
}

void diverge(WatchedRanks& ranks) {
  const int size = static_cast<int>(ranks.identities.size());
  for (int r = 0; r < size; ++r) {
    CallEvent event = compiled(4099, "", r == 3 ? "static" : "dynamic");
    event.outcome = CallEvent::Outcome::Error;
    event.code = Code::GraphDivergence;
    event.reason =
        "The graphs differ from node 7 on: rank 3 has mul at train.cpp:47, ranks 0-2,4-63 have add "
        "there.";
    tell(ranks, r, event);
  }
}

std::string page_of(const WatchedRanks& ranks) {
  const About about{"0.1.0", "127.0.0.1:4711", 4242, seconds(1)};
  return page_with(status_document(ranks.service, about, ranks.now), false);
}

void write(const std::string& directory, const std::string& name, const WatchedRanks& ranks) {
  std::ofstream out(directory + "/" + name + ".html");
  out << page_of(ranks);
  if (!out.flush()) std::exit(7);
}

void write_scenes(const std::string& directory) {
  WatchedRanks healthy(64);
  run(healthy);
  write(directory, "healthy", healthy);
  hold_up(healthy, RankSet::of(Rank{37}), seconds(3));
  write(directory, "waiting", healthy);
  healthy.pass(seconds(20));
  write(directory, "stuck", healthy);
  WatchedRanks diverged(64);
  run(diverged);
  diverge(diverged);
  write(directory, "diverged", diverged);
  WatchedRanks large(kLarge);
  for (auto& identity : large.identities) {
    const int host = identity.rank.value / (kLarge / kHosts);
    identity.host = fmt::format("gpu-{:03d}", host);
    identity.host_id = static_cast<std::uint64_t>(host);
  }
  run(large);
  RankSet missing = RankSet::range(Rank{5000}, Rank{5003});
  missing.insert(RankSet::of(Rank{12345}));
  hold_up(large, missing, seconds(10));
  large.close(777);
  large.pass(seconds(1));
  write(directory, "large", large);
  WatchedRanks hostile(2);
  const std::string markup = "</script><img src=x onerror=document.title=1>";
  for (auto& identity : hostile.identities) identity.host = markup;
  hostile.join_all();
  hostile.note(0, markup);
  tell(hostile, 0, compiled(0, markup, "static"));
  hostile.service.configure(hostile.connections.at(0), {"name" + markup + "=" + markup + "\n"});
  hostile.pass(seconds(2));
  write(directory, "hostile", hostile);
  write(directory, "empty", WatchedRanks(1));
}

int serve() {
  RunningServer server;
  std::vector<std::unique_ptr<RawSocket>> sockets;
  std::vector<Session> sessions;
  for (int r = 0; r < 2; ++r) {
    sockets.push_back(std::make_unique<RawSocket>(server.endpoint()));
    sessions.emplace_back(Session::Side::Client, test_secret(), collectives::random_nonce());
    const Identity identity{.job = "train", .rank = {r}, .size = 2, .host = "n0", .build = "b1"};
    if (!shake_hands(*sockets.back(), sessions.back()) ||
        !sockets.back()->write(sessions.back().seal(Join{identity})))
      return 1;
  }
  std::cout << server.endpoint().text() << std::endl;
  for (std::string line; std::getline(std::cin, line);)
    for (std::size_t r = 0; r < 2; ++r)
      sockets[r]->write(sessions[r].seal(
          SlotReport{.phase = Phase::Running, .event = r == 1 ? line : "waits for a word"}));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (std::string_view(argv[1]) == "--serve") return serve();
  write_scenes(argv[1]);
  return 0;
}
