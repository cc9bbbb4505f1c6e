// The model as a traced function: embedding, one causal attention block, experts with top-1 routing
// that are spread over the ranks, output head, cross-entropy, backward pass and Adam. All of this
// is one graph. Lines of text are padded to the longest line, or packed one behind the other.
#pragma once

#include <vector>

#include <lockstep/worker/job.h>

namespace moe_text {

using namespace lockstep::worker;  // NOLINT: an example reads like a user's program
using lockstep::DType;
using lockstep::collectives::Reduce;

struct Shape {
  std::int64_t width = 64, hidden = 128, experts = 8, vocabulary = 257, positions = 128;
};

/// Shared parameters are equal on all ranks; each rank holds its own share of the experts.
struct Parameters {
  Tensor embed, position, norm_attention, query, key, value, out, norm_experts, router, norm_head,
      head;
  Tensor expert_in, expert_out;  // [experts/ranks, width, hidden], [experts/ranks, hidden, width]

  template <class V>
  void fields(V& v) {
    v("embed", embed), v("position", position), v("norm_attention", norm_attention);
    v("query", query), v("key", key), v("value", value), v("out", out);
    v("norm_experts", norm_experts), v("router", router), v("norm_head", norm_head),
        v("head", head);
    v("expert_in", expert_in), v("expert_out", expert_out);
  }
  std::vector<Tensor*> shared() {
    return {&embed, &position,     &norm_attention, &query,     &key, &value,
            &out,   &norm_experts, &router,         &norm_head, &head};
  }
  std::vector<Tensor*> all() {
    auto list = shared();
    list.insert(list.end(), {&expert_in, &expert_out});
    return list;
  }
};

/// Lines padded to the longest.
struct Batch {
  Tensor tokens, rows, targets;  // [lines, width], [predictions], [predictions]
  template <class V>
  void fields(V& v) {
    v("tokens", tokens), v("rows", rows), v("targets", targets);
  }
};

/// The same lines without padding: each token has a prediction.
struct PackedBatch {
  Jagged tokens;
  Tensor targets;  // [predictions]
  template <class V>
  void fields(V& v) {
    v("tokens", tokens), v("targets", targets);
  }
};

struct Measures {
  Tensor loss;    // mean over the predictions of all ranks
  Tensor margin;  // smallest distance between the scores of a row's two best experts, on any rank
  Tensor load;    // rows per expert over all ranks
  template <class V>
  void fields(V& v) {
    v("loss", loss), v("margin", margin), v("load", load);
  }
};

template <class Lines>
struct StepInputOf {
  Parameters parameters, first_moment, second_moment;
  Lines batch;
  SymFloat rate;  // learning rate with Adam's bias correction
  template <class V>
  void fields(V& v) {
    v("parameters", parameters), v("first_moment", first_moment), v("second_moment", second_moment);
    v("batch", batch), v("rate", rate);
  }
};

using StepInput = StepInputOf<Batch>;

struct StepOutput {
  Parameters parameters, first_moment, second_moment;
  Measures measures;
  template <class V>
  void fields(V& v) {
    v("parameters", parameters), v("first_moment", first_moment), v("second_moment", second_moment);
    v("measures", measures);
  }
};

template <class Lines>
struct EvaluateInputOf {
  Parameters parameters;
  Lines batch;
  template <class V>
  void fields(V& v) {
    v("parameters", parameters), v("batch", batch);
  }
};

using EvaluateInput = EvaluateInputOf<Batch>;

inline Tensor normalised(const Tensor& x, const Tensor& scale) {
  return x * rsqrt(mean(x * x, {-1}, Keep::Keep) + 1e-6) * scale;
}

/// x: [lines, length, width]. Padding follows the last byte of a line, so a causal mask hides it
/// from all rows with a prediction.
inline Tensor attention(const Tensor& x, const Parameters& p) {
  const Tensor y = normalised(x, p.norm_attention);
  const Tensor seen = scaled_dot_product_attention(
      matmul(y, p.query), matmul(y, p.key), matmul(y, p.value), {.is_causal = true});
  return matmul(seen, p.out);
}

/// x: [rows, width]. Sends each row to the rank of its expert and gets the result back. The ranks
/// exchange counts first, because no rank knows how many rows it will receive.
inline Tensor experts(const Tensor& x, const Parameters& p, int ranks, Measures& measures) {
  const SymInt all = p.router.size(1);
  const std::int64_t here = p.expert_in.size(0).to_int();  // a number, the same on all ranks
  const Tensor logits = matmul(x, p.router);
  const Tensor choice = argmax(logits, 1);
  const Tensor chosen = one_hot(choice, all, x.dtype());
  const Tensor gate = sum(softmax(logits, 1) * chosen, {1}, Keep::Keep);
  const Tensor runner_up = amax(where(chosen > 0.5, -INFINITY, logits), {1});
  measures.margin = all_reduce(amin(amax(logits, {1}) - runner_up), Reduce::Min);

  const Tensor counts = sum(one_hot(choice, all, DType::I64), {0});  // per expert
  measures.load = all_reduce(counts);
  const Tensor received = all_to_all_single(counts);  // per (source rank, own expert)
  const Sizes to = tolist(sum(reshape(counts, {ranks, here}), {1}), Values::NonNegative);
  const Sizes from = tolist(sum(reshape(received, {ranks, here}), {1}), Values::NonNegative);

  const Tensor order = argsort(choice);
  const Tensor rows = all_to_all_single(index_select(x, order), from, to);  // by (source, expert)
  const Tensor regroup = argsort(segment_ids(received, rows.size(0)) % here);
  const Tensor per_expert = sum(reshape(received, {ranks, here}), {0});
  Tensor y = index_select(rows, regroup);  // by (expert, source)
  y = segment_matmul(relu(segment_matmul(y, p.expert_in, per_expert)), p.expert_out, per_expert);
  y = all_to_all_single(index_select(y, argsort(regroup)), to, from);
  return index_select(y, argsort(order)) * gate;
}

/// Returns the rows that have a prediction, [predictions, width], as they go into the experts.
inline Tensor attended(const Parameters& p, const Batch& batch) {
  const SymInt lines = batch.tokens.size(0), length = batch.tokens.size(1), width = p.embed.size(1);
  Tensor x = reshape(index_select(p.embed, reshape(batch.tokens, {-1})), {lines, length, width});
  x = x + slice(p.position, 0, 0, length);
  x = x + attention(x, p);
  return index_select(reshape(x, {lines * length, width}), batch.rows);  // padding ends here
}
inline Tensor attended(const Parameters& p, const PackedBatch& batch) {
  const Tensor x = index_select(p.embed, batch.tokens.values) +
                   index_select(p.position, place_of_rows(batch.tokens));
  const Tensor y = normalised(x, p.norm_attention);
  const Jagged query = with_values(batch.tokens, matmul(y, p.query));
  const Jagged seen =
      jagged_attention(query, matmul(y, p.key), matmul(y, p.value), {.is_causal = true});
  return x + matmul(seen.values, p.out);
}

/// This rank's part of the loss: the sum of its predictions' cross-entropies, divided by the number
/// of predictions of all ranks.
template <class Lines>
Tensor local_loss(const Parameters& p, const Lines& batch, int ranks, Measures& measures) {
  Tensor row = attended(p, batch);
  row = row + experts(normalised(row, p.norm_experts), p, ranks, measures);
  const Tensor logits = matmul(normalised(row, p.norm_head), p.head);
  const Tensor picked = sum(one_hot(batch.targets, logits.size(1), logits.dtype()) * logits, {1});
  const Tensor total = cast(all_reduce(scalar(row.size(0))), p.embed.dtype());
  return sum(logsumexp(logits, 1) - picked) / total;
}

template <class Lines>
Measures evaluate(Parameters p, Lines batch, int ranks) {
  Measures measures;
  measures.loss = all_reduce(local_loss(p, batch, ranks, measures));
  return measures;
}

/// Sums each tensor over all ranks, by one collective for all of them.
inline std::vector<Tensor> all_reduce_together(const std::vector<Tensor>& parts) {
  std::vector<Tensor> flat;
  Sizes lengths;
  for (const Tensor& part : parts) {
    flat.push_back(reshape(part, {-1}));
    lengths.push_back(part.numel());
  }
  std::vector<Tensor> sums = split(all_reduce(cat(flat, 0)), lengths, 0);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = reshape(sums[i], parts[i].sizes());
  return sums;
}

/// Returns the gradients of the loss of all ranks. Gradients of shared parameters are summed over
/// the ranks; those of an expert are complete on its rank.
template <class Lines>
std::vector<Tensor> gradients(Parameters& p, const Lines& batch, int ranks, Measures& measures) {
  const Tensor loss = local_loss(p, batch, ranks, measures);
  measures.loss = all_reduce(loss);
  std::vector<Tensor> wrt;
  for (const Tensor* t : p.all()) wrt.push_back(*t);
  std::vector<Tensor> found = grad(loss, wrt);
  const auto shared = static_cast<std::ptrdiff_t>(p.shared().size());
  const std::vector<Tensor> sums = all_reduce_together({found.begin(), found.begin() + shared});
  std::copy(sums.begin(), sums.end(), found.begin());
  return found;
}

/// One step of Adam (Kingma and Ba 2015; the bias correction is in the rate).
template <class Lines>
StepOutput step(StepInputOf<Lines> in, int ranks) {
  StepOutput out;
  const std::vector<Tensor> g = gradients(in.parameters, in.batch, ranks, out.measures);
  const auto p = in.parameters.all(), m = in.first_moment.all(), v = in.second_moment.all();
  const auto p1 = out.parameters.all(), m1 = out.first_moment.all(), v1 = out.second_moment.all();
  for (std::size_t i = 0; i < g.size(); ++i) {
    *m1[i] = 0.9 * *m[i] + 0.1 * g[i];
    *v1[i] = 0.999 * *v[i] + 0.001 * g[i] * g[i];
    *p1[i] = *p[i] - in.rate * *m1[i] / (sqrt(*v1[i]) + 1e-6);
  }
  return out;
}

}  // namespace moe_text
