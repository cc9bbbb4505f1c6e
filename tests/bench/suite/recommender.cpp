// A recommender (DLRM, Naumov et al. 2019): 13 numbers and 26 features per sample, each feature a
// bag of some rows of its table; products of all pairs; two stacks of layers; clicked or not. The
// number of rows in all bags differs between ranks and steps.
#include "numbers.h"
#include "workload.h"

namespace lockstep::suite {
namespace {

using namespace worker;  // NOLINT: a model reads like a user's program

class Recommender final : public Workload {
 public:
  explicit Recommender(const Setting& s)
      : setting_(s),
        features_(26),
        numbers_(13),
        rows_(s.size(2000, 5)),
        width_(s.size(32, 4)),
        hidden_(s.size(256, 8)),
        samples_(s.size(1024, 8)),
        most_(s.size(12, 4)) {}

  [[nodiscard]] Tensors parameters() const override {
    const DType dtype = setting_.dtype;
    std::int64_t number = 0;
    const auto product = [&](std::int64_t rows, std::int64_t columns) -> Tensor {
      return spread(dtype, {rows, columns}, number++, product_scale(rows));
    };
    const auto zeros = [&](std::int64_t size) -> Tensor { return filled(dtype, {size}, 0); };
    return {spread(dtype, {features_ * rows_, width_}, number++, 0.5),
            product(numbers_, hidden_),
            zeros(hidden_),
            product(hidden_, width_),
            zeros(width_),
            product(width_ + pairs(), hidden_),
            zeros(hidden_),
            product(hidden_, hidden_),
            zeros(hidden_),
            product(hidden_, 1),
            zeros(1)};
  }

  /// The numbers [samples, 13]; the rows of all bags, by feature, then by sample, and their
  /// lengths; clicked or not; the places of the pairs.
  [[nodiscard]] Tensors batch(std::int64_t step) const override {
    const std::int64_t mine = setting_.share(samples_);
    const std::int64_t first = step * samples_ + setting_.first(samples_);
    std::vector<std::int64_t> lengths, values, places;
    for (std::int64_t feature = 0; feature < features_; ++feature)
      for (std::int64_t sample = first; sample < first + mine; ++sample) {
        const std::int64_t bag = sample * features_ + feature;
        lengths.push_back(whole(101, bag, most_ + 1));
        for (std::int64_t i = 0; i < lengths.back(); ++i)
          values.push_back(feature * rows_ + whole(102, bag * most_ + i, rows_));
      }
    for (std::int64_t i = 0; i <= features_; ++i)
      for (std::int64_t j = 0; j < i; ++j) places.push_back(i * (features_ + 1) + j);
    Array clicked(setting_.dtype, {mine});
    for (std::int64_t i = 0; i < mine; ++i)
      clicked.set(i, static_cast<double>(whole(103, first + i, 2)));
    const auto all = static_cast<std::int64_t>(values.size());
    return {spread(setting_.dtype, {mine, numbers_}, 100, 1, first * numbers_),
            integers({all}, values), integers({features_ * mine}, lengths), clicked,
            integers({pairs()}, places)};
  }

  [[nodiscard]] Tensor loss(const Tensors& parameters, const Tensors& batch) const override {
    InOrder p(parameters);
    const Tensor& table = p.next();
    const Tensor bags = embedding_bag(batch[1], table, {.lengths = batch[2], .mode = BagMode::Sum});
    const Tensor dense = relu(layer(relu(layer(batch[0], p)), p));
    const Tensor sparse = transpose(reshape(bags, {features_, -1, width_}), 0, 1);
    const Tensor each = cat({unsqueeze(dense, 1), sparse}, 1);
    const Tensor products =
        reshape(bmm(each, transpose(each, 1, 2)), {-1, (features_ + 1) * (features_ + 1)});
    Tensor x = cat({dense, index_select(products, 1, batch[4])}, 1);
    x = relu(layer(x, p));
    x = relu(layer(x, p));
    return binary_cross_entropy_with_logits(squeeze(layer(x, p), 1), batch[3],
                                            {.reduction = Reduction::Sum}) /
           static_cast<double>(samples_);
  }

 private:
  [[nodiscard]] std::int64_t pairs() const { return features_ * (features_ + 1) / 2; }
  [[nodiscard]] static Tensor layer(const Tensor& x, InOrder& p) {
    const Tensor& weight = p.next();
    return matmul(x, weight) + p.next();
  }

  Setting setting_;
  std::int64_t features_, numbers_, rows_, width_, hidden_, samples_, most_;
};

}  // namespace

std::unique_ptr<Workload> recommender(const Setting& setting) {
  return std::make_unique<Recommender>(setting);
}

}  // namespace lockstep::suite
