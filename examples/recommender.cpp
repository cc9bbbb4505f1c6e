// A recommender with 26 features whose numbers of values differ from sample to sample. The tables
// of embeddings are spread over the ranks by feature. Each rank sends the lengths and values of a
// feature to the rank that owns its table, and gets back sums of embeddings. Everything is one
// compiled graph: exchange, lookup, a layer of weights that all ranks share, loss, gradients and
// SGD.
//
//   mpirun -n 4 recommender [--losses]     exit code 7 unless the loss falls by a fifth
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include <lockstep/worker/job.h>

using namespace lockstep::worker;
using lockstep::DType;
using lockstep::Rank;
using lockstep::Result;
using lockstep::Status;

constexpr std::int64_t kFeatures = 26, kRows = 40, kWidth = 4, kBatch = 96, kSteps = 60;

struct Input {
  Tensor table, weight;  // [slots * rows, width] of this rank's features; [features * width]
  KeyedJagged features;  // of this rank's samples
  Tensor clicked;        // f64 [samples]
  template <class V>
  void fields(V& v) {
    v("table", table), v("weight", weight), v("features", features), v("clicked", clicked);
  }
};

struct Output {
  Tensor table, weight, loss;
  template <class V>
  void fields(V& v) {
    v("table", table), v("weight", weight), v("loss", loss);
  }
};

Output step(const Input& in, const std::vector<Rank>& owner) {
  const KeyedJagged mine = exchange_features(in.features, owner);  // my features of all samples
  const Tensor row = feature_of_rows(mine) * kRows + mine.values;
  const Jagged embedded{embedding(row, in.table), all_features(mine).lengths};
  const Tensor sums = reshape(segment_sum(embedded), {mine.lengths.size(0), -1, kWidth});
  const Tensor all = exchange_back(sums, owner);  // all features of my samples
  const SymInt samples = all.size(1);
  const Tensor flat = reshape(transpose(all, 0, 1), {samples, kFeatures * kWidth});
  const Tensor each = binary_cross_entropy_with_logits(mv(flat, in.weight), in.clicked,
                                                       {.reduction = Reduction::Sum});
  const Tensor loss =
      each / cast(all_reduce(scalar(samples)), DType::F64);  // divided by all ranks' samples
  const std::vector<Tensor> slope = grad(loss, {in.table, in.weight});
  // A table belongs to one rank, whose gradient covers all samples; all ranks share the weights.
  return {in.table - 2.0 * slope[0], in.weight - 2.0 * all_reduce(slope[1]), all_reduce(loss)};
}

/// Returns a number in [-0.5, 0.5) that depends on the parameters only, not on the number of ranks.
double number(std::int64_t what, std::int64_t a, std::int64_t b) {
  auto bits = static_cast<std::uint64_t>((what * 1000 + a) * 1'000'000 + b);
  for (int i = 0; i < 3; ++i) bits = (bits ^ bits >> 31) * 0x9E3779B97F4A7C15U;
  return static_cast<double>(bits >> 11) * 0x1p-53 - 0.5;
}

/// Reads samples [first, first + count) of a batch into `in`. A sample is a click if it has an even
/// value of feature 3.
void read(Input& in, std::int64_t batch, std::int64_t first, std::int64_t count) {
  Array lengths(DType::I64, {kFeatures, count}), clicked(DType::F64, {count});
  std::vector<double> values;
  for (std::int64_t f = 0; f < kFeatures; ++f)
    for (std::int64_t b = 0; b < count; ++b) {
      const std::int64_t sample = batch * kBatch + first + b;
      const bool absent = f != 3 && (f + batch) % 7 == 0;  // no sample of this batch has it
      const auto length = absent ? 0 : static_cast<std::int64_t>(4 * (number(1, f, sample) + 0.5));
      lengths.set(f * count + b, static_cast<double>(length));
      bool even = false;
      for (std::int64_t k = 0; k < length; ++k) {
        values.push_back(std::floor(kRows * (number(2 + k, f, sample) + 0.5)));
        even = even || std::fmod(values.back(), 2) == 0;
      }
      if (f == 3) clicked.set(b, even ? 1 : 0);
    }
  const auto rows = static_cast<std::int64_t>(values.size());
  in.features = {Array::of(DType::I64, {rows}, values), lengths};
  in.clicked = clicked;
}

Result<void> train(Job& job, bool prints_losses) {
  std::vector<Rank> owner;  // features are dealt out to the ranks in turn
  for (int f = 0; f < kFeatures; ++f) owner.push_back(Rank{f % job.size()});
  auto run = job.frame<Input, Output>("step", [&](const Input& in) { return step(in, owner); });
  Input in;
  Array table = Array::zeros(DType::F64, {feature_slots(owner) * kRows, kWidth});
  std::int64_t at = 0;
  for (const std::int64_t f : features_of(owner, Rank{job.rank()}))
    for (std::int64_t i = 0; i < kRows * kWidth; ++i) table.set(at++, 0.2 * number(10, f, i));
  Array weight(DType::F64, {kFeatures * kWidth});
  for (std::int64_t i = 0; i < weight.elements(); ++i) weight.set(i, number(11, i, 0));
  in.table = table, in.weight = weight;
  double first = 0, loss = 0;
  for (std::int64_t s = 0; s < kSteps; ++s) {
    const std::int64_t share = kBatch / job.size();
    read(in, s, job.rank() * share, share);
    auto out = run(in);
    if (!out) return out.error();
    in.table = out->table, in.weight = out->weight, loss = out->loss.array().at(0);
    if (s == 0) first = loss;
    if (job.rank() == 0 && prints_losses) std::printf("%.17g\n", loss);
  }
  if (job.rank() == 0) std::printf("loss from %.4f to %.4f\n", first, loss);
  if (loss < 0.8 * first) return {};
  return Status{lockstep::Code::Environment, "the loss did not fall", {}, {}};
}

int main(int argc, char** argv) {
  auto job = Job::init(&argc, &argv);
  if (!job) return Job::report(job.error());
  return (*job)->run([&] { return train(**job, argc > 1 && !std::strcmp(argv[1], "--losses")); });
}
