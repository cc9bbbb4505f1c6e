// Two pipeline stages (GPipe, Huang et al. 2019): the lower half of the ranks has the first half of
// the layers and the batch, the upper half the other layers and the targets. Micro-batches pass
// from one to the other. All ranks run one program: a rank has no rows where it has no part. A
// single rank has both stages.
#include "numbers.h"
#include "workload.h"

namespace lockstep::suite {
namespace {

using namespace worker;  // NOLINT: a model reads like a user's program

constexpr int kStages = 2;
constexpr std::int64_t kMicroBatches = 4;

class Pipeline final : public Workload {
 public:
  explicit Pipeline(const Setting& s)
      : setting_(s),
        pipelines_(s.ranks == 1 ? 1 : s.ranks / kStages),
        stage_(s.rank / pipelines_),
        rows_(s.size(512, 16)),
        width_(s.size(512, 5)),
        hidden_(s.size(1024, 7)),
        layers_(s.size(3, 1)) {}

  [[nodiscard]] Tensors parameters() const override {
    const std::int64_t first = setting_.ranks == 1 ? 0 : stage_;
    const std::int64_t stages = setting_.ranks == 1 ? kStages : 1;
    Tensors out;
    for (std::int64_t layer = first * layers_; layer < (first + stages) * layers_; ++layer) {
      out.emplace_back(spread(setting_.dtype, {width_, hidden_}, 2 * layer, product_scale(width_)));
      out.emplace_back(
          spread(setting_.dtype, {hidden_, width_}, 2 * layer + 1, product_scale(hidden_)));
    }
    return out;
  }

  /// Inputs of the first stage and targets of the last one: [rows, width].
  [[nodiscard]] Tensors batch(std::int64_t step) const override {
    const std::int64_t mine = rows_ / pipelines_;
    const std::int64_t first = (step * rows_ + setting_.rank % pipelines_ * mine) * width_;
    const bool begins = stage_ == 0, ends = setting_.ranks == 1 || stage_ == kStages - 1;
    return {spread(setting_.dtype, {begins ? mine : 0, width_}, 100, 1, first),
            spread(setting_.dtype, {ends ? mine : 0, width_}, 101, 1, first)};
  }

  [[nodiscard]] Tensor loss(const Tensors& parameters, const Tensors& batch) const override {
    const Tensors inputs = chunk(batch[0], kMicroBatches);
    const Tensors targets = chunk(batch[1], kMicroBatches);
    Tensor all;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Tensor found = second_stage(first_stage(inputs[i], parameters), parameters);
      const Tensor part = mse_loss(found, targets[i], Reduction::Sum);
      all = i == 0 ? part : all + part;
    }
    return all / static_cast<double>(rows_ * width_);
  }

  [[nodiscard]] std::optional<Group> replicas() const override { return setting_.half; }

 private:
  [[nodiscard]] static Tensor layers(Tensor x, std::span<const Tensor> parameters) {
    for (InOrder p(parameters); !p.done();) {
      const Tensor hidden = gelu(matmul(x, p.next()));
      x = x + matmul(hidden, p.next());
    }
    return x;
  }
  [[nodiscard]] Tensor first_stage(const Tensor& x, std::span<const Tensor> parameters) const {
    return layers(x, parameters.first(static_cast<std::size_t>(2 * layers_)));
  }
  [[nodiscard]] Tensor second_stage(const Tensor& x, std::span<const Tensor> parameters) const {
    if (setting_.ranks == 1)
      return layers(x, parameters.last(static_cast<std::size_t>(2 * layers_)));
    std::vector<Route> routes;
    for (int i = 0; i < pipelines_; ++i) routes.push_back({Rank{i}, Rank{pipelines_ + i}});
    return layers(send_recv(x, routes), parameters);
  }

  Setting setting_;
  int pipelines_, stage_;
  std::int64_t rows_, width_, hidden_, layers_;
};

}  // namespace

std::unique_ptr<Workload> pipeline(const Setting& setting) {
  return std::make_unique<Pipeline>(setting);
}

}  // namespace lockstep::suite
