// Ranks of a job over TCP within one test: real sockets on loopback, one thread for each while they
// meet.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/collectives/tcp/tcp.h>

namespace lockstep::collectives {

/// A port of loopback that nobody listens at just now.
[[nodiscard]] Endpoint free_endpoint();
[[nodiscard]] Secret tcp_secret();

/// Connections of this process to itself, each end one descriptor.
[[nodiscard]] std::vector<int> connected_sockets();
/// Breaks off with a reset, as a network may: what is on its way is lost, in both directions. By
/// the bare system call, since no thread of this process is meant to have done it.
void reset(int socket);

/// Options of `rank`, all alike but for the rank.
[[nodiscard]] TcpOptions tcp_options(const Endpoint& at, int rank, int size);
/// The same, as if so many neighbours each had a host.
[[nodiscard]] TcpOptions on_hosts(TcpOptions options, int per_host);
/// tcp_options of all ranks of a job, at a free port.
[[nodiscard]] std::vector<TcpOptions> alike(int size);

using Rendezvous = Result<std::shared_ptr<TcpMesh>>;
/// What tcp_rendezvous comes to on each of `ranks`, all at the same time; by their order.
[[nodiscard]] std::vector<Rendezvous> meet(const std::vector<TcpOptions>& ranks);
/// All ranks of a job of `size`, none connected with another; `per_host` of 0: all on one host.
[[nodiscard]] std::vector<std::shared_ptr<TcpMesh>> meet(int size,
                                                         Encryption encryption = Encryption::Off,
                                                         int per_host = 0);
/// The boards of all ranks, and from here on their rings: as ranks of one host.
[[nodiscard]] std::vector<std::unique_ptr<Board>> share_host(
    const std::vector<std::shared_ptr<TcpMesh>>& ranks);
/// Polls all ranks in turns until what they have begun has ended.
void finish(const std::vector<Communicator*>& ranks);
/// All came, and a vote of all of them works.
void expect_a_job(const std::vector<Rendezvous>& came);
void expect_refused(const Rendezvous& came, Code code, const std::string& part);
/// Until each is connected with its neighbours in the ordered tree.
void connect_tree(const std::vector<std::shared_ptr<TcpMesh>>& ranks);

}  // namespace lockstep::collectives
