// What ranks of two hosts pay: a vote over connections against the same messages by hand over the
// same kind of sockets, and what encryption adds, to a vote and to 4 MiB. All ranks are on this
// machine; their rings are left out. Prints a table and writes Google-Benchmark JSON.
//
// usage: scripts/mpirun -n RANKS wire_bench [--batches N] [--calls N] [--out FILE]
#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "free_port.h"
#include "interleaved.h"
#include <CLI/CLI.hpp>
#include <mpi.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockstep/collectives/tcp/tcp.h>
#include <lockstep/collectives/vote.h>

namespace {

using namespace lockstep;
using namespace lockstep::collectives;
using bench::Pair;

/// Swaps 64 bytes with the rank that differs in each bit, as a vote does, by blocking calls. Of
/// as many ranks as the largest power of two; the others do nothing.
class PingPong {
 public:
  PingPong(int rank, int size) {
    const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
    for (int bit = 1; bit < core; bit <<= 1) {
      int port = 0;
      const int peer = rank ^ bit;
      const bool listens = rank < peer;
      const int door = listens ? bench::listen_anywhere(port) : -1;
      std::vector<int> ports(static_cast<std::size_t>(size));
      MPI_Allgather(&port, 1, MPI_INT, ports.data(), 1, MPI_INT, MPI_COMM_WORLD);
      if (rank >= core) continue;
      int file = -1;
      if (listens) {
        file = ::accept(door, nullptr, nullptr);
        ::close(door);
      } else {
        file = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        at.sin_port = htons(static_cast<std::uint16_t>(ports[static_cast<std::size_t>(peer)]));
        if (::connect(file, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) std::abort();
      }
      const int on = 1;
      ::setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      files_.push_back(file);
    }
  }
  ~PingPong() {
    for (const int file : files_) ::close(file);
  }
  PingPong(const PingPong&) = delete;
  PingPong& operator=(const PingPong&) = delete;

  void operator()() {
    for (const int file : files_) {
      std::array<std::byte, 64> mine{}, theirs{};
      if (::send(file, mine.data(), mine.size(), 0) != 64 ||
          ::recv(file, theirs.data(), theirs.size(), MSG_WAITALL) != 64)
        std::abort();
    }
  }

 private:
  std::vector<int> files_;  // by bit
};

/// All ranks, by connections alone.
std::unique_ptr<Communicator> connect(int rank, int size, Encryption encryption) {
  int port = 0;
  if (rank == 0) ::close(bench::listen_anywhere(port));
  MPI_Bcast(&port, 1, MPI_INT, 0, MPI_COMM_WORLD);
  auto mesh = tcp_rendezvous({.rendezvous = {"127.0.0.1", static_cast<std::uint16_t>(port)},
                              .rank = Rank{rank},
                              .size = size,
                              .secret = Secret(32, std::byte{7}),
                              .encryption = encryption})
                  .value();
  return tcp_communicator(std::move(mesh), nullptr).value();
}

void vote(Communicator& group) {
  VoteRound round(group.rank(), group.size(), Vote::of(1, 2, 3, 4));
  if (!group.run(round) || !round.result().same_key()) std::abort();
}

/// Each rank brings its part of 4 MiB.
class Gather {
 public:
  explicit Gather(int size)
      : rows_((std::int64_t{4} << 20) / 4 / size),
        send_(static_cast<std::size_t>(rows_), 1.0F),
        receive_(static_cast<std::size_t>(rows_ * size)) {}
  void operator()(Communicator& group) {
    if (!group.run({.kind = Collective::Kind::AllGather,
                    .send = send_.data(),
                    .receive = receive_.data(),
                    .rows = rows_}))
      std::abort();
  }

 private:
  std::int64_t rows_;
  std::vector<float> send_, receive_;
};

}  // namespace

int main(int argc, char** argv) {
  int batches = 41, calls = 200;
  std::string out;
  CLI::App app("Votes and data over connections, against bare sockets and encrypted");
  app.add_option("--batches", batches, "Pairs of batches")->check(CLI::Range(3, 10000));
  app.add_option("--calls", calls, "Votes per batch")->check(CLI::Range(1, 10000000));
  app.add_option("--out", out, "JSON file");
  CLI11_PARSE(app, argc, argv);

  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bool written = false;
  {
    PingPong bare(rank, size);
    const auto plain = connect(rank, size, Encryption::Off);
    const auto encrypted = connect(rank, size, Encryption::On);
    Gather gather(size);
    const std::vector<Pair> pairs{
        {"vote by connections/bare ping-pong", calls, [&] { bare(); }, [&] { vote(*plain); }, 1.3},
        {"encrypted vote/bare ping-pong", calls, [&] { bare(); }, [&] { vote(*encrypted); }},
        {"encrypted vote/vote", calls, [&] { vote(*plain); }, [&] { vote(*encrypted); }},
        {"encrypted/all_gather/4MiB", 4, [&] { gather(*plain); }, [&] { gather(*encrypted); }}};
    written = bench::run_pairs("wire_bench", pairs, batches, out);
  }
  MPI_Finalize();
  return written ? 0 : 1;
}
