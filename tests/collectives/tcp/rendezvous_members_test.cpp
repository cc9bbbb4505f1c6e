// Who has joined the rendezvous, who is turned away, and who counts as here.
#include <gtest/gtest.h>

#include <lockstep/collectives/tcp/rendezvous_members.h>

namespace lockstep::collectives::rendezvous_members_test {
namespace {

using namespace std::chrono_literals;

TEST(RendezvousMembers, OtherMessages_AreRefusedNamingBothVersions) {
  const JoinRequest host{
      .job = "train", .rank = {0}, .size = 2, .build = "b", .host = "a", .pid = 1};
  RendezvousMembers members(host);
  JoinRequest later = host;
  later.rank = {1};
  later.version = kTcpVersion + 1;
  const auto answer = members.join(later, "127.0.0.1");
  ASSERT_TRUE(answer.refusal);
  EXPECT_EQ(answer.refusal->code, Code::Version);
  EXPECT_NE(answer.refusal->message.find("speaks version " + std::to_string(kTcpVersion + 1)),
            std::string::npos);
  EXPECT_NE(answer.refusal->message.find("rank 0 (process 1 on a) version " +
                                         std::to_string(kTcpVersion)),
            std::string::npos);
  later.version = kTcpVersion;
  later.rank = {2};
  EXPECT_EQ(members.join(later, "").refusal->code, Code::BadInput);
  EXPECT_EQ(members.missing().text(), "1");
  later.rank = {1};
  EXPECT_FALSE(members.join(later, "10.0.0.2").refusal);
  EXPECT_TRUE(members.missing().empty());
  EXPECT_EQ(members.roster()[1].listens.address, "10.0.0.2");
  members.left({1}, 0s);
  members.forget_gone(1s);
  EXPECT_EQ(members.missing().text(), "1");
}

TEST(RendezvousMembers, ProcessThatComesAgain_WaitsHere) {
  JoinRequest root{.job = "train", .rank = {0}, .size = 9, .build = "b", .host = "a", .host_id = 1};
  RendezvousMembers members(root);
  JoinRequest first = root, second = root;
  first.rank = {3}, first.host_id = 2, first.port = 4003;
  second.rank = {4}, second.host_id = 2, second.port = 4004;
  EXPECT_FALSE(members.join(first, "10.0.0.2").wait_at);
  const auto sent_on = members.join(second, "10.0.0.2").wait_at;
  ASSERT_TRUE(sent_on);
  EXPECT_EQ(sent_on->text(), "10.0.0.2:4003");
  EXPECT_TRUE(members.missing().contains(Rank{4})) << "it is on its way";
  EXPECT_EQ(members.missing().text(), "1-2,4-8");
  members.arrived(Rank{4});
  EXPECT_EQ(members.missing().text(), "1-2,5-8");
  members.left(Rank{3}, 1s);
  EXPECT_EQ(members.missing().text(), "1-2,5-8") << "it may come again";
  members.forget_gone(2s);
  EXPECT_EQ(members.missing().text(), "1-3,5-8");
  EXPECT_FALSE(members.complete());
  const auto again = members.join(second, "10.0.0.2");
  EXPECT_FALSE(again.refusal);
  EXPECT_FALSE(again.wait_at);
}

TEST(RendezvousMembers, AllNeedNotBeConnectedAtOnce) {
  const JoinRequest root{.job = "train", .rank = {0}, .size = 3, .build = "b", .host = "a"};
  RendezvousMembers members(root);
  JoinRequest first = root, second = root;
  first.rank = {1}, first.port = 4001;
  second.rank = {2}, second.port = 4002;
  EXPECT_FALSE(members.join(first, "10.0.0.1").refusal);
  members.left(Rank{1}, 1s);
  EXPECT_FALSE(members.join(first, "10.0.0.1").refusal);
  members.left(Rank{1}, 2s);
  members.forget_gone(2s);
  EXPECT_FALSE(members.join(second, "10.0.0.2").refusal);
  EXPECT_TRUE(members.complete());
  EXPECT_EQ(members.gone().text(), "1");
  members.forget_gone(3s);
  EXPECT_TRUE(members.gone().empty());
  EXPECT_FALSE(members.complete());
}

TEST(RendezvousMembers, InPlaceOfOneThatIsGone_AnotherProcessMayCome) {
  const JoinRequest root{.job = "train", .rank = {0}, .size = 2, .build = "b", .host = "a"};
  RendezvousMembers members(root);
  JoinRequest first = root, another = root;
  first.rank = another.rank = {1};
  first.port = 4001, another.port = 5001;
  EXPECT_FALSE(members.join(first, "10.0.0.1").refusal);
  EXPECT_TRUE(members.join(another, "10.0.0.1").refusal);
  members.left(Rank{1}, 1s);
  EXPECT_FALSE(members.join(another, "10.0.0.1").refusal);
  members.forget_gone(9s);
  EXPECT_TRUE(members.complete());
  EXPECT_EQ(members.roster()[1].listens.port, 5001);
  members.left(Rank{1}, 10s);
  members.arrived(Rank{1});
  EXPECT_TRUE(members.gone().empty());
  EXPECT_TRUE(members.join(first, "10.0.0.1").refusal);
}

}  // namespace
}  // namespace lockstep::collectives::rendezvous_members_test
