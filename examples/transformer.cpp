// A transformer in bf16: rotary positions, causal attention, dropout by a key, gradients summed
// over the ranks, AdamW on master weights in f32. It learns to continue sequences of numbers, each
// with a step of its own.  mpirun -n 2 transformer: exit code 7 unless the loss falls below 1.5
#include <cstdio>
#include <random>
#include <vector>

#include <lockstep/worker/job.h>

using namespace lockstep::worker;
using lockstep::DType;
constexpr std::int64_t kWords = 32, kLength = 24, kWidth = 64, kHeads = 4, kLayers = 2, kSteps = 40;
struct Layer {
  Tensor query_key_value, joined, hidden, out;
  template <class V>
  void fields(V& v) {
    v("query_key_value", query_key_value), v("joined", joined), v("hidden", hidden), v("out", out);
  }
};
struct Model {
  Tensor table;
  std::vector<Layer> layers;
  template <class V>
  void fields(V& v) {
    v("table", table), v("layers", layers);
  }
};
struct Learnt {
  Model model;
  AdamState adam;
  Tensor loss;  // loss of the step that made this state
  template <class V>
  void fields(V& v) {
    v("model", model), v("adam", adam), v("loss", loss);
  }
};
struct Input {
  Learnt learnt;
  Tensor words, next;  // [sequences, length]
  Key key;
  template <class V>
  void fields(V& v) {
    v("learnt", learnt), v("words", words), v("next", next), v("key", key);
  }
};

Tensor attention(const Tensor& x, const Layer& layer) {
  const SymInt rows = x.size(0), length = x.size(1);
  const Tensor all = reshape(matmul(rms_norm(x, 1), layer.query_key_value),
                             {rows, length, 3, kHeads, kWidth / kHeads});
  const std::vector<Tensor> parts = unbind(permute(all, {2, 0, 3, 1, 4}), 0);
  const auto turned = [&](const Tensor& part) { return rotary_embedding(part, arange(length)); };
  const Tensor seen = scaled_dot_product_attention(turned(parts[0]), turned(parts[1]), parts[2],
                                                   {.is_causal = true});
  return matmul(reshape(permute(seen, {0, 2, 1, 3}), x.sizes()), layer.joined);
}

/// This rank's part of the loss of all ranks' words.
Tensor loss_of(const Model& model, const Input& in) {
  const auto keys = in.key.fold_in(group_rank(in.words)).split(2 * kLayers);
  Tensor x = embedding(in.words, model.table);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    x = x + dropout(attention(x, model.layers[i]), 0.1, keys[2 * i]);
    const Tensor hidden = gelu(matmul(rms_norm(x, 1), model.layers[i].hidden));
    x = x + dropout(matmul(hidden, model.layers[i].out), 0.1, keys[2 * i + 1]);
  }
  const Tensor scores = matmul(rms_norm(x, 1), transpose(model.table, 0, 1));
  const Tensor sum = cross_entropy(cast(reshape(scores, {-1, kWords}), DType::F32),
                                   reshape(in.next, {-1}), {.reduction = Reduction::Sum});
  return sum / cast(all_reduce(scalar(in.words.numel())), DType::F32);
}

Learnt train(const Input& in) {
  const std::vector<Tensor> params = tensors_of(in.learnt.model);
  const Tensor loss = loss_of(in.learnt.model, in);
  std::vector<Tensor> grads = grad(loss, params);
  for (Tensor& each : grads) each = all_reduce(each);  // bf16 values, added up in f32
  const auto [after, adam] =
      adamw(params, clip_grad_norm(grads, 1.0).grads, in.learnt.adam, {.rate = 4e-3});
  return {with_tensors(in.learnt.model, after), adam, all_reduce(loss)};
}

Tensor weights(std::int64_t rows, std::int64_t columns, std::mt19937& engine) {
  Array out(DType::BF16, {rows, columns});
  for (std::int64_t i = 0; i < rows * columns; ++i) out.set(i, engine() / 4294967296.0 * 0.4 - 0.2);
  return out;
}

lockstep::Result<void> run(Job& job) {
  auto step = job.frame<Input, Learnt>("train", train);
  std::mt19937 same(1), own(static_cast<unsigned>(job.rank()) + 100);
  Learnt learnt{{weights(kWords, kWidth, same), {}}, {}, Array::zeros(DType::F32, {})};
  for (int i = 0; i < kLayers; ++i)
    learnt.model.layers.push_back({weights(kWidth, 3 * kWidth, same), weights(kWidth, kWidth, same),
                                   weights(kWidth, 4 * kWidth, same),
                                   weights(4 * kWidth, kWidth, same)});
  learnt.adam = adam_start(tensors_of(learnt.model));
  for (int s = 0; s < kSteps; ++s) {
    Array words(DType::I64, {8 + job.rank(), kLength}), next(DType::I64, words.sizes());
    for (std::int64_t i = 0, from = 0, by = 0; i < words.elements(); ++i, from += by) {
      if (i % kLength == 0) from = own() % kWords, by = 1 + own() % 4;
      words.data_as<std::int64_t>()[i] = from % kWords;
      next.data_as<std::int64_t>()[i] = (from + by) % kWords;
    }
    auto out = step({std::move(learnt), words, next, Key(2026).fold_in(s)});
    if (!out) return out.error();
    learnt = *std::move(out);
    if (job.rank() == 0 && s % 10 == 0)
      std::printf("step %d: loss %.3f\n", s, learnt.loss.array().at(0));
  }
  if (learnt.loss.array().at(0) < 1.5) return {};
  return lockstep::Status{lockstep::Code::Internal, "the loss has not fallen", {}, {}};
}

int main(int argc, char** argv) {
  auto job = Job::init(&argc, &argv);
  if (!job) return Job::report(job.error());
  return (*job)->run([&] { return run(**job); });
}
