// Layers whose hidden units are spread over the ranks (Megatron-LM, Shoeybi et al. 2019): each rank
// has columns of the first weight and the same rows of the second, and one sum over the ranks joins
// them. All ranks have the whole batch.
#include "numbers.h"
#include "workload.h"

namespace lockstep::suite {
namespace {

using namespace worker;  // NOLINT: a model reads like a user's program

class TensorParallel final : public Workload {
 public:
  explicit TensorParallel(const Setting& s)
      : setting_(s),
        rows_(s.size(512, 6)),
        width_(s.size(512, 5)),
        hidden_(s.size(2048, 8)),
        layers_(s.size(4, 2)) {}

  [[nodiscard]] Tensors parameters() const override {
    Tensors out;
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      out.emplace_back(columns(2 * layer));
      out.emplace_back(spread(setting_.dtype, {setting_.share(hidden_), width_}, 2 * layer + 1,
                              product_scale(hidden_), setting_.first(hidden_) * width_));
    }
    return out;
  }

  /// Inputs and targets [rows, width].
  [[nodiscard]] Tensors batch(std::int64_t step) const override {
    const std::int64_t first = step * rows_ * width_;
    return {spread(setting_.dtype, {rows_, width_}, 100, 1, first),
            spread(setting_.dtype, {rows_, width_}, 101, 1, first)};
  }

  [[nodiscard]] Tensor loss(const Tensors& parameters, const Tensors& batch) const override {
    InOrder p(parameters);
    Tensor x = batch[0];
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      const Tensor hidden = gelu(matmul(x, p.next()));
      x = x + all_reduce(matmul(hidden, p.next()));
    }
    // Each rank has the whole loss, so its part is a share of it.
    return mse_loss(x, batch[1]) / static_cast<double>(setting_.ranks);
  }

  [[nodiscard]] std::optional<Group> replicas() const override { return {}; }

 private:
  /// This rank's columns of a weight [width, hidden].
  [[nodiscard]] Array columns(std::int64_t tensor) const {
    const std::int64_t mine = setting_.share(hidden_), first = setting_.first(hidden_);
    Array out(setting_.dtype, {width_, mine});
    for (std::int64_t i = 0; i < out.elements(); ++i)
      out.set(i, (2 * number(tensor, i / mine * hidden_ + first + i % mine) - 1) *
                     product_scale(width_));
    return out;
  }

  Setting setting_;
  std::int64_t rows_, width_, hidden_, layers_;
};

}  // namespace

std::unique_ptr<Workload> tensor_parallel(const Setting& setting) {
  return std::make_unique<TensorParallel>(setting);
}

}  // namespace lockstep::suite
