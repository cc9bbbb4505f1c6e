// Run by `lockstep doctor` under mpirun: checks that reductions keep rank order on this machine.
// Tuned algorithms of Open MPI can silently break this order for an operation that does not
// commute. Exit code 0, or 3 if the order is broken.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <mpi.h>

#include <lockstep/collectives/mpi.h>
#include <lockstep/collectives/tree.h>

namespace {

using lockstep::Bytes;

/// Product of 2x2 matrices modulo 2^64: associative, not commutative.
void multiply(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const std::uint64_t*>(in);
  auto* b = static_cast<std::uint64_t*>(inout);
  for (int i = 0; i < *count; ++i, a += 4, b += 4) {
    const std::uint64_t product[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
                                      a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
    std::copy(product, product + 4, b);
  }
}

void matrix_of(int rank, std::uint64_t* m) {
  m[0] = static_cast<std::uint64_t>(rank) + 2, m[1] = 1,
  m[2] = static_cast<std::uint64_t>(rank) * 3 + 1, m[3] = 5;
}

/// Reduces a thousand products at once: long enough for the algorithms that split messages.
bool mpi_keeps_order(int rank, int size) {
  constexpr std::size_t kCount = 1000;
  std::vector<std::uint64_t> mine(4 * kCount), reduced(4 * kCount), all(4 * kCount);
  std::uint64_t expected[4] = {1, 0, 0, 1};
  int one = 1;
  for (int r = size - 1; r >= 0; --r) {
    matrix_of(r, mine.data());
    multiply(mine.data(), expected, &one, nullptr);
  }
  for (std::size_t i = 0; i < kCount; ++i) matrix_of(rank, &mine[4 * i]);
  MPI_Datatype matrix = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(4, MPI_UINT64_T, &matrix);
  MPI_Type_commit(&matrix);
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(multiply, 0, &op);
  MPI_Reduce(mine.data(), reduced.data(), kCount, matrix, op, 0, MPI_COMM_WORLD);
  MPI_Allreduce(mine.data(), all.data(), kCount, matrix, op, MPI_COMM_WORLD);
  MPI_Op_free(&op);
  MPI_Type_free(&matrix);
  const auto right = [&](const std::vector<std::uint64_t>& products) {
    for (std::size_t i = 0; i < products.size(); ++i)
      if (products[i] != expected[i % 4]) return false;
    return true;
  };
  return right(all) && (rank != 0 || right(reduced));
}

bool tree_keeps_order() {
  auto group = lockstep::collectives::mpi_communicator(nullptr, {});
  if (!group) return false;
  const int rank = (*group)->rank().value, size = (*group)->size();
  lockstep::collectives::TreeRound round({rank}, size, Bytes{static_cast<std::byte>(rank)},
                                         [](auto lower, auto higher) {
                                           Bytes both(lower.begin(), lower.end());
                                           both.insert(both.end(), higher.begin(), higher.end());
                                           return both;
                                         });
  if (!(*group)->run(round)) return false;
  for (int r = 0; r < size; ++r)
    if (round.result().size() != static_cast<std::size_t>(size) ||
        round.result()[static_cast<std::size_t>(r)] != static_cast<std::byte>(r))
      return false;
  return true;
}

}  // namespace

int main() {
  auto session = lockstep::collectives::MpiSession::open();
  if (!session) return 7;
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int broken = !mpi_keeps_order(rank, size) || !tree_keeps_order();
  MPI_Allreduce(MPI_IN_PLACE, &broken, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return broken ? 3 : 0;
}
