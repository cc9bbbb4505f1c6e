// A job over all ranks of an MPI test program, and small inputs for its frames.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <mpi.h>

#include <lockstep/worker/job.h>

namespace lockstep::worker {

/// One tensor as input, named x.
struct X {
  Tensor x;
  template <class V>
  void fields(V& v) {
    v("x", x);
  }
};

/// One tensor as output, named y.
struct Y {
  Tensor y;
  template <class V>
  void fields(V& v) {
    v("y", y);
  }
};

/// A tensor of f64, every element `value`.
inline Tensor filled(std::vector<std::int64_t> sizes, double value) {
  Array array(DType::F64, std::move(sizes));
  for (std::int64_t i = 0; i < array.elements(); ++i) array.set(i, value);
  return array;
}

inline Tensor integers(const std::vector<std::int64_t>& values) {
  Array array(DType::I64, {static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), array.data_as<std::int64_t>());
  return array;
}

inline double only(const Tensor& tensor) { return tensor.array().at(0); }

/// Makes a job per test, silent, with the artifact cache of the build tree.
class JobRanks : public testing::Test {
 protected:
  void SetUp() override { start({}); }

  /// Silent, with the artifact cache of the build tree.
  static Settings quiet() {
    Settings settings;
    settings.log = {"off"};
    settings.cache_dir = TEST_CACHE;
    return settings;
  }

  void start(DecisionConfig decision, const Settings& settings = quiet()) {
    job.reset();
    auto made =
        Job::attach(MPI_COMM_WORLD, {.decision = decision, .settings = settings, .summary = false});
    ASSERT_TRUE(made) << made.error().text();
    job = std::move(*made);
    size = job->size();
    rank = job->rank();
    last = rank == size - 1;
  }

  /// Expects that every rank has exactly this error.
  void expect_joint(const Status& mine) const {
    std::string text = mine.text();
    int length = static_cast<int>(text.size());
    MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD);
    std::string first = text;
    first.resize(static_cast<std::size_t>(length));
    MPI_Bcast(first.data(), length, MPI_CHAR, 0, MPI_COMM_WORLD);
    EXPECT_EQ(text, first) << "rank 0 has another error";
  }
  /// "rank 3": the last rank, on which tests make things go wrong.
  [[nodiscard]] std::string last_text() const { return "rank " + std::to_string(size - 1); }
  [[nodiscard]] bool finish() const {
    const auto ended = job->finish();
    if (!ended) ADD_FAILURE() << ended.error().text();
    return static_cast<bool>(ended);
  }

  std::unique_ptr<Job> job;
  int rank = 0, size = 1;
  bool last = false;
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace lockstep::worker
