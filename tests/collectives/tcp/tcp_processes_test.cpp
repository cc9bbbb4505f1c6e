// Many ranks as processes of their own, by encrypted sockets alone, or by the rings of a host; no
// watchdog.
// They meet, vote, one is killed, and all others name it. LOCKSTEP_TCP_RANKS says how many
// (scripts/test-long: 512).
#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tcp_ranks.h"
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/collectives/tcp/tcp_mesh.h>
#include <lockstep/collectives/vote.h>

namespace lockstep::collectives::tcp_processes_test {
namespace {

int ranks() {
  const char* said = std::getenv("LOCKSTEP_TCP_RANKS");
  return said == nullptr ? 48 : std::atoi(said);
}

/// What one rank tells, in memory that all share.
struct Told {
  Instant met{0}, voted{0}, named{0};
  int votes = 0, connections = 0;
  std::array<char, 256> error{};
};

/// Votes until one fails; the rank `lost` is killed by its own hand after `votes`.
void be_rank(const TcpOptions& options, bool shared, int votes, Rank lost, Told& told) {
  const SystemClock clock;
  const auto said = [&](const Status& status) {
    told.named = clock.now();
    std::snprintf(told.error.data(), told.error.size(), "%s", status.text().c_str());
  };
  const auto mesh = tcp_rendezvous(options);
  if (!mesh) return said(mesh.error());
  Result<std::unique_ptr<Board>> board = nullptr;
  if (shared) board = tcp_board(**mesh, options.patience);
  if (!board) return said(board.error());
  told.met = clock.now();
  const auto all = tcp_communicator(*mesh, nullptr);
  if (!all) return said(all.error());
  while (true) {
    VoteRound vote(options.rank, options.size,
                   Vote::of(1, static_cast<std::uint64_t>(told.votes), 3, 4), Combine::And,
                   (*all)->hosts());
    const auto voted = (*all)->run(vote);
    if (!voted) return said(voted.error());
    if (!vote.result().same_key()) return said({Code::Internal, "another vote", "", {}});
    told.connections = std::max(told.connections, (*mesh)->connections());
    if (++told.votes != votes) continue;
    told.voted = clock.now();
    if (options.rank == lost) ::_exit(137);
  }
}

void meet_vote_and_lose_one(bool shared, Encryption encryption, int per_host = 0) {
  const int size = ranks(), votes = size > 100 && !shared ? 1'000 : 100;
  const Rank lost{size / 3};
  const Endpoint at = free_endpoint();
  void* memory = ::mmap(nullptr, sizeof(Told) * static_cast<std::size_t>(size),
                        PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::vector<Told*> told;
  std::vector<pid_t> children;
  const SystemClock clock;
  const Instant began = clock.now();
  for (int r = 0; r < size; ++r) {
    told.push_back(new (static_cast<Told*>(memory) + r) Told);
    TcpOptions options = tcp_options(at, r, size);
    options.patience = std::chrono::seconds(100);
    options.encryption = encryption;
    if (per_host > 0) options = on_hosts(options, per_host);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      be_rank(options, shared, votes, lost, *told.back());
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
  }
  const Told& gone = *told[static_cast<std::size_t>(lost.value)];
  Instant met{0}, named{0};
  int most = 0;
  const int log = std::bit_width(static_cast<unsigned>(size) - 1U);
  const std::string name = "Rank " + std::to_string(lost.value) + " ended without finishing";
  for (int r = 0; r < size; ++r) {
    const Told& one = *told[static_cast<std::size_t>(r)];
    met = std::max(met, one.met);
    most = std::max(most, one.connections);
    EXPECT_GE(one.votes, votes - 1) << "rank " << r << ": " << one.error.data();
    EXPECT_LE(one.connections, 3 * log + 8) << "rank " << r;
    if (r == lost.value) continue;
    EXPECT_NE(std::string(one.error.data()).find(name), std::string::npos)
        << "rank " << r << ": " << one.error.data();
    named = std::max(named, one.named);
  }
  const auto seconds = [](Duration time) { return std::chrono::duration<double>(time).count(); };
  std::printf(
      "%d ranks met in %.2f s, voted %d times in %.2f s (%.2f ms each), and all named the "
      "lost one %.2f s after its end; at most %d connections each\n",
      size, seconds(met - began), votes, seconds(gone.voted - met),
      1e3 * seconds(gone.voted - met) / votes, seconds(named - gone.voted), most);
  EXPECT_LT(seconds(named - gone.voted), 5);
  ::munmap(memory, sizeof(Told) * static_cast<std::size_t>(size));
}

TEST(TcpProcesses, ManyRanks_MeetAndVote_AndAllNameOneThatIsLost) {
  meet_vote_and_lose_one(false, Encryption::On);
}

TEST(TcpProcesses, ManyRanksOfManyHosts_MeetAndVote_AndAllNameOneThatIsLost) {
  meet_vote_and_lose_one(true, Encryption::On, 4);
}

TEST(TcpProcesses, ManyRanksOfOneHost_MeetAndVote_AndAllNameOneThatIsLost) {
  meet_vote_and_lose_one(true, Encryption::Off);
}

}  // namespace
}  // namespace lockstep::collectives::tcp_processes_test
