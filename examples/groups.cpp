// Overlapping groups: four ranks train one small network, as a grid of two by two. A tensor group
// splits the network's hidden units, a data group splits the rows of the batch, and one frame has
// collectives over both groups. The number of rows changes with every step and differs between the
// ranks of a data group. Within a tensor group it must be equal, which lockstep checks. One program
// serves all steps.
//
//   mpirun -n 4 groups [--device cuda]
//
// prints the loss of each step, and the loss of the same network trained in plain loops; exit code
// 7 if they differ. On GPUs each group has a NCCL communicator, and the kernels between two
// collectives are captured and launched as one CUDA graph.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

#include <lockstep/worker/job.h>

using namespace lockstep::worker;
using lockstep::DType;
using lockstep::RankSet;
using lockstep::Result;
using lockstep::collectives::Reduce;

namespace {

constexpr std::int64_t kIn = 3, kHidden = 4, kSteps = 8;
constexpr double kRate = 0.05;

struct Input {
  Tensor x, y, w1, w2;  // [rows, in], [rows], [in, my hidden], [my hidden, 1]
  template <class V>
  void fields(V& v) {
    v("x", x), v("y", y), v("w1", w1), v("w2", w2);
  }
};

struct Output {
  Tensor loss, w1, w2;
  template <class V>
  void fields(V& v) {
    v("loss", loss), v("w1", w1), v("w2", w2);
  }
};

Output train(const Input& in, const Group& tensor, const Group& data) {
  const Tensor hidden = relu(matmul(in.x, in.w1));  // this rank's hidden units
  const Tensor out = all_reduce(matmul(hidden, in.w2), Reduce::Sum, tensor);
  const Tensor miss = reshape(out, {in.x.size(0)}) - in.y;
  // Each rank of a tensor group has the whole loss of its rows, so it contributes only its share.
  const Tensor loss = sum(miss * miss) / static_cast<double>(tensor.size());
  const std::vector<Tensor> grads = grad(loss, {in.w1, in.w2});
  const Tensor rows = all_reduce(cast(scalar(in.x.size(0)), DType::F64), Reduce::Sum, data);
  return {all_reduce(loss) / rows, in.w1 - all_reduce(grads[0], Reduce::Sum, data) / rows * kRate,
          in.w2 - all_reduce(grads[1], Reduce::Sum, data) / rows * kRate};
}

std::int64_t rows_of(int part, std::int64_t step) { return 3 + (2 * step + 4 * part) % 7; }
double feature(int part, std::int64_t step, std::int64_t row, std::int64_t i) {
  return std::sin(static_cast<double>(1 + part + 7 * step + 3 * row + 5 * i));
}
double target(const double* x) { return x[0] - 0.5 * x[1] * x[2]; }
double weight(std::int64_t i, std::int64_t k) {
  return 0.4 * std::cos(static_cast<double>(i + 3 * k));
}

/// The same network on the rows of both parts, in plain loops.
class Plain {
 public:
  Plain() {
    for (std::int64_t k = 0; k < kHidden; ++k) {
      for (std::int64_t i = 0; i < kIn; ++i) w1[i][k] = weight(i, k);
      w2[k] = weight(kIn, k);
    }
  }
  double step(std::int64_t number) {
    double loss = 0, rows = 0, g1[kIn][kHidden] = {}, g2[kHidden] = {};
    for (int part = 0; part < 2; ++part)
      for (std::int64_t row = 0; row < rows_of(part, number); ++row, ++rows) {
        double x[kIn], h[kHidden], out = 0;
        for (std::int64_t i = 0; i < kIn; ++i) x[i] = feature(part, number, row, i);
        for (std::int64_t k = 0; k < kHidden; ++k) {
          h[k] = 0;
          for (std::int64_t i = 0; i < kIn; ++i) h[k] += x[i] * w1[i][k];
          h[k] = std::max(h[k], 0.0);
          out += h[k] * w2[k];
        }
        const double miss = out - target(x);
        loss += miss * miss;
        for (std::int64_t k = 0; k < kHidden; ++k) {
          g2[k] += 2 * miss * h[k];
          for (std::int64_t i = 0; i < kIn && h[k] > 0; ++i) g1[i][k] += 2 * miss * w2[k] * x[i];
        }
      }
    for (std::int64_t k = 0; k < kHidden; ++k) {
      for (std::int64_t i = 0; i < kIn; ++i) w1[i][k] -= kRate * g1[i][k] / rows;
      w2[k] -= kRate * g2[k] / rows;
    }
    return loss / rows;
  }

