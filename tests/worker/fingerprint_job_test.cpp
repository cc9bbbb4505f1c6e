// The same programs have the same graphs on any number of ranks, wherever their memory lies: the
// fingerprints that ranks compare are those of graph_fingerprints.txt. It is written anew where
// rules change on purpose.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "job_ranks.h"
#include "shapes/shuffled_allocation.h"
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace lockstep::worker::fingerprint_job_test {
namespace {

struct In {
  Tensor x, w, mask, n;
  SymFloat rate;
  SymInt times;
  template <class V>
  void fields(V& v) {
    v("x", x), v("w", w), v("mask", mask), v("n", n), v("rate", rate), v("times", times);
  }
};

using Program = Y (*)(const In&);

/// Sizes: branches, products, remainders, facts that follow from checks.
Y sizes(const In& in) {
  const SymInt rows = in.x.size(0), columns = in.x.size(1);
  check(rows % 1 == 0);
  Tensor y = in.x;
  if (rows * columns > 6 && min(rows, columns) >= 2) y = y * 2.0;
  if ((rows + 3) / 2 >= 2) y = y + 1.0;
  y = reshape(y, {rows * columns});
  const SymInt half = rows * columns / 2;
  return Y{sum(slice(y, 0, half, rows * columns - half)) * (in.rate * 0.5)};
}

/// Counts that exist only when the graph runs.
Y counts(const In& in) {
  const Tensor chosen = in.x[in.mask];
  check(chosen.size(0) <= in.x.size(0));
  const Tensor twice = repeat_interleave(chosen, 2, 0);
  return Y{sum(twice) + sum(cast(nonzero(in.mask), DType::F64))};
}

/// Values that are known before the graph runs, and what the group says.
Y hosts(const In& in) {
  Tensor y = sum(in.x);
  if (in.rate > 0.25) y = y * in.rate;
  if (item(in.n) > 2) y = y + 1.0;
  if (group_any(in.x.size(0) > 3)) y = y * 3.0;
  return Y{all_reduce(y)};
}

/// A forward and a backward pass.
Y trains(const In& in) {
  const Tensor y = matmul(in.x, in.w), loss = mean(y * y);
  return Y{all_reduce(sum(grad(loss, {in.w}).at(0)))};
}

const std::map<std::string, Program>& programs() {
  static const std::map<std::string, Program> all{
      {"sizes", sizes}, {"counts", counts}, {"hosts", hosts}, {"trains", trains}};
  return all;
}

class FingerprintJob : public JobRanks {
 protected:
  [[nodiscard]] In inputs() const {
    const std::int64_t rows = 4 + rank;
    Array mask(DType::Bool, {rows});
    for (std::int64_t i = 0; i < rows; ++i) mask.set(i, static_cast<double>(i % 2));
    Array n(DType::I64, {});
    *n.data_as<std::int64_t>() = 3 + rank;
    In in{filled({rows, 3}, 1.5), filled({3, 2}, 0.5), mask, n, 0.5 + rank, 7};
    mark_dynamic(in.x, 0), mark_dynamic(in.mask, 0);
    return in;
  }
  /// By frame, as this rank's record has them.
  static std::map<std::string, std::string> recorded(const std::string& file) {
    std::map<std::string, std::string> out;
    std::ifstream lines(file);
    std::string frame;
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      if (!json.contains("event")) continue;
      if (json["event"] == "call") frame = json["key"]["frame"];
      if (json["event"] == "trace") out[frame] = json["graph"];
    }
    return out;
  }
};

TEST_F(FingerprintJob, AnyNumberOfRanks_AnyMemory_GiveTheSameGraphs) {
  const std::string record =
      testing::TempDir() + "lockstep-fingerprints-" + std::to_string(getppid());
  Settings settings = quiet();
  settings.record_dir = record;
  start({}, settings);
  shuffle_allocations(static_cast<std::uint64_t>(rank) * 7919 + 17);  // its own on each rank
  for (const auto& [name, program] : programs()) {
    auto step = job->frame<In, Y>(name, program);
    const auto out = step(inputs());
    ASSERT_TRUE(out) << name << ": " << out.error().text();
  }
  shuffle_allocations(0);
  ASSERT_TRUE(finish());
  job.reset();
  char file[32];
  std::snprintf(file, sizeof file, "/rank-%05d.jsonl", rank);
  const auto mine = recorded(record + file);
  std::map<std::string, std::string> expected;
  std::ifstream golden(GRAPH_FINGERPRINTS);
  for (std::string name, print; golden >> name >> print;) expected[name] = print;
  EXPECT_EQ(mine, expected) << "where a rule was changed on purpose, write " << GRAPH_FINGERPRINTS
                            << " anew";
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::filesystem::remove_all(record);
}

}  // namespace
}  // namespace lockstep::worker::fingerprint_job_test
