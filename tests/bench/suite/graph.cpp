// Graph convolution (GraphSAGE with means, Hamilton et al. 2017) over many small graphs: nodes have
// none to many neighbours, so the numbers of nodes and edges differ between ranks and steps. One
// number is learnt for each graph.
#include "numbers.h"
#include "workload.h"

namespace lockstep::suite {
namespace {

using namespace worker;  // NOLINT: a model reads like a user's program

class Graph final : public Workload {
 public:
  explicit Graph(const Setting& s)
      : setting_(s),
        graphs_(s.size(256, 16)),
        most_(s.size(40, 5)),
        neighbours_(s.size(7, 3)),
        width_(s.size(128, 4)),
        layers_(3) {}

  [[nodiscard]] Tensors parameters() const override {
    const DType dtype = setting_.dtype;
    const double scale = product_scale(width_);
    Tensors out;
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      out.emplace_back(spread(dtype, {width_, width_}, 2 * layer, scale));
      out.emplace_back(spread(dtype, {width_, width_}, 2 * layer + 1, scale));
      out.emplace_back(filled(dtype, {width_}, 0));
    }
    out.emplace_back(spread(dtype, {width_, 1}, 2 * layers_, scale));
    return out;
  }

  /// What is known of each node; the neighbours of all nodes and their numbers; 1 / this number, or
  /// 1; the number of nodes of each graph; what is to be learnt of each.
  [[nodiscard]] Tensors batch(std::int64_t step) const override {
    const std::int64_t mine = setting_.share(graphs_);
    const std::int64_t first = step * graphs_ + setting_.first(graphs_);
    std::vector<std::int64_t> neighbours, degrees, sizes;
    std::vector<double> known;
    std::int64_t start = 0;
    for (std::int64_t graph = first; graph < first + mine; ++graph) {
      sizes.push_back(1 + whole(100, graph, most_));
      for (std::int64_t i = 0; i < sizes.back(); ++i) {
        const std::int64_t node = graph * most_ + i;
        degrees.push_back(whole(101, node, neighbours_ + 1));
        for (std::int64_t k = 0; k < degrees.back(); ++k)
          neighbours.push_back(start + whole(102, node * neighbours_ + k, sizes.back()));
        for (std::int64_t k = 0; k < width_; ++k)
          known.push_back(2 * number(103, node * width_ + k) - 1);
      }
      start += sizes.back();
    }
    const auto edges = static_cast<std::int64_t>(neighbours.size());
    Array share(setting_.dtype, {start, 1});
    for (std::int64_t i = 0; i < start; ++i)
      share.set(i, 1 / std::max(1.0, static_cast<double>(degrees[static_cast<std::size_t>(i)])));
    return {Array::of(setting_.dtype, {start, width_}, known),
            integers({edges}, neighbours),
            integers({start}, degrees),
            share,
            integers({mine}, sizes),
            spread(setting_.dtype, {mine}, 104, 1, first)};
  }

  [[nodiscard]] Tensor loss(const Tensors& parameters, const Tensors& batch) const override {
    InOrder p(parameters);
    Tensor x = batch[0];
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      const Tensor seen = segment_sum({index_select(x, batch[1]), batch[2]}) * batch[3];
      const Tensor own = matmul(x, p.next());
      const Tensor others = matmul(seen, p.next());
      x = relu(own + others + p.next());
    }
    const Tensor found = segment_sum({matmul(x, p.next()), batch[4]});
    return mse_loss(squeeze(found, 1), batch[5], Reduction::Sum) / static_cast<double>(graphs_);
  }

 private:
  Setting setting_;
  std::int64_t graphs_, most_, neighbours_, width_, layers_;
};

}  // namespace

std::unique_ptr<Workload> graph(const Setting& setting) { return std::make_unique<Graph>(setting); }

}  // namespace lockstep::suite
