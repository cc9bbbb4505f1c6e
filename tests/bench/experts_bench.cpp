// A layer of experts, one per rank, with its gradients: rows routed with experts of a fixed
// capacity beside rows routed by counts that are exchanged and read back. Both see the same rows,
// of which no expert gets more than its capacity.
//
// usage: scripts/mpirun -n RANKS experts_bench [--batches N] [--out FILE]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "interleaved.h"
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <lockstep/worker/job.h>
#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/bounded/dispatch.h>
#include <lockstep/worker/tensor/language/collective_ops.h>
#include <lockstep/worker/tensor/language/selection_ops.h>

namespace {

using namespace lockstep::worker;  // NOLINT: a bench reads like a user's program
using lockstep::DType;
using lockstep::Result;
using lockstep::bench::Pair;

constexpr std::int64_t kWidth = 64;

struct Routed {
  Tensor w, x, expert;  // [1, 64, 64], [R, 64], i64 [R]
  template <class V>
  void fields(V& v) {
    v("expert", expert), v("w", w), v("x", x);
  }
};

struct Answer {
  Tensor gw, gx, y;
  template <class V>
  void fields(V& v) {
    v("gw", gw), v("gx", gx), v("y", y);
  }
};

Answer with_gradients(const Routed& in, const Tensor& y) {
  const std::vector<Tensor> back = grad(sum(y * y), {in.w, in.x});
  return {back[0], back[1], y};
}

Answer counted(const Routed& in, int ranks) {
  const Tensor order = argsort(in.expert), mine = bincount(in.expert, ranks);
  const Sizes there = tolist(mine, Values::NonNegative);
  const Sizes here = tolist(all_to_all_single(mine), Values::NonNegative);
  const Tensor rows = all_to_all_single(index_select(in.x, order), here, there);
  const Tensor made = relu(matmul(rows, squeeze(in.w, 0)));
  const Tensor sorted = all_to_all_single(made, there, here);
  return with_gradients(in, index_add(in.x.size(0), order, sorted));
}

Answer bounded(const Routed& in, int ranks, std::int64_t capacity) {
  const Dispatched sent = dispatch(in.x, in.expert, ranks, at_most(capacity));
  const Received here = send_to_owners(sent);
  return with_gradients(in, combine(send_back(relu(matmul(here.rows, in.w))), sent.place));
}

/// Rows to random experts, no more than `capacity` to one.
Routed routed(int rank, int ranks, std::int64_t rows, std::int64_t capacity) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank));
  std::vector<std::int64_t> room(static_cast<std::size_t>(ranks), capacity);
  Array experts(DType::I64, {rows});
  for (std::int64_t r = 0; r < rows; ++r) {
    std::size_t to = random() % room.size();
    while (room[to] == 0) to = (to + 1) % room.size();
    --room[to];
    experts.set(r, static_cast<double>(to));
  }
  const auto numbers = [&](const std::vector<std::int64_t>& sizes) {
    Array out(DType::F32, sizes);
    for (std::int64_t i = 0; i < out.elements(); ++i)
      out.set(i, static_cast<double>(random() % 1000) / 4000 - 0.125);
    return out;
  };
  return {numbers({1, kWidth, kWidth}), numbers({rows, kWidth}), experts};
}

void add_pair(std::vector<Pair>& pairs, Job& job, std::int64_t rows, double factor) {
  const int ranks = job.size();
  const auto capacity = static_cast<std::int64_t>(factor * static_cast<double>(rows / ranks));
  const Routed in = routed(job.rank(), ranks, rows, capacity);
  const auto side = [&](const std::string& way, const auto& layer) {
    const std::string name = fmt::format("{}_{}_{}", way, rows, capacity);
    auto frame =
        std::make_shared<CompiledFrame<Routed, Answer>>(job.frame<Routed, Answer>(name, layer));
    return [frame, in] {
      if (auto out = (*frame)(in); !out)
        std::fprintf(stderr, "%s\n", out.error().text().c_str()), std::exit(1);
    };
  };
  pairs.push_back(
      {.name = fmt::format("experts/{} rows/capacity {} of the mean", rows, factor),
       .calls = rows > 1000 ? 4 : 40,
       .floor = side("counted", [=](Routed in) { return counted(in, ranks); }),
       .ours = side("bounded", [=](Routed in) { return bounded(in, ranks, capacity); })});
}

}  // namespace

int main(int argc, char** argv) {
  int batches = 21;
  std::string out;
  CLI::App app("Experts of a fixed capacity beside counted ones");
  app.add_option("--batches", batches, "Pairs of batches")->check(CLI::Range(3, 10000));
  app.add_option("--out", out, "JSON file");
  CLI11_PARSE(app, argc, argv);

  auto job = Job::init(&argc, &argv, {.decision = {}, .settings = {}, .summary = false});
  if (!job) return Job::report(job.error());
  return (*job)->run([&]() -> Result<void> {
    std::vector<Pair> pairs;
    for (const std::int64_t rows : {256, 8192})
      for (const double factor : {1.1, 1.5, 2.0}) add_pair(pairs, **job, rows, factor);
    if (!lockstep::bench::run_pairs("experts_bench", pairs, batches, out))
      return lockstep::Status{lockstep::Code::Environment, "cannot write " + out, {}, {}};
    return {};
  });
}
