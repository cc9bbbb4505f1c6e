// The data plane of the MPI backend: one blocking MPI collective on a communicator of its own. Used
// by mpi.cpp only.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <lockstep/collectives/communicator.h>
#include <lockstep/collectives/mpi_call.h>

namespace lockstep::collectives {

/// Runs collectives. Makes a row datatype once per dtype and row length, so that counts are rows.
/// Used by one thread.
class MpiData {
 public:
  MpiData(MPI_Comm comm, int size) : comm_(comm), size_(size) {}
  MpiData(const MpiData&) = delete;
  MpiData& operator=(const MpiData&) = delete;

  /// Checks that the counts fit into MPI's 32 bits. Errors: BadInput. Requires check() to have
  /// passed.
  [[nodiscard]] Result<void> fits(const Collective& collective) const;
  /// Runs `collective` to its end; blocks. Returns MPI's code. Requires that fits() has passed.
  [[nodiscard]] int run(const Collective& collective);
  /// Frees datatypes and operations; called before MPI ends.
  void release();

 private:
  [[nodiscard]] MPI_Datatype row(const Collective& collective);
  [[nodiscard]] int all_to_all(const Collective& collective);
  [[nodiscard]] MPI_Op operation(const Collective& collective);
  [[nodiscard]] int all_reduce(const Collective& collective);
  [[nodiscard]] int reduce_wide(const Collective& collective);
  /// Sums floats in rank order on all ranks. MPI_Allreduce's order would depend on the numbers of
  /// ranks and bytes.
  [[nodiscard]] int all_sum(const Collective& collective);
  [[nodiscard]] int reduce_scatter_sum(const Collective& collective);
  /// Sums the blocks of all ranks in scratch_, each of `elements` elements, into the first block.
  void sum_blocks(DType dtype, std::int64_t elements);
  /// Grows scratch_ to `bytes`; it never shrinks.
  void make_room(std::int64_t bytes);
  MPI_Comm comm_;
  int size_;
  std::map<std::pair<DType, std::int64_t>, MPI_Datatype> rows_;
  MPI_Op most_ = MPI_OP_NULL, least_ = MPI_OP_NULL;  // Max and Min of floats
  std::vector<std::byte> scratch_, packed_;
  std::vector<int> counts_;  // send counts, displacements, receive counts, displacements
};

}  // namespace lockstep::collectives
