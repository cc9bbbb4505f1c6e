// The MPI backend. Only factories: mpi.h stays in mpi.cpp and its neighbours. MPI communicators are
// passed as a pointer to an MPI_Comm (nullptr: MPI_COMM_WORLD). Built where LOCKSTEP_HAVE_MPI.
//
// Only the thread that calls these functions and the communicators they return makes MPI calls, so
// MPI may have been initialised at any thread level.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <lockstep/collectives/communicator.h>
#include <lockstep/collectives/watch.h>

namespace lockstep::collectives {

/// Initialises MPI (funneled) where nobody has, and finalises it at its end if it did so. Ends the
/// process's use of MPI: communicators go first.
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

/// What the MPI that is loaded calls itself.
[[nodiscard]] std::string mpi_library();
/// Of MPI_COMM_WORLD. Requires a session.
[[nodiscard]] int mpi_processes();

/// Collective over `comm`. The progress board of the job: shared memory among the ranks of each
/// host, its name taken away again before this returns. Errors: Environment, the same on all ranks
/// of a host.
[[nodiscard]] Result<std::unique_ptr<Board>> mpi_board(const void* comm);

struct MpiOptions {
  /// Watches the waits; nullptr: nobody does (tests, benchmarks).
  Watch* watch = nullptr;
  /// The longest payload of a control round that is believed.
  std::size_t longest_payload = std::size_t{1} << 30;
};

/// Collective over `comm`, which is duplicated twice (control, data) and otherwise left alone. An
/// MPI error ends the job: through the watch if there is one, else MPI_Abort. Errors: Environment.
[[nodiscard]] Result<std::unique_ptr<Communicator>> mpi_communicator(const void* comm,
                                                                     const MpiOptions& options);

/// Collective over `members` of `all` only; each rank in it numbered by its place among them, in
/// errors by its number in `all`. Watched as `all` is. Requires that mpi_communicator made `all`.
/// `group` tells groups of the job apart on the board, `name` in reports; not kWorldGroup.
/// Errors: BadInput (this rank is no member), Environment.
[[nodiscard]] Result<std::unique_ptr<Communicator>> mpi_group(const Communicator& all,
                                                              const RankSet& members,
                                                              std::uint64_t group,
                                                              std::string_view name);

}  // namespace lockstep::collectives
