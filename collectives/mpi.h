// The MPI backend. Declares only factories: mpi.h is included by mpi*.cpp only. MPI communicators
// are passed as a pointer to an MPI_Comm (nullptr: MPI_COMM_WORLD). Built with LOCKSTEP_HAVE_MPI.
//
// MPI calls are made only on the thread that calls these functions and uses their communicators, so
// MPI may have been initialised at any thread level.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <lockstep/collectives/communicator.h>
#include <lockstep/collectives/watch.h>

namespace lockstep::collectives {

/// Initialises MPI (MPI_THREAD_SERIALIZED), unless that is done already. The destructor finalises
/// MPI if this object has initialised it. All communicators must be destroyed before.
class MpiSession {
 public:
  /// Errors: Environment (MPI does not start, or has already been finalised).
  [[nodiscard]] static Result<MpiSession> open();
  MpiSession(MpiSession&& other) noexcept : owner_(std::exchange(other.owner_, false)) {}
  MpiSession& operator=(MpiSession&&) = delete;
  ~MpiSession();

 private:
  explicit MpiSession(bool owner) : owner_(owner) {}
  bool owner_;
};

/// Name and version of the loaded MPI, as it reports them.
[[nodiscard]] std::string mpi_library();
/// Number of processes in MPI_COMM_WORLD. Requires a session.
[[nodiscard]] int mpi_processes();

/// Collective over `comm`. Makes the progress board of the job: memory that the ranks of each host
/// share, whose name is removed before the function returns. Errors: Environment; if one rank
/// fails, all ranks do.
[[nodiscard]] Result<std::unique_ptr<Board>> mpi_board(const void* comm);

struct MpiOptions {
  /// Watches the waits; nullptr: waits are not watched (tests, benchmarks).
  Watch* watch = nullptr;
  /// Longest payload accepted in a control round, in bytes.
  std::size_t longest_payload = std::size_t{1} << 30;
};

/// Collective over `comm`, which is duplicated twice (control, data) and not used otherwise. An
/// MPI error ends the job: through the watch if there is one, else MPI_Abort. Errors: Environment.
[[nodiscard]] Result<std::unique_ptr<Communicator>> mpi_communicator(const void* comm,
                                                                     const MpiOptions& options);

/// Collective over `members` of `all` only. Ranks are numbered by their place in `members`; errors
/// name them by their number in `all`. The group is watched as `all` is. Requires that
/// mpi_communicator made `all`. `group` (not kWorldGroup) identifies the group on the board, `name`
/// in reports. Errors: BadInput (this rank is no member), Environment.
[[nodiscard]] Result<std::unique_ptr<Communicator>> mpi_group(const Communicator& all,
                                                              const RankSet& members,
                                                              std::uint64_t group,
                                                              std::string_view name);

}  // namespace lockstep::collectives
