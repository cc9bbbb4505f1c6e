// The rendezvous by a file, for ranks of one host, on real sockets.
#include <filesystem>
#include <thread>

#include "tcp_ranks.h"
#include <gtest/gtest.h>

#include <lockstep/collectives/tcp/rendezvous_file.h>

namespace lockstep::collectives::rendezvous_file_test {
namespace {

using namespace std::chrono_literals;

/// A rendezvous by a file in a folder that goes with the object.
struct ByFile {
  explicit ByFile(int size) : options(alike(size)) {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep_meet_XXXXXX").string();
    folder = ::mkdtemp(name.data());
    for (TcpOptions& one : options) {
      one.rendezvous = {};
      one.secret.clear();
      one.file = folder + "/meet";
    }
  }
  ~ByFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  ByFile(const ByFile&) = delete;
  ByFile& operator=(const ByFile&) = delete;
  [[nodiscard]] bool nothing_left() const { return std::filesystem::is_empty(folder); }

  std::vector<TcpOptions> options;
  std::string folder;
};

TEST(TcpRendezvous, RanksThatMeetByAFile_AreAJob_AndNothingIsLeft) {
  const ByFile at(4);
  expect_a_job(meet({at.options[2], at.options[3], at.options[1], at.options[0]}));
  EXPECT_TRUE(at.nothing_left());
}

TEST(TcpRendezvous, FileThatAnEarlierJobLeft_MisleadsNobody) {
  const Endpoint dead = free_endpoint();
  const auto theirs = alike(2);  // another job of this user, which listens
  std::optional<Rendezvous> other;
  std::thread thread([&] { other.emplace(tcp_rendezvous(theirs[0])); });
  for (const Endpoint& left : {dead, theirs[0].rendezvous}) {
    const ByFile at(2);
    ASSERT_TRUE(write_rendezvous(at.options[0].file, {left, random_secret()}));
    std::optional<Rendezvous> peer;
    std::thread early([&] { peer.emplace(tcp_rendezvous(at.options[1])); });
    std::this_thread::sleep_for(300ms);
    Rendezvous host = tcp_rendezvous(at.options[0]);
    early.join();
    expect_a_job({host, *peer});
    EXPECT_TRUE(at.nothing_left());
  }
  Rendezvous last = tcp_rendezvous(theirs[1]);
  thread.join();
  expect_a_job({*other, last});
}

TEST(TcpRendezvous, WhoDoesNotComeToTheFile_IsNamed) {
  ByFile at(3);
  for (TcpOptions& one : at.options) one.patience = 1500ms;
  expect_refused(tcp_rendezvous(at.options[1]), Code::Stuck,
                 "found nobody at the rendezvous at " + at.options[1].file + " for 1.5 s: rank 0");
  const auto came = meet({at.options[0], at.options[2]});
  for (const Rendezvous& one : came) expect_refused(one, Code::Stuck, "rank 1 had not come");
  EXPECT_TRUE(at.nothing_left());
}

TEST(TcpRendezvous, FileThatOthersMayWriteOrNobodyCan_IsRefused) {
  ByFile at(2);
  ASSERT_TRUE(write_rendezvous(at.options[0].file, {free_endpoint(), random_secret()}));
  std::filesystem::permissions(at.options[0].file, std::filesystem::perms(0620));
  expect_refused(tcp_rendezvous(at.options[1]), Code::Version, "others may read or write it");
  for (TcpOptions& one : at.options) one.file = at.folder + "/none/meet";
  expect_refused(tcp_rendezvous(at.options[0]), Code::Environment, "cannot say in " + at.folder);
}

}  // namespace
}  // namespace lockstep::collectives::rendezvous_file_test
