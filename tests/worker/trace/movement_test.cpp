// Where elements stand, beside plain loops: interpreted, compiled for the host, and on an emulated
// device.
#include "index_runs.h"

#include <lockstep/worker/tensor/language/movement_ops.h>

namespace lockstep::worker::movement_test {
namespace {

using namespace index_runs;

/// From the place of each element of the result, the place in x that it comes from; empty: zero.
using From = std::function<Numbers(const Numbers& place, const Numbers& sizes)>;

Array moved(const Array& x, const Numbers& sizes, const From& from) {
  Array out = Array::zeros(x.dtype(), sizes);
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    const Numbers at = from(place_of(i, sizes), x.sizes());
    if (!at.empty()) out.set(i, x.at(offset_of(at, x.sizes())));
  }
  return out;
}

/// What moves elements of a matrix, to which sizes, and from where.
struct Move {
  std::function<Tensor(const Tensor&)> body;
  std::function<Numbers(const Numbers&)> sizes;
  From from;
};

/// On matrices of many sizes, the empty ones too.
void expect_matrices(const std::vector<Move>& moves) {
  std::mt19937_64 random(21);
  for (const DType dtype : {DType::F64, DType::Bool}) {
    OnRanks ranks(must(traced_together({{dtype, {dynamic(4, 0), dynamic(3, 0)}}},
                                       [&](const std::vector<Tensor>& in) {
                                         std::vector<Tensor> results;
                                         for (const Move& move : moves)
                                           results.push_back(move.body(in[0]));
                                         return results;
                                       })),
                  1);
    for (const Numbers& sizes : {Numbers{0, 0}, {0, 3}, {2, 0}, {1, 1}, {1, 4}, {5, 2}, {3, 4}}) {
      const Array x = random_array(random, dtype, sizes);
      std::vector<Array> expected;
      for (const Move& move : moves) expected.push_back(moved(x, move.sizes(sizes), move.from));
      expect_everywhere(ranks, {x}, expected);
    }
  }
}

Numbers same_sizes(const Numbers& sizes) { return sizes; }
std::int64_t mod_of(std::int64_t a, std::int64_t b) { return b == 0 ? 0 : (a % b + b) % b; }

TEST(Movement, Triangles) {
  std::vector<Move> moves;
  for (const std::int64_t k : {-9, -1, 0, 2}) {
    moves.push_back(
        {[k](const Tensor& x) { return tril(x, k); }, same_sizes,
         [k](const Numbers& at, const Numbers&) { return at[1] - at[0] <= k ? at : Numbers{}; }});
    moves.push_back(
        {[k](const Tensor& x) { return triu(x, k); }, same_sizes,
         [k](const Numbers& at, const Numbers&) { return at[1] - at[0] >= k ? at : Numbers{}; }});
  }
  expect_matrices(moves);
}

TEST(Movement, Diagonals) {
  std::vector<Move> moves;
  for (const std::int64_t k : {-3, -1, 0, 1, 9}) {
    const auto length = [k](const Numbers& sizes) {
      const std::int64_t rows = sizes[0] + std::min<std::int64_t>(k, 0),
                         columns = sizes[1] - std::max<std::int64_t>(k, 0);
      return std::max<std::int64_t>(0, std::min(rows, columns));
    };
    moves.push_back({[k](const Tensor& x) { return diag(x, k); },
                     [length](const Numbers& sizes) { return Numbers{length(sizes)}; },
                     [k](const Numbers& at, const Numbers&) {
                       return Numbers{at[0] - std::min<std::int64_t>(k, 0),
                                      at[0] + std::max<std::int64_t>(k, 0)};
                     }});
    moves.push_back(
        {[k](const Tensor& x) { return diag_embed(x, k, -1, 0); },
         [k](const Numbers& sizes) {
           const std::int64_t side = sizes[1] + std::abs(k);
           return Numbers{side, sizes[0], side};
         },
         [k](const Numbers& at, const Numbers&) {
           // Rows stand last, columns first.
           return at[0] - at[2] == k ? Numbers{at[1], std::min(at[0], at[2])} : Numbers{};
         }});
  }
  expect_matrices(moves);
}

TEST(Movement, Roll_ComesInAtTheOtherEnd) {
  std::vector<Move> moves;
  for (const std::int64_t shift : {-7, -1, 0, 2, 5}) {
    moves.push_back({[shift](const Tensor& x) {
                       return roll(x, {shift, 1}, {1, 0});
                     },
                     same_sizes,
                     [shift](const Numbers& at, const Numbers& sizes) {
                       return Numbers{mod_of(at[0] - 1, sizes[0]), mod_of(at[1] - shift, sizes[1])};
                     }});
    moves.push_back({[shift](const Tensor& x) { return roll(x, {shift - x.size(0)}); }, same_sizes,
                     [shift](const Numbers& at, const Numbers& sizes) {
                       const std::int64_t all = sizes[0] * sizes[1];
                       return place_of(mod_of(offset_of(at, sizes) - shift + sizes[0], all), sizes);
                     }});
  }
  expect_matrices(moves);
}

TEST(Movement, StackChunkUnbindAndRepeat) {
  std::vector<Move> moves;
  moves.push_back({[](const Tensor& x) {
                     return stack({x, x}, -1);
                   },
                   [](const Numbers& sizes) {
                     return Numbers{sizes[0], sizes[1], 2};
                   },
                   [](const Numbers& at, const Numbers&) {
                     return Numbers{at[0], at[1]};
                   }});
  // Parts of two elements of five, the last one of one; of fewer, the last ones are empty.
  moves.push_back({[](const Tensor& x) {
                     const std::vector<Tensor> parts = chunk(x, 3, 0);
                     return cat({parts[1], parts[2], parts[0]}, 0);
                   },
                   same_sizes,
                   [](const Numbers& at, const Numbers& sizes) {
                     const std::int64_t each = std::min(sizes[0], (sizes[0] + 2) / 3);
                     return Numbers{mod_of(at[0] + each, sizes[0]), at[1]};
                   }});
  moves.push_back({[](const Tensor& x) {
                     return tile(x, {2, 1, 3});
                   },
                   [](const Numbers& sizes) {
                     return Numbers{2, sizes[0], 3 * sizes[1]};
                   },
                   [](const Numbers& at, const Numbers& sizes) {
                     return Numbers{at[1], at[2] % sizes[1]};
                   }});
  expect_matrices(moves);
  std::mt19937_64 random(22);
  const Graph graph = must(traced({{DType::F64, {3, dynamic(4, 0)}}}, [](const auto& in) {
    const std::vector<Tensor> rows = unbind(in[0]);
    return stack({rows[2], rows[0], select(in[0], 0, -2)});
  }));
  OnRanks ranks(graph, 1);
  const Array x = random_array(random, DType::F64, {3, 2});
  expect_everywhere(ranks, {x}, moved(x, {3, 2}, [](const Numbers& at, const Numbers&) {
                      return Numbers{(at[0] + 2) % 3, at[1]};
                    }));
}

TEST(Movement, DimsAndGrids) {
  std::mt19937_64 random(23);
  const Graph dims = must(traced({{DType::F64, {dynamic(2, 0), 6, dynamic(3, 0)}}}, [](auto& in) {
    const Tensor apart = unflatten(in[0], 1, {2, -1});
    return flatten(movedim(apart, {0, 3}, {-1, 0}), 1, 2);
  }));
  OnRanks ranks(dims, 1);
  for (const std::int64_t n : {0, 1, 2}) {
    const Array x = random_array(random, DType::F64, {n, 6, 3});
    expect_everywhere(ranks, {x}, moved(x, {3, 6, n}, [](const Numbers& at, const Numbers&) {
                        return Numbers{at[2], at[1], at[0]};
                      }));
  }
  for (const bool swapped : {false, true}) {
    const Graph grid =
        must(traced({{DType::F64, {dynamic(2, 0)}}, {DType::F64, {dynamic(3, 0)}}}, [&](auto& in) {
          const auto both = meshgrid({in[0], in[1]}, swapped ? Indexing::Xy : Indexing::Ij);
          return stack(both);
        }));
    OnRanks of(grid, 1);
    for (const std::int64_t n : {0, 1, 4}) {
      const Array a = random_array(random, DType::F64, {n}),
                  b = random_array(random, DType::F64, {3});
      Array expected(DType::F64, {2, swapped ? 3 : n, swapped ? n : 3});
      for (std::int64_t i = 0; i < expected.elements(); ++i) {
        const Numbers at = place_of(i, expected.sizes());
        expected.set(i, at[0] == 0 ? a.at(at[swapped ? 2 : 1]) : b.at(at[swapped ? 1 : 2]));
      }
      expect_everywhere(of, {a, b}, expected);
    }
  }
}

TEST(Movement, NothingOfItCanFailInTheRun) {
  const Graph graph =
      must(traced({{DType::F64, {dynamic(4, 0), dynamic(3, 0)}}}, [](const auto& in) {
        const Tensor x = in[0];
        const Tensor all = diag(roll(tril(x), {2}, {1}), 1);
        return sum(all) + sum(diag_embed(x)) + sum(chunk(x, 3)[2]) + sum(repeat(x, {2, 3}));
      }));
  for (const Node& node : graph.nodes) EXPECT_NE(node.op, Op::Assert) << graph.text();
  EXPECT_TRUE(graph.guards.empty()) << graph.text();
}

TEST(Movement, WhatDoesNotFit_IsRefusedInOneSentence) {
  const auto says = [](const std::string& words, const Body& body) {
    const std::string message =
        refusal(traced({{DType::F64, {dynamic(4), 3}}, {DType::F64, {2}}}, body));
    EXPECT_NE(message.find(words), std::string::npos) << message;
    EXPECT_NE(message.find("movement_test.cpp:"), std::string::npos) << message;
  };
  says("tril: takes matrices [.., M, N], not f64[2]", [](const auto& in) { return tril(in[1]); });
  says("diagonal: dim 1 is named twice", [](const auto& in) { return diagonal(in[0], 0, 1, -1); });
  says("diag: takes one or two dims", [](const auto& in) { return diag(unsqueeze(in[0], 0)); });
  says("roll: 2 shifts for 1 dims", [](const auto& in) { return roll(in[0], {1, 2}, {0}); });
  says("roll: takes one shift", [](const auto& in) { return roll(in[0], {1, 2}); });
  says("unbind: the size of dim 0 of f64[s0, 3] is not a number",
       [](const auto& in) { return unbind(in[0])[0]; });
  says("chunk: cannot make 0 parts", [](const auto& in) { return chunk(in[0], 0)[0]; });
  says("repeat: takes a number for each dim", [](const auto& in) { return repeat(in[0], {2}); });
  says("repeat: a number is negative", [](const auto& in) { return repeat(in[0], {2, -1}); });
  says("movedim: a dim is named twice", [](const auto& in) {
    return movedim(in[0], {0, 1}, {1, -1});
  });
  says("meshgrid: takes tensors of one dim", [](const auto& in) { return meshgrid({in[0]})[0]; });
  says("flatten: dim 1 is behind dim 0", [](const auto& in) { return flatten(in[0], 1, 0); });
  says("stack: needs at least one", [](const auto&) { return stack({}); });
}

}  // namespace
}  // namespace lockstep::worker::movement_test
