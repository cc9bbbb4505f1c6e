// The initial model, the same for any number of ranks, and batches of text as its inputs.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "model.h"
#include "text.h"

#include <lockstep/worker/checkpoints.h>

namespace moe_text {

/// Fills the `count` elements of `array` from `first` on with random values, seeded by `name`: the
/// values are the same for any number of ranks.
inline void fill(Array& array, std::int64_t first, std::int64_t count, const std::string& name,
                 double scale) {
  std::seed_seq seed(name.begin(), name.end());
  std::mt19937_64 engine(seed);
  for (std::int64_t i = 0; i < count; ++i)
    array.set(first + i, scale * (2.0 * static_cast<double>(engine() >> 11) * 0x1p-53 - 1.0));
}

inline Tensor random_tensor(DType dtype, std::vector<std::int64_t> sizes, const std::string& name,
                            double scale) {
  Array array(dtype, std::move(sizes));
  fill(array, 0, array.elements(), name, scale);
  return array;
}

inline Tensor ones_of(DType dtype, std::int64_t n) {
  Array array(dtype, {n});
  for (std::int64_t i = 0; i < n; ++i) array.set(i, 1.0);
  return array;
}

inline Parameters initial(const Shape& s, DType dtype, int rank, int ranks) {
  const double w = std::sqrt(3.0 / static_cast<double>(s.width));
  Parameters p;
  p.embed = random_tensor(dtype, {s.vocabulary, s.width}, "embed", 1.0);
  p.position = random_tensor(dtype, {s.positions, s.width}, "position", 0.3);
  for (Tensor* norm : {&p.norm_attention, &p.norm_experts, &p.norm_head})
    *norm = ones_of(dtype, s.width);
  p.query = random_tensor(dtype, {s.width, s.width}, "query", w);
  p.key = random_tensor(dtype, {s.width, s.width}, "key", w);
  p.value = random_tensor(dtype, {s.width, s.width}, "value", w);
  p.out = random_tensor(dtype, {s.width, s.width}, "out", w);
  p.router = random_tensor(dtype, {s.width, s.experts}, "router", w);
  p.head = random_tensor(dtype, {s.width, 256}, "head", w);
  const std::int64_t here = s.experts / ranks, matrix = s.width * s.hidden;
  Array in(dtype, {here, s.width, s.hidden}), out(dtype, {here, s.hidden, s.width});
  for (std::int64_t e = 0; e < here; ++e) {
    const std::string expert = std::to_string(rank * here + e);
    fill(in, e * matrix, matrix, "expert_in " + expert, w);
    fill(out, e * matrix, matrix, "expert_out " + expert,
         std::sqrt(3.0 / static_cast<double>(s.hidden)));
  }
  p.expert_in = in, p.expert_out = out;
  return p;
}

inline Parameters zeros_of(Parameters& p) {
  Parameters z;
  const auto from = p.all(), to = z.all();
  for (std::size_t i = 0; i < from.size(); ++i)
    *to[i] = Array::zeros(from[i]->dtype(), from[i]->array().sizes());
  return z;
}

/// Index of this rank's first expert, and the number of all experts.
struct Experts {
  std::int64_t first = 0, total = 0;
};

/// What a checkpoint holds. Each rank has its own experts; everything else is equal on all ranks.
struct TrainingState {
  Parameters &parameters, &first_moment, &second_moment;
  Experts experts;
  std::int64_t step = 0, line = 0;  // steps taken; next line of the text
  double margin = INFINITY;

  struct Spread {
    Parameters& parameters;
    Experts experts;
    template <class V>
    void fields(V& v) {
      auto each = [&](std::string_view name, Tensor& tensor) {
        if (name.starts_with("expert_"))
          v(name, sharded(tensor, 0, experts.first, experts.total));
        else
          v(name, tensor);
      };
      parameters.fields(each);
    }
  };
  template <class V>
  void fields(V& v) {
    v("parameters", Spread{parameters, experts});
    v("first_moment", Spread{first_moment, experts});
    v("second_moment", Spread{second_moment, experts});
    v("step", step), v("line", line), v("margin", margin);
  }
};

inline Tensor indices(std::vector<std::int64_t> sizes, const std::vector<std::int64_t>& values) {
  Array array(DType::I64, std::move(sizes));
  std::copy(values.begin(), values.end(), array.data_as<std::int64_t>());
  return array;
}

inline void assign(Batch& batch, const LineBatch& share) {
  const auto n = static_cast<std::int64_t>(share.rows.size());
  batch = {indices({share.lines, share.width}, share.tokens), indices({n}, share.rows),
           indices({n}, share.targets)};
}
inline void assign(PackedBatch& batch, const LineBatch& share) {
  std::vector<std::int64_t> tokens, lengths(static_cast<std::size_t>(share.lines));
  for (const std::int64_t row : share.rows) {
    tokens.push_back(share.tokens[static_cast<std::size_t>(row)]);
    ++lengths[static_cast<std::size_t>(row / share.width)];
  }
  const auto n = static_cast<std::int64_t>(tokens.size());
  batch = {{indices({n}, tokens), indices({share.lines}, lengths)}, indices({n}, share.targets)};
}

/// This rank's share of the batch of `count` lines from line `first` on.
template <class Lines>
Lines batch_of(const std::vector<std::string>& lines, std::size_t first, int count,
               const Job& job) {
  Lines batch;
  assign(batch,
         share_of_batch(lines, first, static_cast<std::size_t>(count), job.rank(), job.size()));
  return batch;
}

}  // namespace moe_text
