// A classifier of small images: three convolutions with pools of the largest, the mean of each
// channel, one layer. All sizes are equal on all ranks and in all steps.
#include "numbers.h"
#include "workload.h"

namespace lockstep::suite {
namespace {

using namespace worker;  // NOLINT: a model reads like a user's program

class Convolution final : public Workload {
 public:
  explicit Convolution(const Setting& s)
      : setting_(s),
        images_(s.size(64, 4)),
        side_(s.size(32, 8)),
        classes_(10),
        channels_{3, s.size(32, 3), s.size(64, 4), s.size(128, 5)} {}

  [[nodiscard]] Tensors parameters() const override {
    const DType dtype = setting_.dtype;
    std::int64_t number = 0;
    Tensors out;
    for (std::size_t i = 1; i < channels_.size(); ++i) {
      out.emplace_back(spread(dtype, {channels_[i], channels_[i - 1], 3, 3}, number++,
                              product_scale(9 * channels_[i - 1])));
      out.emplace_back(filled(dtype, {channels_[i]}, 0));
    }
    const std::int64_t last = channels_.back();
    out.emplace_back(spread(dtype, {last, classes_}, number++, product_scale(last)));
    out.emplace_back(filled(dtype, {classes_}, 0));
    return out;
  }

  /// Images [images, 3, side, side] and their classes.
  [[nodiscard]] Tensors batch(std::int64_t step) const override {
    const std::int64_t mine = setting_.share(images_);
    const std::int64_t first = step * images_ + setting_.first(images_);
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < mine; ++i) labels.push_back(whole(101, first + i, classes_));
    return {spread(setting_.dtype, {mine, 3, side_, side_}, 100, 1, first * 3 * side_ * side_),
            integers({mine}, labels)};
  }

  [[nodiscard]] Tensor loss(const Tensors& parameters, const Tensors& batch) const override {
    InOrder p(parameters);
    Tensor x = batch[0];
    for (std::size_t i = 1; i < channels_.size(); ++i) {
      const Tensor& weight = p.next();
      x = relu(conv2d(x, weight, p.next(), {.padding = {1}}));
      if (i + 1 < channels_.size()) x = max_pool2d(x, {.kernel = {2}});
    }
    const Tensor& last = p.next();
    const Tensor scores = matmul(mean(x, {2, 3}), last) + p.next();
    return cross_entropy(scores, batch[1], {.reduction = Reduction::Sum}) /
           static_cast<double>(images_);
  }

 private:
  Setting setting_;
  std::int64_t images_, side_, classes_;
  std::vector<std::int64_t> channels_;
};

}  // namespace

std::unique_ptr<Workload> convolution(const Setting& setting) {
  return std::make_unique<Convolution>(setting);
}

}  // namespace lockstep::suite
