// A dense transformer: learnt positions, causal attention, layer norms before each part, the table
// of words also as the head. All sizes are equal on all ranks and in all steps.
#include "numbers.h"
#include "workload.h"

namespace lockstep::suite {
namespace {

using namespace worker;  // NOLINT: a model reads like a user's program

class Transformer final : public Workload {
 public:
  explicit Transformer(const Setting& s)
      : setting_(s),
        layers_(s.size(8, 2)),
        width_(s.size(512, 8)),
        heads_(s.size(8, 2)),
        words_(s.size(8192, 16)),
        length_(s.size(256, 6)),
        lines_(s.size(8, 4)) {}

  [[nodiscard]] Tensors parameters() const override {
    const DType dtype = setting_.dtype;
    std::int64_t number = 0;
    const auto product = [&](std::int64_t rows, std::int64_t columns) -> Tensor {
      return spread(dtype, {rows, columns}, number++, product_scale(rows));
    };
    const auto vector = [&](std::int64_t size, double value) -> Tensor {
      return filled(dtype, {size}, value);
    };
    Tensors out{spread(dtype, {words_, width_}, number++, 0.05),
                spread(dtype, {length_, width_}, number++, 0.05)};
    for (std::int64_t layer = 0; layer < layers_; ++layer)
      out.insert(out.end(), {vector(width_, 1), vector(width_, 0), product(width_, 3 * width_),
                             product(width_, width_), vector(width_, 1), vector(width_, 0),
                             product(width_, 4 * width_), vector(4 * width_, 0),
                             product(4 * width_, width_), vector(width_, 0)});
    out.insert(out.end(), {vector(width_, 1), vector(width_, 0)});
    return out;
  }

  /// Tokens, and those that follow them: [lines, length].
  [[nodiscard]] Tensors batch(std::int64_t step) const override {
    const std::int64_t mine = setting_.share(lines_);
    std::vector<std::int64_t> tokens, next;
    for (std::int64_t line = 0; line < mine; ++line) {
      const std::int64_t number = step * lines_ + setting_.first(lines_) + line;
      for (std::int64_t i = 0; i < length_; ++i) {
        tokens.push_back(whole(100, number * (length_ + 1) + i, words_));
        next.push_back(whole(100, number * (length_ + 1) + i + 1, words_));
      }
    }
    return {integers({mine, length_}, tokens), integers({mine * length_}, next)};
  }

  [[nodiscard]] Tensor loss(const Tensors& parameters, const Tensors& batch) const override {
    InOrder p(parameters);
    const Tensor& table = p.next();
    Tensor x = embedding(batch[0], table) + p.next();
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      const Tensor y = normalised(x, p);
      const Tensor& joint = p.next();
      x = x + matmul(attention(y, joint), p.next());
      const Tensor z = normalised(x, p);
      const Tensor& up = p.next();
      const Tensor hidden = gelu(matmul(z, up) + p.next());
      const Tensor& down = p.next();
      x = x + matmul(hidden, down) + p.next();
    }
    const Tensor scores = matmul(normalised(x, p), transpose(table, 0, 1));
    return cross_entropy(reshape(scores, {-1, words_}), batch[1], {.reduction = Reduction::Sum}) /
           static_cast<double>(lines_ * length_);
  }

 private:
  [[nodiscard]] static Tensor normalised(const Tensor& x, InOrder& p) {
    const Tensor& weight = p.next();
    return layer_norm(x, 1, weight, p.next());
  }
  [[nodiscard]] Tensor attention(const Tensor& x, const Tensor& joint) const {
    const Tensor all = reshape(matmul(x, joint), {-1, length_, 3, heads_, width_ / heads_});
    const Tensors parts = unbind(permute(all, {2, 0, 3, 1, 4}), 0);
    const Tensor seen =
        scaled_dot_product_attention(parts[0], parts[1], parts[2], {.is_causal = true});
    return reshape(permute(seen, {0, 2, 1, 3}), x.sizes());
  }

  Setting setting_;
  std::int64_t layers_, width_, heads_, words_, length_, lines_;
};

}  // namespace

std::unique_ptr<Workload> transformer(const Setting& setting) {
  return std::make_unique<Transformer>(setting);
}

}  // namespace lockstep::suite
