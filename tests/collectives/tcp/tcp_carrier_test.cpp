// The board between hosts: real meshes of one process, a board for each host that the test makes
// up, and time that the test says.
#include <bit>
#include <random>
#include <set>

#include "tcp_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/collectives/tcp/tcp_carrier.h>
#include <lockstep/collectives/tcp/tcp_mesh.h>

namespace lockstep::collectives::tcp_carrier_test {
namespace {

using namespace std::chrono_literals;

struct Hosts {
  explicit Hosts(std::vector<std::uint64_t> of_ranks) : hosts(std::move(of_ranks)) {
    meshes = meet(static_cast<int>(hosts.size()));
    connect_tree(meshes);
    for (std::size_t r = 0; r < hosts.size(); ++r) {
      auto& board = boards[hosts[r]];
      if (!board) board = Board::in_process(static_cast<int>(hosts.size()));
      carriers.push_back(std::make_unique<TcpCarrier>(*meshes[r], *board, 20s, hosts));
      Seat seat = board->seat(rank(r));
      seat.register_process(1000 + static_cast<std::int32_t>(r), hosts[r], now);
      seat.note("call 0", now);
      seat.wait(true);
    }
    suspended.resize(hosts.size());
  }
  static Rank rank(std::size_t r) { return Rank{static_cast<std::int32_t>(r)}; }
  /// So much time goes by, in which all that run look every 50 ms.
  void pass(Duration time) {
    for (const Instant until = now + time; now < until; now += 50ms) {
      for (std::size_t r = 0; r < hosts.size(); ++r)
        if (!suspended[r]) carriers[r]->look(now);
      for (int moves = 0; moves < 3; ++moves) {  // what is on its way takes its own time
        std::this_thread::sleep_for(300us);
        for (std::size_t r = 0; r < hosts.size(); ++r)
          if (!suspended[r]) {
            EXPECT_TRUE(meshes[r]->move());
          }
      }
    }
  }
  /// What the board of that host shows of a rank.
  [[nodiscard]] RankState shown(std::uint64_t host, std::size_t r) const {
    return boards.at(host)->state(rank(r));
  }
  /// Ranks that the boards of other hosts take to wait.
  [[nodiscard]] std::set<std::size_t> believed(std::uint64_t host) const {
    std::set<std::size_t> out;
    for (std::size_t r = 0; r < hosts.size(); ++r)
      if (hosts[r] != host && shown(host, r).waiting) out.insert(r);
    return out;
  }
  void expect_all_believed_but(const std::set<std::size_t>& silent) const {
    for (const auto& [host, board] : boards) {
      std::set<std::size_t> wanted;
      for (std::size_t r = 0; r < hosts.size(); ++r)
        if (hosts[r] != host && !silent.contains(r)) wanted.insert(r);
      EXPECT_EQ(believed(host), wanted) << "on host " << host;
    }
  }

