// The TCP backend, for jobs that no launcher started: the processes of a job meet at an address,
// prove to each other that they know the job's secret, and learn at which address each listens.
// Connections are opened between ranks that exchange messages, and opened again when they break.
// Declares only factories, so that neither Asio nor OpenSSL is included.
//
// The backend has no thread: the thread that uses a communicator reads and writes the connections
// while it polls or waits.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <lockstep/collectives/communicator.h>
#include <lockstep/collectives/watch.h>
#include <lockstep/collectives/wire/encryption.h>
#include <lockstep/collectives/wire/endpoint.h>
#include <lockstep/collectives/wire/secret.h>

namespace lockstep::collectives {

struct TcpOptions {
  /// Address of rank 0's host at which rank 0 listens until all ranks have joined.
  Endpoint rendezvous;
  /// If not empty, ranks of one host meet by this file, and `rendezvous` and `secret` are ignored.
  /// Rank 0 listens at a free port of loopback and writes the port and a new secret into the file.
  /// The file is removed at the end of the rendezvous. A file left by an earlier job does no harm.
  std::string file{};
  Rank rank;
  int size = 1;
  /// A secret that only the processes of the job know, of kSecretBytes or more.
  Secret secret;
  /// On or Off, the same on all ranks; see encryption_to().
  Encryption encryption = Encryption::Off;
  /// Compared between the ranks; see RendezvousMembers.
  std::string job, build;
  /// Equal on ranks of one host, which share memory; different between hosts.
  std::uint64_t host_id = lockstep::host_id();
  /// Time within which all ranks have to join.
  Duration patience = std::chrono::seconds(300);
  /// A peer counts as lost if its system accepts no connection for this long. A peer whose process
  /// has ended is lost at once. A peer whose system accepts connections is not lost: it may be
  /// suspended.
  Duration out_of_reach = std::chrono::seconds(60);
  /// Longest message accepted from a peer, in bytes.
  std::size_t longest_message = std::size_t{1} << 36;
};

/// Connects a process with all others of its job; shared by its communicators. The destructor
/// announces a clean exit to the peers, which then do not report this process as lost. Any thread
/// may call tcp_failure(), tcp_tell(), tcp_finish() and tcp_leave(); all other functions belong to
/// one thread.
class TcpMesh;

/// Collective: meets the other ranks, which may start in any order. Errors: Stuck (names the ranks
/// that have not joined in time, or cannot be reached), Version (names both sides, which differ in
/// secret, protocol or build), BadInput (another world size or job, or a rank that has joined
/// already), Environment (no address to listen at, or no descriptors).
[[nodiscard]] Result<std::shared_ptr<TcpMesh>> tcp_rendezvous(const TcpOptions& options);

/// Collective, before any communicator of the mesh is used. Returns the progress board: memory that
/// the ranks of each host share. Also sets up the rings, if there is memory for them; the ranks of
/// the host send through these from here on. The names of board and rings are removed before the
/// function returns. Errors: Environment, Stuck (a rank of this host does not answer).
[[nodiscard]] Result<std::unique_ptr<Board>> tcp_board(TcpMesh& mesh, Duration patience);

/// Sends `verdict` to all peers and waits until they have it: at most two seconds over an open
/// connection, and five if the connection has to be reopened. For WatchOptions::tell.
void tcp_tell(TcpMesh& mesh, const Status& verdict);

/// Error of every operation of the mesh from now on; nullopt: nothing has failed.
[[nodiscard]] std::optional<Status> tcp_failure(const TcpMesh& mesh);

/// Called at the end of the job, once all ranks have reached it. Waits until the peers have this
/// rank's messages or are gone, at most as long as tcp_tell(). The mesh must not be used again.
void tcp_finish(TcpMesh& mesh);

/// Announces a clean exit before the end of the job: ranks that wait for this rank fail with Stuck.
/// Then keeps the connections until all ranks have left or are gone, or `patience` is over, so that
/// no message to them is lost. The mesh must not be used again.
void tcp_leave(TcpMesh& mesh, Duration patience);

/// Communicator over all ranks. A peer that is gone ends the job: through the watch if there is
/// one, else as the error of every operation (RankLost). A peer's verdict ends the job in the same
/// way, with the verdict's code.
[[nodiscard]] Result<std::unique_ptr<Communicator>> tcp_communicator(std::shared_ptr<TcpMesh> mesh,
                                                                     Watch* watch);

/// Communicator over `members` only. Ranks are numbered by their place in `members`; errors name
/// them by their number in the job. `group` identifies the group, here and on the board; it is not
/// kWorldGroup. Not collective. Errors: BadInput (this rank is no member).
[[nodiscard]] Result<std::unique_ptr<Communicator>> tcp_group(std::shared_ptr<TcpMesh> mesh,
                                                              Watch* watch, const RankSet& members,
                                                              std::uint64_t group,
                                                              std::string_view name);

}  // namespace lockstep::collectives
