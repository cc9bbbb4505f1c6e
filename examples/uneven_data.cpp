// Ranks with different numbers of batches; one rank has no batch. A linear model is fitted twice,
// once with uneven data and once with the same lines spread evenly. Both give the same losses,
// because every loss is a sum over all ranks divided by a count over all ranks.
//
//   mpirun -n 4 uneven_data     rank r has 2r batches; prints both losses of every step
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

#include <lockstep/worker/job.h>

using namespace lockstep::worker;
using lockstep::Result;

constexpr std::int64_t kWidth = 3, kLines = 5;

struct Input {
  Tensor x, y, weights;  // [lines, width], [lines], [width]
  template <class V>
  void fields(V& v) {
    v("x", x), v("y", y), v("weights", weights);
  }
};

struct Output {
  Tensor loss, weights;
  template <class V>
  void fields(V& v) {
    v("loss", loss), v("weights", weights);
  }
};

/// One step of gradient descent on the mean square error over all ranks' lines.
Output step(Input in) {
  const Tensor guess = reshape(matmul(in.x, reshape(in.weights, {kWidth, 1})), {-1});
  const Tensor error = guess - in.y;
  const Tensor lines = cast(all_reduce(scalar(in.x.size(0))), lockstep::DType::F64);
  const Tensor mine = sum(error * error) / lines;
  const Tensor gradient = all_reduce(grad(mine, {in.weights})[0]);
  return {all_reduce(mine), in.weights - 0.1 * gradient};
}

/// Lines [first, first + count) of batch `b` of rank `r`; no lines for an empty batch.
Input lines(int r, int b, std::int64_t first, std::int64_t count) {
  Array x(lockstep::DType::F64, {count, kWidth}), y(lockstep::DType::F64, {count});
  for (std::int64_t i = 0; i < count; ++i) {
    double target = 0;
    for (std::int64_t k = 0; k < kWidth; ++k) {
      const double value = std::sin(static_cast<double>(100 * r + 17 * b + 3 * (first + i) + k));
      x.set(i * kWidth + k, value);
      target += value * static_cast<double>(k + 1);
    }
    y.set(i, target);
  }
  return {x, y, {}};
}

/// The lines of all parts as one batch; without parts, an empty batch.
Input join(const std::vector<Input>& parts) {
  std::int64_t count = 0;
  for (const Input& part : parts) count += part.y.array().elements();
  Array x(lockstep::DType::F64, {count, kWidth}), y(lockstep::DType::F64, {count});
  std::int64_t at = 0;
  for (const Input& part : parts)
    for (std::int64_t i = 0; i < part.y.array().elements(); ++i, ++at) {
      y.set(at, part.y.array().at(i));
      for (std::int64_t k = 0; k < kWidth; ++k)
        x.set(at * kWidth + k, part.x.array().at(i * kWidth + k));
    }
  return {x, y, {}};
}

/// The losses of all steps. `evenly`: every rank takes its share of every batch.
Result<std::vector<double>> train(Job& job, bool evenly) {
  auto compiled = job.frame<Input, Output>(evenly ? "even" : "uneven", step);
  const int n = job.size();
  Tensor weights = Array::zeros(lockstep::DType::F64, {kWidth});
  std::vector<double> losses;
  for (int s = 0;; ++s) {
    std::vector<Input> parts;
    for (int r = 0; r < n; ++r) {
      if (s >= 2 * r) continue;  // rank r has no data left
      const std::int64_t first = evenly ? kLines * job.rank() / n : 0;
      const std::int64_t end = evenly ? kLines * (job.rank() + 1) / n : kLines;
      if (evenly || r == job.rank()) parts.push_back(lines(r, s, first, end - first));
    }
    const auto more = job.more(!parts.empty());
    if (!more) return more.error();
    if (!*more) return losses;
    Input in = join(parts);  // without parts: an empty batch
    in.weights = weights;
    const auto out = compiled(in);
    if (!out) return out.error();
    weights = out->weights;
    losses.push_back(out->loss.array().at(0));
  }
}

int main(int argc, char** argv) {
  auto job = Job::init(&argc, &argv);
  if (!job) return Job::report(job.error());
  return (*job)->run([&]() -> Result<void> {
    const auto uneven = train(**job, false), even = train(**job, true);
    if (!uneven) return uneven.error();
    if (!even) return even.error();
    bool same = uneven->size() == even->size();
    for (std::size_t s = 0; same && s < even->size(); ++s) {
      same = std::abs((*uneven)[s] - (*even)[s]) <= 1e-9 * (*even)[s];
      if ((*job)->rank() == 0)
        std::printf("step %zu: loss %.12g uneven, %.12g even\n", s, (*uneven)[s], (*even)[s]);
    }
    if ((*job)->rank() == 0) std::printf(same ? "the losses are the same\n" : "losses differ\n");
    if (same) return {};
    return lockstep::Status{lockstep::Code::Internal, "uneven data gave other losses", {}, {}};
  });
}
