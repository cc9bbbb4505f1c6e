// A small training program that ranks of a job and workers of a controller run alike.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/worker/job.h>

namespace lockstep::worker::test {

struct Layer {
  Tensor weight, bias;
  template <class V>
  void fields(V& v) {
    v("weight", weight), v("bias", bias);
  }
};
struct StepIn {
  Tensor x, y;
  std::vector<Layer> layers;
  SymFloat rate = 0.1;
  SymInt seen = 0;
  bool squared = true;
  template <class V>
  void fields(V& v) {
    v("x", x), v("y", y), v("layers", layers), v("rate", rate), v("seen", seen);
    v("squared", squared);
  }
};
struct StepOut {
  Tensor loss;
  std::vector<Layer> layers;
  template <class V>
  void fields(V& v) {
    v("loss", loss), v("layers", layers);
  }
};

/// Two layers, a loss over the rows of all ranks, and a step down its gradient. Branches on a
/// float, on a bool and on sizes of any and of all ranks.
inline StepOut training_step(StepIn in) {
  const Tensor h = tanh(matmul(in.x, in.layers[0].weight) + in.layers[0].bias);
  const Tensor off = matmul(h, in.layers[1].weight) + in.layers[1].bias - in.y;
  const Tensor rows = all_reduce(sum(in.y * 0.0 + 1.0));
  Tensor loss = in.squared ? sum(off * off) : sum(abs(off));
  const std::vector<Tensor> of{in.layers[0].weight, in.layers[0].bias, in.layers[1].weight,
                               in.layers[1].bias};
  const std::vector<Tensor> gradients = grad(loss, of);
  Tensor rate = in.rate.tensor();
  if (in.rate > 0.05) rate = rate * 0.5;
  if (group_any(in.x.size(0) > 6)) rate = rate * 0.75;
  if (group_all(in.x.size(0) > 100)) rate = rate * 1.5;
  std::vector<Tensor> next;
  for (std::size_t i = 0; i < of.size(); ++i)
    next.push_back(of[i] - all_reduce(gradients[i]) / rows * rate);
  return {all_reduce(loss) / rows + in.seen * 0.0, {{next[0], next[1]}, {next[2], next[3]}}};
}

inline constexpr int kSteps = 12;

/// Numbers that any process makes alike.
inline Array drawn(std::vector<std::int64_t> sizes, std::uint64_t seed) {
  Array out(DType::F64, std::move(sizes));
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    out.set(i, static_cast<double>(seed >> 40) / 16777216.0 - 0.5);
  }
  return out;
}
/// Rows differ between ranks and steps; from step 6 on some rank has one.
inline std::int64_t rows_of(int rank, int step) {
  return step == 6 && rank == 0 ? 1 : 2 + (3 * rank + 5 * step) % 7;
}
inline Array x_of(int rank, int step) {
  return drawn({rows_of(rank, step), 3}, 1000U + 17U * static_cast<unsigned>(rank * 100 + step));
}
inline Array y_of(int rank, int step) {
  return drawn({rows_of(rank, step), 1}, 2000U + 13U * static_cast<unsigned>(rank * 100 + step));
}
inline std::vector<Layer> first_layers() {
  return {{drawn({3, 4}, 1), drawn({4}, 2)}, {drawn({4, 1}, 3), drawn({1}, 4)}};
}
inline double rate_of(int step) { return step < 8 ? 0.1 : 0.04; }

}  // namespace lockstep::worker::test
