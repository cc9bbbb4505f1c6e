// Random graphs of kernels, products and collectives with few dependencies on each other, so that
// much of a graph can be under way at a time.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "compiled_graph.h"
#include "graph_builder.h"

namespace lockstep::worker {

class RandomExchange {
 public:
  RandomExchange(std::uint64_t seed, int ranks) : seed_(seed), ranks_(ranks) {}

  [[nodiscard]] Graph graph() const {
    using shapes::Expr;
    std::mt19937_64 random(seed_);
    GraphBuilder g("exchange" + std::to_string(seed_));
    std::vector<NodeId> all;
    for (const char* name : {"a", "b"}) all.push_back(g.input(name, DType::F64, {Expr(width())}));
    const NodeId w = g.input("w", DType::F64, {Expr(6), Expr(6)});
    const auto any = [&] { return all[random() % all.size()]; };
    for (std::size_t count = 8 + random() % 12; count > 0; --count) {
      g.line(static_cast<std::uint32_t>(all.size()));
      switch (random() % 9) {
        case 0:
          all.push_back(g.op(Op::Tanh, {g.op(Op::Add, {any(), any()})}));
          break;
        case 1:
          all.push_back(g.op(Op::Tanh, {g.op(Op::Cumsum, {any()})}));
          break;
        case 2:
          all.push_back(
              g.reshape(g.op(Op::Matmul, {g.reshape(any(), {Expr(width() / 6), Expr(6)}), w}),
                        {Expr(width())}));
          break;
        case 3:
        case 4:
          all.push_back(g.collective(Op::AllReduce, any(), static_cast<int>(random() % 3)));
          break;
        case 5:
          all.push_back(g.collective(Op::Broadcast, any(),
                                     static_cast<int>(random() % static_cast<unsigned>(ranks_))));
          break;
        case 6:
          all.push_back(g.reduce(
              Op::Sum,
              g.reshape(g.collective(Op::AllGather, any(), ranks_), {Expr(ranks_), Expr(width())}),
              {0}));
          break;
        case 7:
          all.push_back(
              g.collective(Op::AllGather, g.collective(Op::ReduceScatter, any(), ranks_), ranks_));
          break;
        default: {
          const std::vector<Expr> share(static_cast<std::size_t>(ranks_), Expr(kShare));
          all.push_back(g.all_to_all(any(), share, share));
        }
      }
    }
    for (int k = 0; k < 3; ++k) g.output(any());
    g.output(all.back());
    return g.take();
  }

  [[nodiscard]] std::vector<Inputs> inputs() const {
    std::mt19937_64 random(seed_ + 1);
    std::vector<Inputs> out(static_cast<std::size_t>(ranks_));
    for (Inputs& inputs : out) {
      for (const char* name : {"a", "b"})
        inputs[name] = random_array(random, DType::F64, {width()});
      inputs["w"] = random_array(random, DType::F64, {6, 6});
    }
    return out;
  }

 private:
  static constexpr std::int64_t kShare = 24;
  [[nodiscard]] std::int64_t width() const { return kShare * ranks_; }

  std::uint64_t seed_;
  int ranks_;
};

}  // namespace lockstep::worker