 private:
  double w1[kIn][kHidden], w2[kHidden];
};

Tensor tensor_of(std::vector<std::int64_t> sizes, const std::vector<double>& values) {
  return Array::of(DType::F64, std::move(sizes), values);
}

/// Returns the weights of this rank's hidden units `first` to `first + count - 1`: columns of the
/// first layer if `from` is 0, else rows of the second.
Tensor weights(std::int64_t first, std::int64_t count, std::int64_t from, std::int64_t to) {
  std::vector<double> values;
  for (std::int64_t i = from; i < to; ++i)
    for (std::int64_t k = first; k < first + count; ++k) values.push_back(weight(i, k));
  return from == 0 ? tensor_of({kIn, count}, values) : tensor_of({count, 1}, values);
}

Result<void> run(Job& job) {
  const int rank = job.rank();
  // Ranks 0,1 and 2,3 share a batch; ranks 0,2 and 1,3 share hidden units.
  RankSet same_units = RankSet::of({rank % 2});
  same_units.insert(RankSet::of({rank % 2 + 2}));
  const auto tensor = job.group("tensor", RankSet::range({rank / 2 * 2}, {rank / 2 * 2 + 1}));
  const auto data = job.group("data", same_units);
  if (!tensor || !data) return tensor ? data.error() : tensor.error();

  auto step = job.frame<Input, Output>("step", {.recordings = CaptureOptions{}},
                                       [&](Input in) { return train(in, *tensor, *data); });
  const std::int64_t mine = kHidden / tensor->size(), first = tensor->rank.value * mine;
  const int part = data->rank.value;
  Input in{{}, {}, weights(first, mine, 0, kIn), weights(first, mine, kIn, kIn + 1)};
  Plain plain;
  bool same = true;
  for (std::int64_t number = 0; number < kSteps; ++number) {
    std::vector<double> x, y;
    const std::int64_t rows = rows_of(part, number);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < kIn; ++i) x.push_back(feature(part, number, row, i));
      y.push_back(target(&x[static_cast<std::size_t>(row * kIn)]));
    }
    in.x = tensor_of({rows, kIn}, x), in.y = tensor_of({rows}, y);
    const auto out = step(in);
    if (!out) return out.error();
    in.w1 = out->w1, in.w2 = out->w2;
    const double loss = out->loss.array().at(0), expected = plain.step(number);
    same = same && std::abs(loss - expected) < 1e-12;
    if (rank == 0)
      std::printf("step %ld: loss %.12f, in plain loops %.12f\n", static_cast<long>(number), loss,
                  expected);
  }
  if (same) return {};
  return lockstep::Status{lockstep::Code::Internal, "the losses differ", {}, {}};
}

}  // namespace

int main(int argc, char** argv) {
  const bool cuda =
      argc == 3 && std::string_view(argv[1]) == "--device" && std::string_view(argv[2]) == "cuda";
  if (argc > 1 && !cuda) {
    std::fprintf(stderr, "groups: it takes nothing, or --device cuda.\n");
    return 2;
  }
  auto job = Job::init(&argc, &argv, {.processor = cuda ? Processor::Cuda : Processor::Host});
  if (!job) return Job::report(job.error());
  if ((*job)->size() != 4) {
    std::fprintf(stderr, "groups: it takes 4 ranks, two groups of two each way.\n");
    return 2;
  }
  return (*job)->run([&] { return run(**job); });
}
