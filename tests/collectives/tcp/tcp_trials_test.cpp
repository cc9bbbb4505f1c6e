// Jobs over a network that goes wrong (tcp_relay.h): every result is right and nobody is blamed for
// the network; where a rank is lost, all others name that one. LOCKSTEP_RELAY_TRIALS says how many
// (20; scripts/test-long: 200), each with a seed of its own.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "census_tree.h"
#include "tcp_ranks.h"
#include "tcp_relay.h"
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/collectives/tree.h>
#include <lockstep/collectives/vote.h>

namespace lockstep::collectives::tcp_trials_test {
namespace {

struct Trial {
  int ranks = 2, rounds = 6;
  int per_host = 0;  // 0: all on one host
  Encryption encryption = Encryption::Off;
  int lost = -1, lost_in = 0;  // the rank that ends by its own hand, and in which round
  int away = -1, away_in = 0;  // the rank that does something else for a while, as compiling
};

Trial trial_of(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Trial out;
  out.ranks = 2 + static_cast<int>(random() % 8);
  out.per_host = static_cast<int>(random() % 3);
  out.encryption = random() % 2 == 0 ? Encryption::On : Encryption::Off;
  if (random() % 3 == 0) {
    out.lost = static_cast<int>(random() % static_cast<std::uint64_t>(out.ranks));
    out.lost_in = static_cast<int>(random() % static_cast<std::uint64_t>(out.rounds));
  }
  if (random() % 3 == 0) {
    out.away = static_cast<int>(random() % static_cast<std::uint64_t>(out.ranks));
    out.away_in = static_cast<int>(random() % static_cast<std::uint64_t>(out.rounds));
  }
  return out;
}

/// What a rank comes to, in memory that all share.
struct Told {
  int rounds = 0;
  bool left = false;
  std::array<char, 400> error{};
};

Result<void> run_round_of(Communicator& all, const Trial& trial, int round) {
  const auto rank = static_cast<int>(all.rank().value);
  const auto wrong = [](const char* what) { return Status{Code::Internal, what, "", {}}; };
  VoteRound vote(all.rank(), trial.ranks, Vote::of(1, static_cast<std::uint64_t>(round), 3, 4),
                 Combine::And, all.hosts());
  if (auto ok = all.run(vote); !ok) return ok.error();
  if (!vote.result().same_key()) return wrong("another vote");
  const std::string word = std::to_string(rank * 100 + round);
  TreeRound tree(all.rank(), trial.ranks, census_payload(all.rank(), word), join_census,
                 all.hosts());
  if (auto ok = all.run(tree); !ok) return ok.error();
  const auto values = census_values(tree.result());
  if (static_cast<int>(values.size()) != trial.ranks) return wrong("a census that lacks some");
  for (const RankValue& one : values)
    if (one.value != std::to_string(one.ranks.runs()[0].first * 100 + round))
      return wrong("a census of another round");
  std::vector<std::int64_t> mine(20'000), sums(mine.size());
  for (std::size_t k = 0; k < mine.size(); ++k)
    mine[k] = static_cast<std::int64_t>(k) * (rank + 1) + round;
  if (auto ok = all.run({.dtype = DType::I64,
                         .send = mine.data(),
                         .receive = sums.data(),
                         .rows = static_cast<std::int64_t>(mine.size())});
      !ok)
    return ok.error();
  const std::int64_t total = trial.ranks * (trial.ranks + 1) / 2;
  for (std::size_t k = 0; k < sums.size(); ++k)
    if (sums[k] != static_cast<std::int64_t>(k) * total + trial.ranks * round)
      return wrong("another sum");
  return {};
}

void be_rank(const TcpOptions& options, const Trial& trial, Told& told) {
  const auto said = [&](const Status& status) {
    std::snprintf(told.error.data(), told.error.size(), "%s", status.text().c_str());
  };
  const auto mesh = tcp_rendezvous(options);
  if (!mesh) return said(mesh.error());
  const auto all = tcp_communicator(*mesh, nullptr).value();
  for (; told.rounds < trial.rounds; ++told.rounds) {
    if (options.rank.value == trial.lost && told.rounds == trial.lost_in) ::_exit(137);
    if (options.rank.value == trial.away && told.rounds == trial.away_in) ::usleep(400'000);
    if (auto ok = run_round_of(*all, trial, told.rounds); !ok) return said(ok.error());
  }
  tcp_leave(**mesh, std::chrono::seconds(20));
  told.left = true;
}

/// Waits for all, but not for ever. False: some had to be killed.
bool all_end(std::vector<pid_t> children) {
  const SystemClock clock;
  const Instant until = clock.now() + std::chrono::seconds(40);
  while (!children.empty() && clock.now() < until) {
    std::erase_if(children,
                  [](pid_t child) { return ::waitpid(child, nullptr, WNOHANG) == child; });
    ::usleep(2'000);
  }
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  return children.empty();
}

void run_trial(int number) {
  const auto seed = static_cast<std::uint64_t>(number);
  const Trial trial = trial_of(seed);
  SCOPED_TRACE("seed " + std::to_string(seed) + ": " + std::to_string(trial.ranks) + " ranks, " +
               std::to_string(trial.per_host) + " on each host, " +
               (trial.lost < 0 ? "none lost" : "rank " + std::to_string(trial.lost) + " lost"));
  const Endpoint at = free_endpoint();
  const std::size_t bytes = sizeof(Told) * static_cast<std::size_t>(trial.ranks);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* told = static_cast<Told*>(memory);
  std::vector<pid_t> children;
  {
    const TcpRelay relay(seed);
    for (int r = 0; r < trial.ranks; ++r) {
      new (told + r) Told;
      TcpOptions options = tcp_options(at, r, trial.ranks);
      if (trial.per_host > 0) options = on_hosts(options, trial.per_host);
      options.encryption = trial.encryption;
      options.out_of_reach = std::chrono::seconds(10);
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        ::close_range(3, ~0U, 0);  // the relay's
        be_rank(options, trial, told[r]);
        ::_exit(0);
      }
      children.push_back(child);
    }
    EXPECT_TRUE(all_end(children)) << "somebody waits for ever";
  }
  const std::string name = "Rank " + std::to_string(trial.lost) + " ended without finishing";
  for (int r = 0; r < trial.ranks; ++r) {
    const std::string error = told[r].error.data();
    if (trial.lost < 0) {
      EXPECT_EQ(error, "") << "rank " << r << " in round " << told[r].rounds;
      EXPECT_TRUE(told[r].left) << "rank " << r;
    } else if (r != trial.lost) {
      EXPECT_NE(error.find(name), std::string::npos) << "rank " << r << ": " << error;
    }
  }
  ::munmap(memory, bytes);
}

int trials() {
  const char* said = std::getenv("LOCKSTEP_RELAY_TRIALS");
  return said == nullptr ? 20 : std::atoi(said);
}

class TcpTrials : public testing::TestWithParam<int> {};

TEST_P(TcpTrials, NetworkThatGoesWrong_LosesNothingAndBlamesNobody) { run_trial(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Seeds, TcpTrials, testing::Range(1, trials() + 1));

}  // namespace
}  // namespace lockstep::collectives::tcp_trials_test
