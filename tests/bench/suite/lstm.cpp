// A text model with one layer of long short-term memory (Hochreiter and Schmidhuber 1997), as a
// scan over the tokens of a line. Weights have PyTorch's layout and order of gates.
#include "numbers.h"
#include "workload.h"

namespace lockstep::suite {
namespace {

using namespace worker;  // NOLINT: a model reads like a user's program

class Lstm final : public Workload {
 public:
  explicit Lstm(const Setting& s)
      : setting_(s),
        lines_(s.size(32, 4)),
        length_(s.size(64, 5)),
        words_(s.size(1024, 12)),
        width_(s.size(256, 6)) {}

  [[nodiscard]] Tensors parameters() const override {
    const DType dtype = setting_.dtype;
    const double scale = product_scale(width_);
    return {spread(dtype, {words_, width_}, 0, 1), spread(dtype, {4 * width_, width_}, 1, scale),
            spread(dtype, {4 * width_, width_}, 2, scale), filled(dtype, {4 * width_}, 0),
            spread(dtype, {width_, words_}, 3, scale)};
  }

  /// Tokens, and those that follow them: [length, lines].
  [[nodiscard]] Tensors batch(std::int64_t step) const override {
    const std::int64_t mine = setting_.share(lines_);
    const std::int64_t first = step * lines_ + setting_.first(lines_);
    std::vector<std::int64_t> tokens, next;
    for (std::int64_t i = 0; i < length_; ++i)
      for (std::int64_t line = first; line < first + mine; ++line) {
        tokens.push_back(whole(100, line * (length_ + 1) + i, words_));
        next.push_back(whole(100, line * (length_ + 1) + i + 1, words_));
      }
    return {integers({length_, mine}, tokens), integers({length_ * mine}, next)};
  }

  [[nodiscard]] Tensor loss(const Tensors& parameters, const Tensors& batch) const override {
    InOrder p(parameters);
    const Tensor& table = p.next();
    const Tensor of_input = transpose(p.next(), 0, 1), of_hidden = transpose(p.next(), 0, 1);
    const Tensor inputs = matmul(embedding(batch[0], table), of_input) + p.next();
    const Tensor none = zeros_like(slice(select(inputs, 0, 0), 1, 0, width_));
    const Scanned seen = scan(
        [&](const Tensors& carry, const Tensors& input) {
          const Tensors gates = chunk(input[0] + matmul(carry[0], of_hidden), 4, 1);
          const Tensor cell = sigmoid(gates[1]) * carry[1] + sigmoid(gates[0]) * tanh(gates[2]);
          const Tensor hidden = sigmoid(gates[3]) * tanh(cell);
          return Scanned{{hidden, cell}, {hidden}};
        },
        {none, none}, {inputs});
    const Tensor scores = matmul(reshape(seen.ys[0], {-1, width_}), p.next());
    return cross_entropy(scores, batch[1], {.reduction = Reduction::Sum}) /
           static_cast<double>(lines_ * length_);
  }

 private:
  Setting setting_;
  std::int64_t lines_, length_, words_, width_;
};

}  // namespace

std::unique_ptr<Workload> lstm(const Setting& setting) { return std::make_unique<Lstm>(setting); }

}  // namespace lockstep::suite
