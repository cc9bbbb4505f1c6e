// The list of all ranks after all have met: for whom it is, how often, and until when.
#include "tcp_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/collectives/tcp/tcp_roster.h>

namespace lockstep::collectives::tcp_roster_test {
namespace {

using namespace std::chrono_literals;

JoinRequest request(std::int32_t rank, std::int32_t pid) {
  return {.version = kTcpVersion,
          .job = "job",
          .rank = Rank{rank},
          .size = 3,
          .build = "build",
          .host = "host",
          .host_id = 7,
          .pid = pid,
          .port = static_cast<std::uint16_t>(4000 + rank)};
}

/// Three ranks that have met, and the list that rank 0 still gives out.
struct Met {
  Met() {
    loop.secret = Secret(kSecretBytes, std::byte{1});
    auto door = std::make_unique<TcpDoor>(loop, 8);
    EXPECT_TRUE(door->listen({"127.0.0.1", 0}));
    at = {"127.0.0.1", door->port()};
    RendezvousMembers members(request(0, 100));
    EXPECT_FALSE(members.join(request(1, 101), "127.0.0.1").refusal);
    EXPECT_FALSE(members.join(request(2, 102), "127.0.0.1").refusal);
    const std::vector<Peer> peers = members.roster();
    list.emplace(loop, std::move(door), std::move(members), RendezvousId{}, peers,
                 RankSet::range(Rank{1}, Rank{2}));
  }
  /// Ten seconds at most.
  void run_until_done() {
    const SystemClock clock;
    const Instant until = clock.now() + 10s;
    while (!list->done() && clock.now() < until) loop.io.run_one_for(10ms);
  }
  TcpLoop loop;
  Endpoint at;
  std::optional<TcpRoster> list;
};

/// One that comes to the rendezvous, and what it hears there.
struct Seeker {
  Seeker(Met& of, const JoinRequest& with) : met(of) {
    link = TcpLink::connect(met.loop, met.at,
                            {.established = [this, with] { link->send(with); },
                             .message =
                                 [this](TcpMessage message) {
                                   if (auto* part = std::get_if<RosterPart>(&message))
                                     peers = part->peers;
                                   if (auto* away = std::get_if<JoinRefused>(&message))
                                     turned_away = away->message;
                                   heard = true;
                                 },
                             .ended = [this](const Status&) { ended = true; }});
    const SystemClock clock;
    const Instant until = clock.now() + 10s;
    while (!heard && !ended && clock.now() < until) met.loop.io.run_one_for(10ms);
  }
  ~Seeker() {
    link->close();
    met.loop.io.run_for(20ms);
  }
  Met& met;
  TcpLinkPtr link;
  std::vector<Peer> peers;
  std::string turned_away;
  bool heard = false, ended = false;
};

TEST(TcpRoster, RankThatComesAgain_GetsTheListAgain) {
  Met met;
  for (int time = 0; time < 3; ++time) {
    const Seeker seeker(met, request(1, 101));
    ASSERT_EQ(seeker.peers.size(), 3U) << time;
    EXPECT_EQ(seeker.peers[2].listens.port, 4002);
  }
  EXPECT_FALSE(met.list->done()) << "it has not said that it has it";
}

TEST(TcpRoster, WhoseConnectionBroke_IsExpected) {
  Met met;
  EXPECT_TRUE(met.list->done());
  met.list->expect(RankSet::of(Rank{1}));
  EXPECT_FALSE(met.list->done());
  const Seeker seeker(met, request(1, 101));
  EXPECT_FALSE(met.list->done());
  seeker.link->send(Acknowledgement{});
  met.run_until_done();
  EXPECT_TRUE(met.list->done());
}

TEST(TcpRoster, AnotherProcessAsTheSameRank_IsTurnedAway) {
  Met met;
  const Seeker seeker(met, request(1, 666));
  EXPECT_TRUE(seeker.peers.empty());
  EXPECT_NE(seeker.turned_away.find("came second"), std::string::npos) << seeker.turned_away;
}

TEST(TcpRoster, WhoIsExpected_FindsItLaterThanPatience) {
  Met met;
  met.list->expect(RankSet::of(Rank{1}));
  met.loop.io.run_for(TcpRoster::kPatience + 500ms);
  EXPECT_EQ(Seeker(met, request(1, 101)).peers.size(), 3U);
}

TEST(TcpRoster, OnceAllHaveIt_NobodyListens) {
  Met met;
  {
    const Seeker seeker(met, request(1, 101));
    EXPECT_FALSE(met.list->done());
    seeker.link->send(Acknowledgement{});
    met.run_until_done();
    EXPECT_TRUE(met.list->done());
  }
  EXPECT_EQ(Seeker(met, request(2, 102)).peers.size(), 3U);
  met.list->has(Rank{2});
  EXPECT_TRUE(Seeker(met, request(2, 102)).ended);
}

TEST(TcpRoster, AfterTheEndOfTheJob_SaysWhy) {
  Met met;
  met.list->end({Code::RankLost, "Rank 2 ended", "", {}});
  const Seeker seeker(met, request(1, 101));
  EXPECT_TRUE(seeker.peers.empty());
  EXPECT_EQ(seeker.turned_away, "Rank 2 ended");
}

}  // namespace
}  // namespace lockstep::collectives::tcp_roster_test
