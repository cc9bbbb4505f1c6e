// The TCP backend, for jobs that no launcher started: the processes of a job meet at an address,
// prove to each other that they know its secret, and learn where each listens; connections are
// opened between those that have something to say to each other, and opened again where they break.
// Only factories: Asio and OpenSSL stay in the .cpp files.
//
// Nothing moves by itself: the thread that uses a communicator reads and writes the connections
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
  /// Where rank 0 listens until all have come; an address of its host.
  Endpoint rendezvous;
  /// Unless empty, ranks of one host meet by this file instead, and neither `rendezvous` nor
  /// `secret` is looked at: rank 0 listens at a free port of loopback, and says there at which, and
  /// with which secret. It goes when all have come. What an earlier job has left there misleads
  /// nobody.
  std::string file{};
  Rank rank;
  int size = 1;
  /// Shared by the processes of the job, and by nobody else; kSecretBytes or more.
  Secret secret;
  /// On or Off, the same on all ranks; see encryption_to().
  Encryption encryption = Encryption::Off;
  /// Compared between the ranks; see RendezvousMembers.
  std::string job, build;
  /// The same on ranks that share memory, and on no others.
  std::uint64_t host_id = lockstep::host_id();
  /// How long the ranks may take to come.
  Duration patience = std::chrono::seconds(300);
  /// How long a peer may be out of reach before it counts as lost: its system takes no connection.
  /// One whose process has ended is lost at once; one whose system answers may be suspended.
  Duration out_of_reach = std::chrono::seconds(60);
  /// The longest message of a peer that is believed.
  std::size_t longest_message = std::size_t{1} << 36;
};

/// What a process has with all others of its job. Shared by its communicators. Its end
/// announces a clean exit to the peers: the end of this process after that is no loss to them. Any
/// thread may call tell(); all else belongs to one.
class TcpMesh;

/// Collective: meets the others. Ranks may come in any order. Errors: Stuck (who has not come, or
/// cannot be reached, in time), Version (another secret, protocol or build, naming both sides),
/// BadInput (another world size or job, a rank that is there already), Environment (no address to
/// listen at, no descriptors).
[[nodiscard]] Result<std::shared_ptr<TcpMesh>> tcp_rendezvous(const TcpOptions& options);

/// Collective, before any communicator of the mesh is used. The progress board: shared memory among
/// the ranks of each host. Beside it, where there is memory for them, stand the rings by which
/// these ranks speak from here on. All names are taken away again before this returns. Errors:
/// Environment, Stuck (a rank of this host does not answer).
[[nodiscard]] Result<std::unique_ptr<Board>> tcp_board(TcpMesh& mesh, Duration patience);

/// Tells all peers that the job is over and why, as far as they can be told within two seconds of a
/// connection that stands, and five where it has to be opened again. For WatchOptions::tell.
void tcp_tell(TcpMesh& mesh, const Status& verdict);

/// What every operation of the mesh comes to from now on; nullopt: nothing has failed. Any thread.
[[nodiscard]] std::optional<Status> tcp_failure(const TcpMesh& mesh);

/// This rank has come to the end of the job, as all have, and says nothing more. Stays until the
/// others have what it said, or are gone, as long as tcp_tell() does at most. The mesh is not used
/// again.
void tcp_finish(TcpMesh& mesh);

/// Announces a clean exit before the end of the job: whoever waits for this rank is told that it
/// will not come. Then hears the others out, so that nothing which was sent to them is lost, until
/// all have announced theirs or are gone, or `patience` is over, and finishes. The mesh is not used
/// again.
void tcp_leave(TcpMesh& mesh, Duration patience);

/// Over all ranks. A peer that is gone ends the job: through the watch if there is one, else as the
/// error of every operation (RankLost); so does a verdict of a peer, with its own code.
[[nodiscard]] Result<std::unique_ptr<Communicator>> tcp_communicator(std::shared_ptr<TcpMesh> mesh,
                                                                     Watch* watch);

/// Over `members` only, each rank numbered by its place among them, in errors by its number in the
/// job. `group` tells groups apart, here and on the board; not kWorldGroup. Not collective.
/// Errors: BadInput (this rank is no member).
[[nodiscard]] Result<std::unique_ptr<Communicator>> tcp_group(std::shared_ptr<TcpMesh> mesh,
                                                              Watch* watch, const RankSet& members,
                                                              std::uint64_t group,
                                                              std::string_view name);

}  // namespace lockstep::collectives
