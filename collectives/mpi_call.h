// What the MPI sources share, such as the text of a failed MPI call. Included by mpi*.cpp only; the
// only header that includes mpi.h.
#pragma once

#include <string>

#include <fmt/format.h>
#include <mpi.h>

#include <lockstep/collectives/base/status.h>

namespace lockstep::collectives {

/// The communicator behind the pointer that callers pass; nullptr means MPI_COMM_WORLD.
inline MPI_Comm comm_of(const void* comm) {
  return comm != nullptr ? *static_cast<const MPI_Comm*>(comm) : MPI_COMM_WORLD;
}

/// "MPI_Comm_dup failed: …"
inline std::string mpi_failure(std::string_view call, int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return fmt::format("{} failed: {}.", call,
                     std::string_view(text, static_cast<std::size_t>(length)));
}

}  // namespace lockstep::collectives
