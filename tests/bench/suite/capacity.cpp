// Experts of a fixed capacity (Switch Transformer, Fedus et al. 2021): the tokens come in four
// groups, and an expert keeps so many tokens of each, in order; what exceeds them is dropped. All
// sizes are known before the run.
#include "numbers.h"
#include "workload.h"

namespace lockstep::suite {
namespace {

using namespace worker;  // NOLINT: a model reads like a user's program

class Capacity final : public Workload {
 public:
  explicit Capacity(const Setting& s)
      : setting_(s),
        groups_(4),
        tokens_(s.size(512, 12)),
        words_(s.size(2048, 12)),
        width_(s.size(256, 6)),
        hidden_(s.size(1024, 8)),
        experts_(s.size(8, 3)),
        capacity_(s.size(80, 5)) {}

  [[nodiscard]] Tensors parameters() const override {
    const DType dtype = setting_.dtype;
    const double scale = product_scale(width_);
    return {spread(dtype, {words_, width_}, 0, 1), spread(dtype, {width_, experts_}, 1, scale),
            spread(dtype, {experts_, width_, hidden_}, 2, scale),
            spread(dtype, {experts_, hidden_, width_}, 3, product_scale(hidden_)),
            spread(dtype, {width_, words_}, 4, scale)};
  }

  /// Tokens, and those that follow them: [groups * tokens].
  [[nodiscard]] Tensors batch(std::int64_t step) const override {
    const std::int64_t mine = setting_.share(groups_);
    const std::int64_t first = step * groups_ + setting_.first(groups_);
    std::vector<std::int64_t> tokens, next;
    for (std::int64_t group = first; group < first + mine; ++group)
      for (std::int64_t i = 0; i < tokens_; ++i) {
        tokens.push_back(whole(100, group * (tokens_ + 1) + i, words_));
        next.push_back(whole(100, group * (tokens_ + 1) + i + 1, words_));
      }
    return {integers({mine * tokens_}, tokens), integers({mine * tokens_}, next)};
  }

  [[nodiscard]] Tensor loss(const Tensors& parameters, const Tensors& batch) const override {
    InOrder p(parameters);
    const std::int64_t mine = setting_.share(groups_);
    Tensor x = embedding(batch[0], p.next());
    const Tensor scores = softmax(matmul(x, p.next()), 1);
    const Tensor choice = argmax(scores, 1);
    const Tensor weight = gather(scores, 1, unsqueeze(choice, 1));
    const Tensor target = arange(x.size(0)) / tokens_ * experts_ + choice;
    const Dispatched sent = dispatch(x, target, mine * experts_, at_most(capacity_));
    const Tensor rows = reshape(sent.rows, {mine, experts_, capacity_, width_});
    const Tensor hidden = gelu(matmul(rows, p.next()));
    const Tensor made = reshape(matmul(hidden, p.next()), {mine * experts_, capacity_, width_});
    x = x + combine(made, sent.place) * weight;
    return cross_entropy(matmul(x, p.next()), batch[1], {.reduction = Reduction::Sum}) /
           static_cast<double>(groups_ * tokens_);
  }

 private:
  Setting setting_;
  std::int64_t groups_, tokens_, words_, width_, hidden_, experts_, capacity_;
};

}  // namespace

std::unique_ptr<Workload> capacity(const Setting& setting) {
  return std::make_unique<Capacity>(setting);
}

}  // namespace lockstep::suite
