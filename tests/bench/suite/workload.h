// A workload of the suite: a model with its data, as one training step needs it. Each is written
// once here and once in torch_suite.py, and both have the same losses.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/worker/job.h>

namespace lockstep::suite {

using Tensors = std::vector<worker::Tensor>;

struct Setting {
  DType dtype = DType::F32;
  bool tiny = false;  // sizes for a test in place of those for figures
  int rank = 0, ranks = 1;
  worker::Group half{};  // the lower or the upper half of the ranks, the one with this rank

  [[nodiscard]] std::int64_t size(std::int64_t full, std::int64_t small) const {
    return tiny ? small : full;
  }
  /// This rank's share of `all`, which is a multiple of the number of ranks, and its first one.
  [[nodiscard]] std::int64_t share(std::int64_t all) const { return all / ranks; }
  [[nodiscard]] std::int64_t first(std::int64_t all) const { return share(all) * rank; }
};

/// Immutable. Its batches are shares of one batch of all ranks, so the loss does not depend on the
/// number of ranks, except for rounding.
class Workload {
 public:
  virtual ~Workload() = default;
  /// What is learnt, as it is at first.
  [[nodiscard]] virtual Tensors parameters() const = 0;
  /// This rank's share of the data of step `step`.
  [[nodiscard]] virtual Tensors batch(std::int64_t step) const = 0;
  /// Traced: this rank's part of the loss, which is the sum of the parts of all ranks.
  [[nodiscard]] virtual worker::Tensor loss(const Tensors& parameters,
                                            const Tensors& batch) const = 0;
  /// The ranks that have the same parameters as this one, over which gradients are summed; by
  /// default all. None: each rank has its own.
  [[nodiscard]] virtual std::optional<worker::Group> replicas() const { return worker::Group{}; }
};

[[nodiscard]] std::unique_ptr<Workload> capacity(const Setting& setting);
[[nodiscard]] std::unique_ptr<Workload> convolution(const Setting& setting);
[[nodiscard]] std::unique_ptr<Workload> experts(const Setting& setting);
[[nodiscard]] std::unique_ptr<Workload> graph(const Setting& setting);
[[nodiscard]] std::unique_ptr<Workload> lstm(const Setting& setting);
[[nodiscard]] std::unique_ptr<Workload> masks(const Setting& setting);
[[nodiscard]] std::unique_ptr<Workload> pipeline(const Setting& setting);
[[nodiscard]] std::unique_ptr<Workload> recommender(const Setting& setting);
[[nodiscard]] std::unique_ptr<Workload> tensor_parallel(const Setting& setting);
[[nodiscard]] std::unique_ptr<Workload> transformer(const Setting& setting);

struct NamedWorkload {
  std::string_view name;
  std::unique_ptr<Workload> (*make)(const Setting&);
};
inline constexpr NamedWorkload kWorkloads[] = {{"experts", experts},
                                               {"transformer", transformer},
                                               {"recommender", recommender},
                                               {"lstm", lstm},
                                               {"graph", graph},
                                               {"capacity", capacity},
                                               {"tensor_parallel", tensor_parallel},
                                               {"pipeline", pipeline},
                                               {"masks", masks},
                                               {"convolution", convolution}};

/// Hands out tensors of a list in order, so that a loss can name its parameters one by one.
class InOrder {
 public:
  explicit InOrder(std::span<const worker::Tensor> tensors) : tensors_(tensors) {}
  [[nodiscard]] const worker::Tensor& next() { return tensors_[next_++]; }
  [[nodiscard]] bool done() const { return next_ == tensors_.size(); }

 private:
  std::span<const worker::Tensor> tensors_;
  std::size_t next_ = 0;
};

}  // namespace lockstep::suite
