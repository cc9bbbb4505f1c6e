// The rendezvous on real sockets: who comes late, twice, wrong or not at all, and strangers.
#include <atomic>
#include <csignal>
#include <future>

#include "raw_socket.h"
#include "tcp_ranks.h"
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/collectives/tcp/tcp_door.h>
#include <lockstep/collectives/tcp/tcp_mesh.h>
#include <lockstep/collectives/tcp/tcp_message.h>
#include <lockstep/collectives/vote.h>
#include <lockstep/collectives/wire/hmac.h>
#include <lockstep/collectives/wire/sealed_session.h>

namespace lockstep::collectives::tcp_rendezvous_test {
namespace {

using namespace std::chrono_literals;

/// As if each two neighbours had a host: more hosts than wait with that of rank 0.
std::vector<TcpOptions> on_pairs(int size) {
  auto out = alike(size);
  for (TcpOptions& one : out) one = on_hosts(one, 2);
  return out;
}

/// A rendezvous of two that `with` happens to before rank 1 comes.
template <class With>
void meet_while(With with) {
  const auto options = alike(2);
  std::optional<Rendezvous> host;
  std::thread thread([&] { host.emplace(tcp_rendezvous(options[0])); });
  with(options[0].rendezvous);
  Rendezvous peer = tcp_rendezvous(options[1]);
  thread.join();
  expect_a_job({*host, peer});
}

Secret of_ranks(const Secret& shared) {
  const Mac mac = hmac_sha256(shared, std::as_bytes(std::span(std::string_view("lockstep ranks"))));
  return {mac.begin(), mac.end()};
}

TEST(TcpRendezvous, RanksThatComeInAnyOrderAndLate_AreAJob) {
  const auto options = alike(5);
  std::vector<std::optional<Rendezvous>> came(5);
  std::vector<std::thread> threads;
  for (const std::size_t r : {3U, 1U, 0U, 4U, 2U}) {
    threads.emplace_back([&, r] { came[r].emplace(tcp_rendezvous(options[r])); });
    std::this_thread::sleep_for(60ms);
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Rendezvous> all;
  for (auto& one : came) all.push_back(*std::move(one));
  expect_a_job(all);
}

TEST(TcpRendezvous, RanksThatDoNotCome_AreNamedOnAllThatDid) {
  auto options = alike(5);
  for (TcpOptions& one : options) one.patience = 1500ms;
  const auto came = meet({options[0], options[3]});
  expect_refused(came[0], Code::Stuck, "ranks 1-2,4 had not come to the rendezvous at 127.0.0.1:");
  expect_refused(came[1], Code::Stuck, "ranks 1-2,4 had not come");
}

TEST(TcpRendezvous, TimeForWhichAProcessIsSuspended_DoesNotCount) {
  auto options = alike(2);
  options[0].patience = 8s;
  options[1].patience = 30s;
  const pid_t host = ::fork();
  if (host == 0) ::_exit(tcp_rendezvous(options[0]) ? 0 : 1);
  std::this_thread::sleep_for(500ms);
  ::kill(host, SIGSTOP);
  std::optional<Rendezvous> peer;
  std::thread thread([&] { peer.emplace(tcp_rendezvous(options[1])); });
  std::this_thread::sleep_for(8s);
  ::kill(host, SIGCONT);
  int status = 1;
  ::waitpid(host, &status, 0);
  thread.join();
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(*peer) << peer->error().text();
}

TEST(TcpRendezvous, WithoutRank0_TheOthersNameIt) {
  auto options = alike(3);
  for (TcpOptions& one : options) one.patience = 1s;
  for (const Rendezvous& one : meet({options[1], options[2]}))
    expect_refused(one, Code::Stuck, "rank 0, which listens there, has not come");
}

TEST(TcpRendezvous, SecondProcessOfOneRank_IsTurnedAway_TheJobGoesOn) {
  auto options = alike(3);
  const auto come = [&](std::size_t r) {
    return std::async(std::launch::async, [&, r] { return tcp_rendezvous(options[r]); });
  };
  auto host = come(0), one = come(1), other = come(1);
  while (other.wait_for(1ms) != std::future_status::ready)
    if (one.wait_for(1ms) == std::future_status::ready) std::swap(one, other);
  expect_refused(other.get(), Code::BadInput, "came second: rank 1 (process");
  const Rendezvous last = tcp_rendezvous(options[2]);
  expect_a_job({host.get(), one.get(), last});
}

TEST(TcpRendezvous, AnotherWorldSize_EndsItForAll_NamingBoth) {
  auto options = alike(3);
  options[2].size = 4;
  for (const Rendezvous& one : meet(options))
    expect_refused(one, Code::BadInput, "was started for 4 ranks, rank 0 (process");
}

TEST(TcpRendezvous, RanksOfManyHosts_AreAJob) {
  for (const Encryption encryption : {Encryption::Off, Encryption::On}) {
    auto options = on_pairs(25);
    for (TcpOptions& one : options) one.encryption = encryption;
    expect_a_job(meet(options));
  }
}

TEST(TcpRendezvous, OfManyHosts_WhoDoesNotComeIsNamedOnAllThatDid) {
  auto options = on_pairs(25);
  for (TcpOptions& one : options) one.patience = 4s;
  options.erase(options.begin() + 7);
  for (const Rendezvous& one : meet(options))
    expect_refused(one, Code::Stuck, "rank 7 had not come");
}

TEST(TcpRendezvous, OfManyHosts_AnotherWorldSizeEndsItForAll) {
  auto options = on_pairs(25);
  options[13].size = 26;
  for (const Rendezvous& one : meet(options))
    expect_refused(one, Code::BadInput, "was started for 26 ranks, rank 0 (process");
}

/// A process that comes to a rendezvous and stays there. Made before there are threads.
class Comer {
 public:
  explicit Comer(const TcpOptions& options) : process_(::fork()) {
    if (process_ != 0) return;
    const auto came = tcp_rendezvous(options);
    ::pause();
    ::_exit(came ? 0 : 1);
  }
  ~Comer() { kill(SIGKILL); }
  Comer(const Comer&) = delete;
  Comer& operator=(const Comer&) = delete;
  void kill(int signal) {
    if (process_ <= 0) return;
    ::kill(process_, signal);
    if (signal != SIGKILL) return;
    ::waitpid(std::exchange(process_, 0), nullptr, 0);
  }

 private:
  pid_t process_;
};

TEST(TcpRendezvous, OfManyHosts_Rank0MayComeAgain) {
  const auto options = on_pairs(25);
  Comer first(options[0]);
  std::vector<std::future<Rendezvous>> others;
  for (std::size_t r = 1; r < options.size() - 1; ++r)
    others.push_back(std::async(std::launch::async, [&, r] { return tcp_rendezvous(options[r]); }));
  std::this_thread::sleep_for(700ms);
  first.kill(SIGKILL);
  const SystemClock clock;
  const Instant began = clock.now();
  const auto late = meet({options.front(), options.back()});
  std::vector<Rendezvous> all{late[0]};
  for (auto& one : others) all.push_back(one.get());
  EXPECT_LT(clock.now() - began, Duration{8s}) << "nobody waits until it misses itself";
  all.push_back(late[1]);
  expect_a_job(all);
}

/// Ranks 2 and 4 are the first of their hosts, of which one waits with rank 0; their whole hosts
/// go.
TEST(TcpRendezvous, HostsWhoseRanksGoTogether_MayComeAgain) {
  const auto options = on_pairs(16);
  {
    std::vector<std::unique_ptr<Comer>> gone;
    for (const std::size_t r : {2U, 3U, 12U, 13U}) {
      gone.push_back(std::make_unique<Comer>(options[r]));
      std::this_thread::sleep_for(100ms);
    }
    auto host = std::async(std::launch::async, [&] { return tcp_rendezvous(options[0]); });
    std::this_thread::sleep_for(700ms);
    for (auto& one : gone) one->kill(SIGSTOP);
    gone.clear();
    std::this_thread::sleep_for(2s);  // they do not count as here any more
    std::vector<TcpOptions> rest(options.begin() + 1, options.end());
    std::vector<Rendezvous> all = meet(rest);
    all.insert(all.begin(), host.get());
    expect_a_job(all);
  }
}

/// Rank 3 waits with rank 2, the first of their host, which is suspended when the list comes.
TEST(TcpRendezvous, WhoseParentIsSuspended_GetsTheListFromRank0) {
  const auto options = on_pairs(5);
  Comer suspended(options[2]);
  auto host = std::async(std::launch::async, [&] { return tcp_rendezvous(options[0]); });
  std::this_thread::sleep_for(1500ms);
  auto child = std::async(std::launch::async, [&] { return tcp_rendezvous(options[3]); });
  std::this_thread::sleep_for(1500ms);
  suspended.kill(SIGSTOP);
  const auto rest = meet({options[1], options[4]});
  const Rendezvous met = host.get();
  ASSERT_TRUE(met) << met.error().text();
  while (child.wait_for(1ms) != std::future_status::ready) ASSERT_TRUE((*met)->move(5ms));
  const Rendezvous came = child.get();
  EXPECT_TRUE(came) << came.error().text();
}

/// Of a process that listens nowhere.
JoinRequest rank_1_of_4() {
  return {.job = "train",
          .rank = {1},
          .size = 4,
          .build = "b1",
          .host = "h",
          .host_id = 7,
          .port = free_endpoint().port};
}

/// Rank 1, the first of its host, with whom rank 2 is to wait: it does not serve it, and goes.
TEST(TcpRendezvous, WhoseParentIsNoHelp_WaitsWithRank0) {
  auto options = alike(4);
  options[1].host_id = options[2].host_id = 7;
  const auto come = [&](std::size_t r) {
    return std::async(std::launch::async, [&, r] { return tcp_rendezvous(options[r]); });
  };
  auto host = come(0);
  std::optional<std::future<Rendezvous>> child;
  {
    RawSocket first(options[0].rendezvous);
    SealedSession client(SealedSession::Side::Client, of_ranks(tcp_secret()), random_nonce());
    ASSERT_TRUE(first.write(client.open()));
    ASSERT_TRUE(first.write(client.take(first.read()).reply));
    ASSERT_FALSE(client.take(first.read()).refusal);
    const JoinRequest rank1 = rank_1_of_4();
    ASSERT_TRUE(first.write(client.seal(type_of(rank1), encode(rank1))));
    ASSERT_FALSE(first.read().empty()) << "who is missing";
    child = come(2);
    ASSERT_FALSE(first.read().empty()) << "who is missing, now that rank 2 has come";
  }
  std::this_thread::sleep_for(2s);  // it does not count as here any more
  auto again = come(1), last = come(3);
  expect_a_job({host.get(), again.get(), child->get(), last.get()});
}

/// A process of rank 1 that is sent to wait with another: what it hears, and no more.
struct Guest {
  explicit Guest(const JoinRequest& as) : rank(as) { loop.secret = of_ranks(tcp_secret()); }
  ~Guest() { go(); }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;
  void ask(const Endpoint& at) {
    link = TcpLink::connect(loop, at,
                            {.established = [this] { link->send(rank); },
                             .message =
                                 [this](const TcpMessage& said) {
                                   if (const auto* there = std::get_if<WaitAt>(&said))
                                     wait_at = there->parent;
                                   waits = waits || std::holds_alternative<Waiting>(said);
                                   listed = listed || std::holds_alternative<RosterPart>(said);
                                 },
                             .ended = [](const Status&) {}});
  }
  void go() {
    link->close();
    run(10ms);
  }
  void run(std::chrono::milliseconds time) {
    loop.io.restart();
    loop.io.run_for(time);
  }
  /// Ten seconds at most; whether `there` holds then.
  bool run_until(const std::function<bool()>& there) {
    const SystemClock clock;
    for (const Instant until = clock.now() + 10s; !there() && clock.now() < until;) run(10ms);
    return there();
  }
  JoinRequest rank;
  TcpLoop loop;
  TcpLinkPtr link;
  std::optional<Endpoint> wait_at;
  bool waits = false, listed = false;
};

/// Rank 1 waits with rank 2, the first of their host, goes, and comes again as another process:
/// that rank 2 has to say.
TEST(TcpRendezvous, RankThatWaitedWithAnotherAndWentAgain_MayComeAgain) {
  auto options = alike(4);
  options[1].host_id = options[2].host_id = 7;
  const auto come = [&](std::size_t r) {
    return std::async(std::launch::async, [&, r] { return tcp_rendezvous(options[r]); });
  };
  auto host = come(0), parent = come(2);
  std::this_thread::sleep_for(1500ms);
  Guest guest(rank_1_of_4());
  guest.ask(options[0].rendezvous);
  ASSERT_TRUE(guest.run_until([&] { return guest.wait_at.has_value(); }));
  guest.go();
  guest.ask(*guest.wait_at);
  EXPECT_TRUE(guest.run_until([&] { return guest.waits; }));
  guest.go();
  std::this_thread::sleep_for(2s);
  auto again = come(1), last = come(3);
  expect_a_job({host.get(), again.get(), parent.get(), last.get()});
}

/// Who loses rank 2 while the list comes goes to rank 0 for it.
TEST(TcpRendezvous, UntilThoseThatWaitWithOthersHaveTheList_Rank0Stays) {
  auto options = alike(4);
  options[1].host_id = options[2].host_id = 7;
  const auto come = [&](std::size_t r) {
    return std::async(std::launch::async,
                      [&, r] { return tcp_rendezvous(options[r]).has_value(); });
  };
  auto host = come(0), parent = come(2);
  std::this_thread::sleep_for(1500ms);
  Guest at_rank0(rank_1_of_4()), guest(at_rank0.rank);
  at_rank0.ask(options[0].rendezvous);
  ASSERT_TRUE(at_rank0.run_until([&] { return at_rank0.wait_at.has_value(); }));
  guest.ask(*at_rank0.wait_at);
  ASSERT_TRUE(guest.run_until([&] { return guest.waits; }));
  const SystemClock clock;
  const Instant began = clock.now();
  auto last = come(3);
  ASSERT_TRUE(guest.run_until([&] { return guest.listed; }));
  guest.run(500ms);
  EXPECT_TRUE(last.get());
  const bool left = host.wait_for(0s) == std::future_status::ready;
  // On a busy machine the two seconds for which it stays may be over.
  EXPECT_TRUE(!left || clock.now() - began > 2s);
  guest.link->send(Acknowledgement{});
  EXPECT_TRUE(guest.run_until([&] { return host.wait_for(10ms) == std::future_status::ready; }));
  EXPECT_TRUE(host.get() && parent.get());
}

TEST(TcpRendezvous, AnotherBuild_EndsItForAll_NamingBoth) {
  auto options = alike(3);
  options[1].build = "b2";
  for (const Rendezvous& one : meet(options))
    expect_refused(one, Code::Version, "runs the build b2, rank 0 (process");
}

TEST(TcpRendezvous, AnotherSecret_IsSaidToWhoHasIt_AndItsRankIsMissing) {
  auto options = alike(2);
  options[1].secret = Secret(32, std::byte{'x'});
  options[0].patience = 3s;
  const auto came = meet(options);
  expect_refused(came[0], Code::Stuck, "rank 1 had not come");
  expect_refused(came[1], Code::Version, "the two do not have the same secret");
}

TEST(TcpRendezvous, AnotherJob_IsTurnedAway) {
  auto options = alike(2);
  TcpOptions stray = options[1];
  stray.job = "serve";
  std::optional<Rendezvous> host;
  std::thread thread([&] { host.emplace(tcp_rendezvous(options[0])); });
  expect_refused(tcp_rendezvous(stray), Code::BadInput, "belongs to the job \"serve\"");
  Rendezvous peer = tcp_rendezvous(options[1]);
  thread.join();
  expect_a_job({*host, peer});
}

TEST(TcpRendezvous, RankOutsideTheJobOrNoSecret_IsRefusedAtOnce) {
  auto options = alike(2);
  options[0].rank = Rank{2};
  expect_refused(tcp_rendezvous(options[0]), Code::BadInput, "Rank 2 of 2 makes no sense");
  options[1].secret.clear();
  expect_refused(tcp_rendezvous(options[1]), Code::Version, "needs a secret");
}

TEST(TcpRendezvous, AddressOfAnotherHost_IsSaid) {
  auto options = alike(2);
  options[0].rendezvous.address = "192.0.2.1";  // nobody's (RFC 5737)
  expect_refused(tcp_rendezvous(options[0]), Code::Environment, "cannot listen at 192.0.2.1:");
}

TEST(TcpRendezvous, RankThatCameAndWentAgain_MayComeAgain) {
  const auto options = alike(3);
  std::optional<Rendezvous> host, second;
  std::thread thread([&] { host.emplace(tcp_rendezvous(options[0])); });
  {
    RawSocket first(options[0].rendezvous);
    SealedSession client(SealedSession::Side::Client, of_ranks(tcp_secret()), random_nonce());
    ASSERT_TRUE(first.write(client.open()));
    ASSERT_TRUE(first.write(client.take(first.read()).reply));
    ASSERT_FALSE(client.take(first.read()).refusal);
    const JoinRequest rank1{.job = "train", .rank = {1}, .size = 3, .build = "b1", .host = "h"};
    ASSERT_TRUE(first.write(client.seal(type_of(rank1), encode(rank1))));
    ASSERT_FALSE(first.read().empty()) << "who is missing";
    expect_refused(tcp_rendezvous(options[1]), Code::BadInput, "came second");
  }
  std::this_thread::sleep_for(1s);  // rank 0 has seen that it went
  std::thread other([&] { second.emplace(tcp_rendezvous(options[2])); });
  Rendezvous again = tcp_rendezvous(options[1]);
  thread.join();
  other.join();
  expect_a_job({*host, again, *second});
}

TEST(TcpRendezvous, GarbageOversizeAndOtherVersions_AreClosed_TheJobGoesOn) {
  meet_while([](const Endpoint& at) {
    const auto text = std::as_bytes(std::span(std::string_view("GET / HTTP/1.1\r\n\r\n")));
    Bytes oversize = SealedMessageWriter::plain(HandshakeType::Hello, {});
    oversize[8] = oversize[9] = std::byte{0xFF};
    Bytes later = SealedMessageWriter::plain(HandshakeType::Hello, Nonce{});
    later[4] = std::byte{9};
    const std::vector<std::pair<Bytes, Refusal>> wrong{
        {Bytes(text.begin(), text.end()), Refusal::Magic},
        {oversize, Refusal::Size},
        {later, Refusal::Version},
        {SealedMessageWriter::plain(HandshakeType{kFirstSealedType}, {}), Refusal::Order}};
    for (const auto& [bytes, why] : wrong) {
      RawSocket stranger(at);
      ASSERT_TRUE(stranger.write(bytes));
      const Bytes reply = stranger.read();
      ASSERT_EQ(reply.size(), kHeaderBytes + 1);
      EXPECT_EQ(reply.back(), std::byte{static_cast<std::uint8_t>(why)});
      EXPECT_TRUE(stranger.closed_within(15s));
    }
  });
}

TEST(TcpRendezvous, SecretOfTheCoordinator_IsNotThatOfARank) {
  meet_while([](const Endpoint& at) {
    RawSocket other(at);
    SealedSession client(SealedSession::Side::Client, tcp_secret(), random_nonce());
    ASSERT_TRUE(other.write(client.open()));
    ASSERT_TRUE(other.write(client.take(other.read()).reply));
    EXPECT_EQ(client.take(other.read()).refusal, Refusal::Token);
  });
}

TEST(TcpRendezvous, RecordedConversation_IsWorthNothing) {
  const auto options = alike(2);
  Bytes said;
  std::optional<Rendezvous> host;
  std::thread thread([&] { host.emplace(tcp_rendezvous(options[0])); });
  const auto establish = [&](RawSocket& socket, SealedSession& client) {
    said = client.open();
    ASSERT_TRUE(socket.write(said));
    const Bytes proof = client.take(socket.read()).reply;
    ASSERT_TRUE(socket.write(proof));
    said.insert(said.end(), proof.begin(), proof.end());
    ASSERT_FALSE(client.take(socket.read()).refusal);
    ASSERT_TRUE(client.established());
  };
  {
    RawSocket eavesdropped(options[0].rendezvous);
    SealedSession client(SealedSession::Side::Client, of_ranks(tcp_secret()), random_nonce());
    establish(eavesdropped, client);
    RawSocket thief(options[0].rendezvous);
    ASSERT_TRUE(thief.write(said));
    EXPECT_TRUE(thief.closed_within(15s)) << "its proof is for another nonce";
    // Somebody who has the secret, and says the same twice or something that is no message.
    const Bytes frame = client.seal(kFirstSealedType + 6, {});
    ASSERT_TRUE(eavesdropped.write(frame));
    ASSERT_TRUE(eavesdropped.write(frame));
    EXPECT_TRUE(eavesdropped.closed_within(15s));
  }
  Rendezvous peer = tcp_rendezvous(options[1]);
  thread.join();
  expect_a_job({*host, peer});
}

TEST(TcpRendezvous, StrangersWhoDawdle_AreClosedAndHoldNobodyUp) {
  meet_while([](const Endpoint& at) {
    std::vector<std::unique_ptr<RawSocket>> dawdlers;
    for (int i = 0; i < 80; ++i) {  // more than are kept
      dawdlers.push_back(std::make_unique<RawSocket>(at));
      ASSERT_TRUE(dawdlers.back()->write(Bytes(1, std::byte{0x4C})));
    }
    EXPECT_TRUE(dawdlers.front()->closed_within(15s));
    EXPECT_FALSE(dawdlers.back()->closed_within(300ms)) << "more came, so the oldest goes";
    EXPECT_TRUE(dawdlers.back()->closed_within(20s)) << "it had five seconds";
  });
}

TEST(TcpRendezvous, Rank0WithoutDescriptorsLeft_TakesTheOthersLater) {
  const auto options = alike(2);
  const pid_t rank0 = ::fork();
  if (rank0 == 0) {
    const rlimit limit{40, 40};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ::_exit(tcp_rendezvous(options[0]).has_value() ? 0 : 1);
  }
  std::vector<std::unique_ptr<RawSocket>> dawdlers;
  for (int i = 0; i < 50; ++i)
    dawdlers.push_back(std::make_unique<RawSocket>(options[0].rendezvous));
  EXPECT_TRUE(tcp_rendezvous(options[1]).has_value());
  int status = -1;
  EXPECT_EQ(::waitpid(rank0, &status, 0), rank0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lockstep::collectives::tcp_rendezvous_test
