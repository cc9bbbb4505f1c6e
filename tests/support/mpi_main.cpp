// The main of every MPI test program: MPI before GoogleTest, output of rank 0 and of failures only,
// and one joint verdict, so that a failure on any rank fails the run on all.
#include <cstdio>

#include <gtest/gtest.h>
#include <mpi.h>

namespace {

/// Prints failures with the rank that saw them; silent otherwise.
class FailuresWithRank final : public testing::EmptyTestEventListener {
 public:
  explicit FailuresWithRank(int rank) : rank_(rank) {}
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "[rank %d] %s:%d: %s\n", rank_,
                 result.file_name() ? result.file_name() : "?", result.line_number(),
                 result.message());
  }

 private:
  int rank_;
};

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  testing::InitGoogleTest(&argc, argv);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (rank != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new FailuresWithRank(rank));
  int failed = RUN_ALL_TESTS() != 0 || testing::UnitTest::GetInstance()->test_to_run_count() == 0;
  if (testing::UnitTest::GetInstance()->skipped_test_count() > 0) failed = 1;
  int any = 0;
  MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return any;
}
