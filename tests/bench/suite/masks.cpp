// Work on fewer rows, by unique and by a mask: each distinct token goes through the layers once,
// and only the masked tokens are predicted. Both numbers of rows come from the data.
#include "numbers.h"
#include "workload.h"

namespace lockstep::suite {
namespace {

using namespace worker;  // NOLINT: a model reads like a user's program

class Masks final : public Workload {
 public:
  explicit Masks(const Setting& s)
      : setting_(s),
        tokens_(s.size(8192, 24)),
        words_(s.size(1024, 10)),
        width_(s.size(256, 6)),
        hidden_(s.size(512, 8)) {}

  [[nodiscard]] Tensors parameters() const override {
    const DType dtype = setting_.dtype;
    return {spread(dtype, {words_, width_}, 0, 1),
            spread(dtype, {width_, hidden_}, 1, product_scale(width_)),
            spread(dtype, {hidden_, width_}, 2, product_scale(hidden_)),
            spread(dtype, {width_, words_}, 3, product_scale(width_))};
  }

  /// Tokens; what to predict at each place; a number for each place: those below 0.15 are masked.
  [[nodiscard]] Tensors batch(std::int64_t step) const override {
    const std::int64_t mine = setting_.share(tokens_);
    const std::int64_t first = step * tokens_ + setting_.first(tokens_);
    std::vector<std::int64_t> tokens, targets;
    Array masked(DType::F64, {mine});
    for (std::int64_t i = 0; i < mine; ++i) {
      // The product of two even distributions: small numbers are frequent.
      tokens.push_back(static_cast<std::int64_t>(number(100, first + i) * number(101, first + i) *
                                                 static_cast<double>(words_)));
      targets.push_back(whole(102, first + i, words_));
      masked.set(i, number(103, first + i));
    }
    return {integers({mine}, tokens), integers({mine}, targets), masked};
  }

  [[nodiscard]] Tensor loss(const Tensors& parameters, const Tensors& batch) const override {
    InOrder p(parameters);
    const Unique distinct = unique(batch[0]);
    const Tensor rows = embedding(distinct.values, p.next());
    const Tensor hidden = gelu(matmul(rows, p.next()));
    const Tensor made = rows + matmul(hidden, p.next());
    const Tensor mask = batch[2] < 0.15;
    const Tensor seen = index_select(made, distinct.inverse)[mask];
    return cross_entropy(matmul(seen, p.next()), batch[1][mask], {.reduction = Reduction::Sum}) /
           static_cast<double>(tokens_);
  }

 private:
  Setting setting_;
  std::int64_t tokens_, words_, width_, hidden_;
};

}  // namespace

std::unique_ptr<Workload> masks(const Setting& setting) { return std::make_unique<Masks>(setting); }

}  // namespace lockstep::suite
