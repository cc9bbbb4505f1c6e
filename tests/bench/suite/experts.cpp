// A text model with a mixture of experts, in the spirit of examples/moe_text: each token goes to
// the best of its experts (top-1, none dropped), lines have different lengths, so that the number
// of tokens differs between ranks and steps.
#include "numbers.h"
#include "workload.h"

namespace lockstep::suite {
namespace {

using namespace worker;  // NOLINT: a model reads like a user's program

class Experts final : public Workload {
 public:
  explicit Experts(const Setting& s)
      : setting_(s),
        lines_(s.size(64, 8)),
        length_(s.size(48, 6)),
        words_(s.size(4096, 20)),
        width_(s.size(256, 8)),
        hidden_(s.size(1024, 12)),
        experts_(s.size(8, 4)),
        layers_(2) {}

  [[nodiscard]] Tensors parameters() const override {
    const DType dtype = setting_.dtype;
    std::int64_t number = 0;
    const auto made = [&](std::vector<std::int64_t> sizes, double scale) {
      return spread(dtype, std::move(sizes), number++, scale);
    };
    Tensors out{made({words_, width_}, 1), made({words_, width_}, 1)};
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      out.emplace_back(filled(dtype, {width_}, 1));
      out.emplace_back(made({width_, experts_}, product_scale(width_)));
      out.emplace_back(made({experts_, width_, hidden_}, product_scale(width_)));
      out.emplace_back(made({experts_, hidden_, width_}, product_scale(hidden_)));
    }
    out.emplace_back(filled(dtype, {width_}, 1));
    out.emplace_back(made({width_, words_}, product_scale(width_)));
    return out;
  }

  /// The word before each token, the token, the token after it, and the number of tokens of all
  /// ranks.
  [[nodiscard]] Tensors batch(std::int64_t step) const override {
    std::vector<std::int64_t> before, token, after;
    std::int64_t all = 0;
    const std::int64_t first = setting_.first(lines_), end = first + setting_.share(lines_);
    for (std::int64_t line = 0; line < lines_; ++line) {
      const std::int64_t number = step * lines_ + line;
      const std::int64_t length = length_ / 3 + whole(100, number, length_ - length_ / 3 + 1);
      all += length;
      const auto word = [&](std::int64_t place) {
        return whole(101, number * (length_ + 2) + place, words_);
      };
      for (std::int64_t i = 0; first <= line && line < end && i < length; ++i)
        before.push_back(word(i)), token.push_back(word(i + 1)), after.push_back(word(i + 2));
    }
    const auto tokens = static_cast<std::int64_t>(token.size());
    return {integers({tokens}, before), integers({tokens}, token), integers({tokens}, after),
            filled(setting_.dtype, {}, static_cast<double>(all))};
  }

  [[nodiscard]] Tensor loss(const Tensors& parameters, const Tensors& batch) const override {
    InOrder p(parameters);
    Tensor x = embedding(batch[0], p.next());
    x = x + embedding(batch[1], p.next());
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      const Tensor y = rms_norm(x, 1, p.next(), 1e-6);
      const Tensor& gate = p.next();
      const Tensor& in = p.next();
      x = x + chosen_experts(y, gate, in, p.next());
    }
    const Tensor y = rms_norm(x, 1, p.next(), 1e-6);
    return cross_entropy(matmul(y, p.next()), batch[2], {.reduction = Reduction::Sum}) / batch[3];
  }

 private:
  /// x: [tokens, width].
  [[nodiscard]] Tensor chosen_experts(const Tensor& x, const Tensor& gate, const Tensor& in,
                                      const Tensor& out) const {
    const Tensor scores = softmax(matmul(x, gate), 1);
    const Tensor choice = argmax(scores, 1);
    const Tensor weight = gather(scores, 1, unsqueeze(choice, 1));
    const Tensor order = argsort(choice), counts = bincount(choice, experts_);
    const Tensor rows = index_select(x, order);
    const Tensor made = segment_matmul(gelu(segment_matmul(rows, in, counts)), out, counts);
    return index_select(made, argsort(order)) * weight;
  }

  Setting setting_;
  std::int64_t lines_, length_, words_, width_, hidden_, experts_, layers_;
};

}  // namespace

std::unique_ptr<Workload> experts(const Setting& setting) {
  return std::make_unique<Experts>(setting);
}

}  // namespace lockstep::suite