  std::vector<std::uint64_t> hosts;
  std::vector<std::shared_ptr<TcpMesh>> meshes;
  std::map<std::uint64_t, std::unique_ptr<Board>> boards;
  std::vector<std::unique_ptr<TcpCarrier>> carriers;
  std::vector<bool> suspended;
  Instant now{1'000'000s};
};

/// So many ranks on each of so many hosts, one host after the other.
std::vector<std::uint64_t> in_order(std::size_t count, std::size_t each) {
  std::vector<std::uint64_t> out;
  for (std::size_t r = 0; r < count * each; ++r) out.push_back(70 + r / each);
  return out;
}

TEST(TcpCarrier, WhatEveryRankDoes_ComesToEveryHost_OverFewConnections) {
  std::mt19937 random(5);
  for (auto hosts : {in_order(2, 2), in_order(3, 1), in_order(8, 3), in_order(16, 2)}) {
    for (const bool mixed : {false, true}) {
      if (mixed) std::shuffle(hosts.begin(), hosts.end(), random);
      Hosts job(hosts);
      job.pass(4s);
      job.expect_all_believed_but({});
      for (std::size_t r = 0; r < hosts.size(); ++r)
        job.boards[hosts[r]]->seat(Hosts::rank(r)).note("call " + std::to_string(r), job.now);
      job.pass(4s);
      for (const auto& [host, board] : job.boards)
        for (std::size_t r = 0; r < hosts.size(); ++r) {
          EXPECT_EQ(job.shown(host, r).event, "call " + std::to_string(r))
              << host << " of " << hosts.size() << (mixed ? " mixed" : "") << " its host "
              << hosts[r];
          EXPECT_EQ(job.shown(host, r).pid, 1000 + static_cast<int>(r));
        }
      // The tree of ranks, and the hosts that a speaker speaks with, as their speaker or itself.
      for (const auto& mesh : job.meshes) EXPECT_LE(mesh->connections(), 3 + 3);
    }
  }
}

TEST(TcpCarrier, SpeakerThatIsSuspended_IsTheOnlyOneThatIsSilent) {
  for (const std::size_t speaker : {0U, 6U, 12U, 18U}) {  // of 8 hosts of 3: 0, 2, 4, 6
    Hosts job(in_order(8, 3));
    job.pass(4s);
    job.suspended[speaker] = true;
    for (int i = 0; i < 40; ++i) {  // nobody else is ever held to be silent
      job.pass(250ms);
      for (const auto& [host, board] : job.boards) {
        auto seen = job.believed(host);
        seen.insert(speaker);
        EXPECT_EQ(seen.size(), host == job.hosts[speaker] ? 22U : 21U) << host << ", " << i;
      }
    }
    job.expect_all_believed_but({speaker});
    job.suspended[speaker] = false;
    job.pass(10s);
    job.expect_all_believed_but({});
  }
}

TEST(TcpCarrier, HostsOfWhichNobodyRuns_HideNobodyBeyond) {
  for (const std::size_t hosts : {3U, 8U}) {
    for (const std::set<std::size_t>& silent :
         hosts == 3 ? std::set<std::set<std::size_t>>{{1}}  // it heads the tree
                    : std::set<std::set<std::size_t>>{{3}, {5}, {3, 5}, {3, 1, 5}}) {
      Hosts job(in_order(hosts, 1));
      job.pass(4s);
      for (const std::size_t r : silent) job.suspended[r] = true;
      for (int i = 0; i < 32; ++i) {
        job.pass(250ms);
        for (const auto& [host, board] : job.boards) {
          if (silent.contains(host - 70)) continue;
          auto seen = job.believed(host);
          seen.insert(silent.begin(), silent.end());
          if (silent.size() == 1) {
            EXPECT_EQ(seen.size(), hosts - 1) << host << ", " << i;
          }
        }
      }
      for (const auto& [host, board] : job.boards)
        if (!silent.contains(host - 70)) {
          EXPECT_EQ(job.believed(host).size(), hosts - 1 - silent.size()) << host;
        }
      for (const std::size_t r : silent) job.suspended[r] = false;
      job.pass(8s);
      job.expect_all_believed_but({});
    }
  }
}

TEST(TcpCarrier, TimesOfOtherHosts_AreShownInThisHostsTime) {
  Hosts job(in_order(2, 1));
  Seat seat = job.boards[71]->seat(Rank{1});
  const Instant noted = job.now;
  seat.note("compiling", noted);
  seat.renew(noted + 1h);
  job.pass(3s);
  EXPECT_LT(job.shown(70, 1).progress - noted, 300ms);
  EXPECT_LT(noted + 1h - job.shown(70, 1).lease, 300ms);
}

/// Words that said that the lease is over may have been lost.
TEST(TcpCarrier, LeaseOfARankThatIsSilent_EndsADeadlineLater) {
  Hosts job(in_order(2, 1));
  job.boards[71]->seat(Rank{1}).renew(job.now + 1h);
  job.pass(3s);
  job.suspended[1] = true;
  job.pass(2s);
  EXPECT_GT(job.shown(70, 1).lease, job.now + 30min);
  job.pass(2s);
  const Duration good_for = job.shown(70, 1).lease - job.shown(70, 1).beat;
  EXPECT_GE(good_for, TcpCarrier::kSilence + 20s);
  EXPECT_LE(good_for, TcpCarrier::kSilence + 21s);
}

/// What it heard before stands on the board only, and its peer is silent ever since.
TEST(TcpCarrier, SpeakerThatComesBack_FindsThatItsPeerIsSilent) {
  Hosts job(in_order(2, 1));
  job.pass(3s);
  job.suspended = {true, true};
  job.pass(3s);
  job.suspended[0] = false;
  job.pass(3s);
  EXPECT_EQ(job.believed(70), std::set<std::size_t>{});
}

TEST(TcpCarrier, OneHost_HasNothingToTell) {
  Hosts job(in_order(1, 4));
  job.pass(2s);
  for (const auto& mesh : job.meshes) EXPECT_LE(mesh->connections(), 3);
  EXPECT_EQ(job.shown(70, 1).beat, Instant{0});
}

TEST(TcpCarrier, JobOfManyRanks_IsToldOfLessOften) {
  using namespace std::chrono_literals;
  EXPECT_EQ(TcpCarrier::every(2), 200ms);
  EXPECT_EQ(TcpCarrier::every(2'000), 200ms);
  EXPECT_EQ(TcpCarrier::every(16'384), 1638400us);
}

}  // namespace
}  // namespace lockstep::collectives::tcp_carrier_test
