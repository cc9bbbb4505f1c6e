// A transformer in bf16: rotary positions, causal attention, dropout by a key, cross-entropy,
// gradients summed over the ranks, and AdamW on master weights in f32; one compiled graph per rank.
// It learns to go on with sequences that count up by a step of their own. Every rank has another
// number of them.
//
//   mpirun -n 2 transformer [STEPS]     prints losses; exit code 7 unless the loss has halved
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include <lockstep/worker/job.h>

using namespace lockstep::worker;
using lockstep::Code;
using lockstep::DType;
using lockstep::Result;
using lockstep::Status;

constexpr std::int64_t kWords = 32, kLength = 24, kWidth = 64, kHeads = 4, kLayers = 2;

struct Layer {
  Tensor before_attention, query_key_value, joined, before_hidden, hidden, out;
  template <class V>
  void fields(V& v) {
    v("before_attention", before_attention), v("query_key_value", query_key_value);
    v("joined", joined), v("before_hidden", before_hidden), v("hidden", hidden), v("out", out);
  }
};
struct Model {
  Tensor table, last;
  std::vector<Layer> layers;
  template <class V>
  void fields(V& v) {
    v("table", table), v("last", last), v("layers", layers);
  }
};
struct Input {
  Model model;
  AdamState adam;
  Tensor words, next;  // [sequences, length]
  Key key;
  template <class V>
  void fields(V& v) {
    v("model", model), v("adam", adam), v("words", words), v("next", next), v("key", key);
  }
};
struct Output {
  Model model;
  AdamState adam;
  Tensor loss;
  template <class V>
  void fields(V& v) {
    v("model", model), v("adam", adam), v("loss", loss);
  }
};

Tensor attention(const Tensor& x, const Layer& layer) {
  const SymInt rows = x.size(0), length = x.size(1);
  const Tensor all = reshape(matmul(rms_norm(x, 1, layer.before_attention), layer.query_key_value),
                             {rows, length, 3, kHeads, kWidth / kHeads});
  std::vector<Tensor> parts =
      unbind(permute(all, {2, 0, 3, 1, 4}), 0);  // [rows, heads, length, ..]
  for (std::size_t i : {0U, 1U}) parts[i] = rotary_embedding(parts[i], arange(length));
  const Tensor seen =
      scaled_dot_product_attention(parts[0], parts[1], parts[2], {.is_causal = true});
  return matmul(reshape(permute(seen, {0, 2, 1, 3}), {rows, length, kWidth}), layer.joined);
}

/// This rank's part of the loss of all ranks' words.
Tensor loss_of(const Model& model, const Input& in) {
  const std::vector<RankKey> keys = in.key.fold_in(group_rank(in.words)).split(2 * kLayers);
  Tensor x = embedding(in.words, model.table);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    x = x + dropout(attention(x, layer), 0.1, keys[2 * i]);
    const Tensor hidden = gelu(matmul(rms_norm(x, 1, layer.before_hidden), layer.hidden));
    x = x + dropout(matmul(hidden, layer.out), 0.1, keys[2 * i + 1]);
  }
  const Tensor scores = matmul(rms_norm(x, 1, model.last), transpose(model.table, 0, 1));
  const Tensor sum = cross_entropy(cast(reshape(scores, {-1, kWords}), DType::F32),
                                   reshape(in.next, {-1}), {.reduction = Reduction::Sum});
  return sum / cast(all_reduce(scalar(in.words.numel())), DType::F32);
}

Output train(const Input& in) {
  const std::vector<Tensor> params = tensors_of(in.model);
  const Tensor loss = loss_of(in.model, in);
  std::vector<Tensor> grads = grad(loss, params);
  for (Tensor& each : grads) each = all_reduce(each);  // of bf16: summed in f32
  const auto [after, adam] =
      adamw(params, clip_grad_norm(grads, 1.0).grads, in.adam, {.rate = 4e-3});
  return {with_tensors(in.model, after), adam, all_reduce(loss)};
}

Tensor weights(const std::vector<std::int64_t>& sizes, double size, unsigned seed) {
  std::mt19937 engine(seed);
  Array out(DType::BF16, sizes);
  for (std::int64_t i = 0; i < out.elements(); ++i)
    out.set(i, size == 0 ? 1 : size * (2.0 * engine() / 4294967296.0 - 1));
  return out;
}

Result<void> run(Job& job, int steps) {
  auto step = job.frame<Input, Output>("train", train);
  Input in{{weights({kWords, kWidth}, 0.2, 1), weights({kWidth}, 0, 0), {}}, {}, {}, {}, {}};
  for (unsigned i = 0; i < kLayers; ++i)
    in.model.layers.push_back({weights({kWidth}, 0, 0), weights({kWidth, 3 * kWidth}, 0.2, 10 + i),
                               weights({kWidth, kWidth}, 0.2, 20 + i), weights({kWidth}, 0, 0),
                               weights({kWidth, 4 * kWidth}, 0.2, 30 + i),
                               weights({4 * kWidth, kWidth}, 0.1, 40 + i)});
  in.adam = adam_start(tensors_of(in.model));
  std::mt19937 engine(static_cast<unsigned>(job.rank()) + 100);
  double first = 0, loss = 0;
  for (int s = 0; s < steps; ++s) {
    Array words(DType::I64, {8 + job.rank(), kLength}), next(DType::I64, words.sizes());
    for (std::int64_t row = 0; row < words.sizes()[0]; ++row) {
      const std::int64_t from = engine() % kWords, by = 1 + engine() % 4;
      for (std::int64_t i = 0; i < kLength; ++i) {
        words.set(row * kLength + i, static_cast<double>((from + by * i) % kWords));
        next.set(row * kLength + i, static_cast<double>((from + by * (i + 1)) % kWords));
      }
    }
    in.words = words, in.next = next, in.key = Key(2026).fold_in(s);
    const auto out = step(in);
    if (!out) return out.error();
    in.model = out->model, in.adam = out->adam, loss = out->loss.array().at(0);
    first = s == 0 ? loss : first;
    if (job.rank() == 0 && (s % 10 == 0 || s + 1 == steps))
      std::printf("step %d: loss %.3f\n", s, loss);
  }
  if (loss < first / 2) return {};
  return Status{Code::Internal, "the loss has not halved", {}, {}};
}

int main(int argc, char** argv) {
  auto job = Job::init(&argc, &argv);
  if (!job) return Job::report(job.error());
  return (*job)->run([&] { return run(**job, argc > 1 ? std::atoi(argv[1]) : 40); });
}
