#include "tcp_ranks.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <lockstep/collectives/tcp/tcp_mesh.h>
#include <lockstep/collectives/tree.h>
#include <lockstep/collectives/vote.h>

namespace lockstep::collectives {

Endpoint free_endpoint() {
  const int file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof any;
  const bool bound = ::bind(file, reinterpret_cast<const sockaddr*>(&any), length) == 0 &&
                     ::getsockname(file, reinterpret_cast<sockaddr*>(&any), &length) == 0;
  ::close(file);
  EXPECT_TRUE(bound);
  return {"127.0.0.1", ntohs(any.sin_port)};
}

std::vector<int> connected_sockets() {
  std::vector<int> out;
  for (int file = 0; file < 4'096; ++file) {
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(file, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
        peer.sin_family == AF_INET)
      out.push_back(file);
  }
  return out;
}

void reset(int file) {
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  (void)::syscall(SYS_connect, file, &nobody, sizeof nobody);
}

Secret tcp_secret() { return Secret(32, std::byte{'s'}); }

TcpOptions tcp_options(const Endpoint& at, int rank, int size) {
  return {.rendezvous = at,
          .rank = Rank{rank},
          .size = size,
          .secret = tcp_secret(),
          .job = "train",
          .build = "b1",
          .patience = std::chrono::seconds(20)};
}

TcpOptions on_hosts(TcpOptions options, int per_host) {
  options.host_id = 100 + static_cast<std::uint64_t>(options.rank.value / per_host);
  return options;
}

std::vector<Rendezvous> meet(const std::vector<TcpOptions>& ranks) {
  std::vector<std::optional<Rendezvous>> came(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&, i] { came[i].emplace(tcp_rendezvous(ranks[i])); });
  for (std::thread& thread : threads) thread.join();
  std::vector<Rendezvous> out;
  for (auto& one : came) out.push_back(*std::move(one));
  return out;
}

std::vector<std::shared_ptr<TcpMesh>> meet(int size, Encryption encryption, int per_host) {
  const Endpoint at = free_endpoint();
  std::vector<TcpOptions> options;
  for (int r = 0; r < size; ++r) {
    options.push_back(tcp_options(at, r, size));
    options.back().encryption = encryption;
    if (per_host > 0) options.back() = on_hosts(options.back(), per_host);
  }
  std::vector<std::shared_ptr<TcpMesh>> out;
  for (Rendezvous& one : meet(options)) {
    EXPECT_TRUE(one) << one.error().text();
    out.push_back(one ? *one : nullptr);
  }
  return out;
}

std::vector<std::unique_ptr<Board>> share_host(const std::vector<std::shared_ptr<TcpMesh>>& ranks) {
  std::vector<std::unique_ptr<Board>> boards(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    threads.emplace_back([&, r] {
      auto board = tcp_board(*ranks[r], std::chrono::seconds(20));
      ASSERT_TRUE(board) << board.error().text();
      boards[r] = *std::move(board);
    });
  for (std::thread& thread : threads) thread.join();
  return boards;
}

void finish(const std::vector<Communicator*>& ranks) {
  for (bool all = false; !all;) {
    all = true;
    for (Communicator* one : ranks) {
      const auto done = one->poll();
      ASSERT_TRUE(done) << done.error().text();
      all = all && *done;
    }
  }
}

std::vector<TcpOptions> alike(int size) {
  const Endpoint at = free_endpoint();
  std::vector<TcpOptions> out;
  for (int r = 0; r < size; ++r) out.push_back(tcp_options(at, r, size));
  return out;
}

void expect_a_job(const std::vector<Rendezvous>& came) {
  std::vector<std::unique_ptr<Communicator>> ranks;
  std::vector<Communicator*> pointers;
  std::vector<std::unique_ptr<VoteRound>> votes;
  for (const Rendezvous& one : came) {
    ASSERT_TRUE(one) << one.error().text();
    ranks.push_back(tcp_communicator(*one, nullptr).value());
    const Communicator& c = *ranks.back();
    votes.push_back(std::make_unique<VoteRound>(
        c.rank(), c.size(), Vote::of(~(std::uint64_t{1} << c.rank().value), 1, 2, 3)));
    ranks.back()->start(*votes.back());
    pointers.push_back(&*ranks.back());
  }
  finish(pointers);
  for (const auto& vote : votes)
    EXPECT_EQ(vote->result().entries(), ~((std::uint64_t{1} << ranks.size()) - 1));
}

void expect_refused(const Rendezvous& came, Code code, const std::string& part) {
  ASSERT_FALSE(came) << part;
  EXPECT_EQ(came.error().code, code) << came.error().text();
  EXPECT_NE(came.error().message.find(part), std::string::npos) << came.error().message;
}

void connect_tree(const std::vector<std::shared_ptr<TcpMesh>>& ranks) {
  const auto size = static_cast<int>(ranks.size());
  const auto all = [&] {
    for (int r = 0; r < size; ++r) {
      const TreePlace at = TreePlace::of(Rank{r}, size);
      const int neighbours = (at.parent ? 1 : 0) + (at.left ? 1 : 0) + (at.right ? 1 : 0);
      if (ranks[static_cast<std::size_t>(r)]->connections() < neighbours) return false;
    }
    return true;
  };
  for (int tries = 0; !all() && tries < 10'000; ++tries)
    for (const auto& one : ranks)
      if (auto moved = one->move(std::chrono::milliseconds(1)); !moved)
        FAIL() << moved.error().text();
  EXPECT_TRUE(all());
}

}  // namespace lockstep::collectives
