// What lockstep adds to a job: a vote against the cheapest thing that could do its work (one
// MPI_Allreduce of 64 bytes) and against a vote over TCP, all_to_all_single with its exchange
// of counts against the same two MPI calls written by hand, and sums of f32 in rank order against
// MPI_Allreduce. Prints a table and writes Google-Benchmark JSON.
//
// usage: scripts/mpirun -n RANKS vote_bench [--batches N] [--calls N] [--out FILE]
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exchange_by_hand.h"
#include "free_port.h"
#include "interleaved.h"
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/collectives/tcp/tcp.h>
#include <lockstep/collectives/vote.h>

namespace {

using namespace lockstep;
using namespace lockstep::collectives;
using bench::Pair;

Pair vote_pair(Communicator& group, int calls) {
  return {"vote/allreduce_64B", calls,
          [] {
            std::uint64_t mine[8] = {1, 2, 3, 4, 5, 6, 7, 8}, all[8];
            MPI_Allreduce(mine, all, 8, MPI_UINT64_T, MPI_BAND, MPI_COMM_WORLD);
          },
          [&group] {
            VoteRound round(group.rank(), group.size(), Vote::of(1, 2, 3, 4));
            if (!group.run(round) || !round.result().same_key()) std::abort();
          },
          group.size() > 2 ? 1.25 : 1.15};
}

/// Where all ranks meet over TCP: a port that is free on rank 0.
std::shared_ptr<TcpMesh> meet(Rank rank, int size) {
  int port = 0;
  if (rank.value == 0) ::close(bench::listen_anywhere(port));
  MPI_Bcast(&port, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return tcp_rendezvous({.rendezvous = {"127.0.0.1", static_cast<std::uint16_t>(port)},
                         .rank = rank,
                         .size = size,
                         .secret = Secret(32, std::byte{7})})
      .value();
}

/// The same vote over both control planes.
Pair tcp_pair(Communicator& mpi, Communicator& tcp, int calls) {
  const auto vote = [](Communicator& group) {
    VoteRound round(group.rank(), group.size(), Vote::of(1, 2, 3, 4));
    if (!group.run(round) || !round.result().same_key()) std::abort();
  };
  return {"vote over TCP/vote over MPI", calls, [&mpi, vote] { vote(mpi); },
          [&tcp, vote] { vote(tcp); }, 1.3};
}

struct Exchange {
  std::vector<float> send, receive;
  std::vector<std::int64_t> send_rows, receive_rows;
};

/// `bytes` per pair, rows of 64 floats, counts exchanged on both sides.
Pair all_to_all_pair(Communicator& group, std::int64_t bytes, int calls) {
  constexpr std::int64_t kWidth = 64;
  const auto n = static_cast<std::size_t>(group.size());
  const std::int64_t rows = bytes / 4 / kWidth;
  auto x = std::make_shared<Exchange>();
  x->send.assign(n * static_cast<std::size_t>(rows * kWidth), 1.0f);
  x->receive = x->send;
  x->send_rows.assign(n, rows);
  x->receive_rows.assign(n, 0);
  const auto floor = [hand = std::make_shared<bench::ExchangeByHand>(group.size(), rows, kWidth)] {
    (*hand)();
  };
  const auto ours = [x, n, &group] {
    const std::vector<std::int64_t> one(n, 1);
    const auto counted = group.run(Collective{.kind = Collective::Kind::AllToAll,
                                              .dtype = DType::I64,
                                              .send = x->send_rows.data(),
                                              .receive = x->receive_rows.data(),
                                              .send_rows = one,
                                              .receive_rows = one});
    const auto moved = group.run(Collective{.kind = Collective::Kind::AllToAll,
                                            .send = x->send.data(),
                                            .receive = x->receive.data(),
                                            .row_elements = kWidth,
                                            .send_rows = x->send_rows,
                                            .receive_rows = x->receive_rows});
    if (!counted || !moved) std::abort();
  };
  return {fmt::format("all_to_all_single/{}KiB", bytes / 1024), calls, floor, ours,
          bytes >= 4 << 20 ? 1.1 : 1.25};
}

/// A sum of so many bytes of f32 on each rank.
Pair all_reduce_pair(Communicator& group, std::int64_t bytes, int calls) {
  struct Values {
    std::vector<float> send, receive;
  };
  const auto x = std::make_shared<Values>();
  x->send.assign(static_cast<std::size_t>(bytes / 4), 1.5F);
  x->receive = x->send;
  const auto floor = [x] {
    MPI_Allreduce(x->send.data(), x->receive.data(), static_cast<int>(x->send.size()), MPI_FLOAT,
                  MPI_SUM, MPI_COMM_WORLD);
  };
  const auto ours = [x, &group] {
    if (!group.run(Collective{.kind = Collective::Kind::AllReduce,
                              .send = x->send.data(),
                              .receive = x->receive.data(),
                              .rows = static_cast<std::int64_t>(x->send.size())}))
      std::abort();
  };
  return {fmt::format("all_reduce/{}B", bytes), calls, floor, ours};
}

}  // namespace

int main(int argc, char** argv) {
  int batches = 41, calls = 2000;
  std::string out;
  CLI::App app("Votes and all_to_all_single against bare MPI");
  app.add_option("--batches", batches, "Pairs of batches")->check(CLI::Range(3, 10000));
  app.add_option("--calls", calls, "Votes per batch")->check(CLI::Range(1, 10000000));
  app.add_option("--out", out, "JSON file");
  CLI11_PARSE(app, argc, argv);

  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  bool written = false;
  {
    const auto board = mpi_board(nullptr).value();
    const auto watch = Watch::start(*board, Rank{rank}, {}).value();
    const auto group = mpi_communicator(nullptr, {.watch = watch.get()}).value();
    const int slow = std::max(1, calls / (group->size() > 2 ? 20 : 1));
    std::vector<Pair> pairs{vote_pair(*group, slow),
                            all_to_all_pair(*group, 64 << 10, std::max(1, slow / 20))};
    for (const std::int64_t bytes : {4, 4 << 10, 64 << 10, 4 << 20})
      pairs.push_back(all_reduce_pair(*group, bytes, bytes > 1 << 20 ? 4 : std::max(1, slow / 20)));
    std::unique_ptr<Board> tcp_memory;
    std::unique_ptr<Watch> tcp_watch;
    std::unique_ptr<Communicator> tcp;
    if (group->size() > 1) {
      const auto mesh = meet(Rank{rank}, group->size());
      tcp_memory = tcp_board(*mesh, std::chrono::seconds(60)).value();
      tcp_watch = Watch::start(*tcp_memory, Rank{rank}, {}).value();
      tcp = tcp_communicator(mesh, tcp_watch.get()).value();
      pairs.push_back(tcp_pair(*group, *tcp, slow));
    }
    // With more ranks the buffers of all of them would not fit into a small machine.
    if (group->size() <= 8) pairs.push_back(all_to_all_pair(*group, 4 << 20, 4));
    written = bench::run_pairs("vote_bench", pairs, batches, out);
  }
  MPI_Finalize();
  return written ? 0 : 1;
}
