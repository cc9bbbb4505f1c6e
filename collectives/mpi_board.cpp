#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <lockstep/collectives/mpi.h>
#include <lockstep/collectives/mpi_call.h>

namespace lockstep::collectives {
namespace {

using Name = std::array<char, 128>;

/// The lowest rank of this host makes the board and sends its name to the host's other ranks.
Result<std::unique_ptr<Board>> make_or_open(MPI_Comm host, int size) {
  int rank = 0;
  MPI_Comm_rank(host, &rank);
  Name name{};
  Result<std::unique_ptr<Board>> board =
      environment_error("The lowest rank of this host could not make the progress board.");
  std::string text;
  if (rank == 0) {
    board = Board::create(size, text);
    if (board) std::memcpy(name.data(), text.data(), std::min(text.size(), name.size() - 1));
  }
  MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, host);
  if (rank != 0 && name[0] != '\0') board = Board::open(name.data(), size);
  MPI_Barrier(host);
  if (rank == 0 && name[0] != '\0') Board::unlink(name.data());
  return board;
}

}  // namespace

Result<std::unique_ptr<Board>> mpi_board(const void* comm) {
  MPI_Comm job = MPI_COMM_NULL, host = MPI_COMM_NULL;
  if (const int rc = MPI_Comm_dup(comm_of(comm), &job); rc != MPI_SUCCESS)
    return environment_error(mpi_failure("MPI_Comm_dup", rc));
  int rank = 0, size = 0;
  MPI_Comm_rank(job, &rank);
  MPI_Comm_size(job, &size);
  std::vector<std::uint64_t> hosts(static_cast<std::size_t>(size));
  const std::uint64_t mine = host_id();
  MPI_Allgather(&mine, 1, MPI_UINT64_T, hosts.data(), 1, MPI_UINT64_T, job);
  const auto lowest = std::find(hosts.begin(), hosts.end(), mine) - hosts.begin();
  MPI_Comm_split(job, static_cast<int>(lowest), rank, &host);
  auto board = make_or_open(host, size);
  int ok = board.has_value(), all_ok = 0;
  MPI_Allreduce(&ok, &all_ok, 1, MPI_INT, MPI_MIN, job);
  MPI_Comm_free(&host);
  MPI_Comm_free(&job);
  if (board && !all_ok)
    return environment_error("Another rank could not open the progress board; see its message.");
  return board;
}

Result<MpiSession> MpiSession::open() {
  int initialised = 0, finalised = 0, provided = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  if (finalised)
    return environment_error("MPI has already been finalised in this process; start anew.");
  if (initialised) return MpiSession(false);
  if (const int rc = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
      rc != MPI_SUCCESS)
    return environment_error(mpi_failure("MPI_Init_thread", rc));
  return MpiSession(true);
}

MpiSession::~MpiSession() {
  if (owner_) MPI_Finalize();
}

}  // namespace lockstep::collectives
