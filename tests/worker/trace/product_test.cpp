// Products against sums over every index: matmul of any dims, and einsum on random equations.
#include <functional>
#include <map>

#include "traced_run.h"

#include <lockstep/worker/tensor/language/product_ops.h>

namespace lockstep::worker::product_test {
namespace {

using test::random_f64;
using test::refusal;
using test::TracedRun;
using In = const std::vector<Tensor>&;
using Index = std::map<int, std::int64_t>;  // of each label

/// Row-major place of an element whose dims have these labels; a dim of size 1 has the index 0.
std::int64_t place_of(const std::vector<std::int64_t>& sizes, const std::vector<int>& labels,
                      const Index& index) {
  std::int64_t place = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d)
    place = place * sizes[d] + (sizes[d] == 1 ? 0 : index.at(labels[d]));
  return place;
}

/// Adds every product to the element of the result that its labels name.
Array summed_products(const std::vector<Array>& xs, const std::vector<std::vector<int>>& labels,
                      const std::vector<int>& result, const std::map<int, std::int64_t>& sizes) {
  std::vector<std::int64_t> out_sizes;
  for (const int label : result) out_sizes.push_back(sizes.at(label));
  Array out = Array::zeros(xs[0].dtype(), out_sizes);
  Index index;
  const std::function<void(std::map<int, std::int64_t>::const_iterator)> over =
      [&](std::map<int, std::int64_t>::const_iterator label) {
        if (label == sizes.end()) {
          double product = 1;
          for (std::size_t i = 0; i < xs.size(); ++i)
            product *= xs[i].at(place_of(xs[i].sizes(), labels[i], index));
          const std::int64_t place = place_of(out_sizes, result, index);
          out.set(place, out.at(place) + product);
          return;
        }
        for (std::int64_t i = 0; i < label->second; ++i) {
          index[label->first] = i;
          over(std::next(label));
        }
      };
  over(sizes.begin());
  return out;
}

/// Labels of torch's rules for matmul: of a vector the summed dim alone.
struct MatmulLabels {
  std::vector<int> left, right, result;
};
MatmulLabels matmul_labels(std::size_t a, std::size_t b) {
  MatmulLabels out;
  const auto batch = [](std::size_t dims) {
    std::vector<int> labels;
    for (std::size_t d = dims; d > 2; --d) labels.push_back(-static_cast<int>(d));
    return labels;
  };
  out.left = batch(a), out.right = batch(b), out.result = batch(std::max(a, b));
  if (a > 1) out.left.push_back('m'), out.result.push_back('m');
  out.left.push_back('k');
  out.right.push_back('k');
  if (b > 1) out.right.push_back('n'), out.result.push_back('n');
  return out;
}

/// Elements from -3 to 3 where they are ints.
Array factor_of(DType dtype, std::uint64_t seed, const std::vector<std::int64_t>& sizes) {
  if (dtype == DType::F64) return random_f64(seed, sizes);
  Array out = Array::zeros(dtype, sizes);
  for (std::int64_t i = 0; i < out.elements(); ++i)
    out.set(i, static_cast<double>((i * 5 + static_cast<std::int64_t>(seed)) % 7 - 3));
  return out;
}

TEST(Matmul, AnyBatchDims_AsSummedByHand) {
  using S = std::vector<std::int64_t>;
  const std::vector<std::pair<S, S>> shapes{{{5}, {5}},
                                            {{5}, {5, 3}},
                                            {{2, 5}, {5}},
                                            {{5}, {4, 5, 3}},
                                            {{4, 2, 5}, {5}},
                                            {{2, 5}, {4, 5, 3}},
                                            {{4, 2, 5}, {5, 3}},
                                            {{4, 2, 5}, {4, 5, 3}},
                                            {{1, 2, 5}, {4, 5, 3}},
                                            {{4, 2, 5}, {1, 5, 3}},
                                            {{6, 4, 2, 5}, {4, 5, 3}},
                                            {{6, 1, 2, 5}, {4, 5, 3}},
                                            {{2, 5}, {1, 1, 5, 3}},
                                            {{0, 5}, {5, 3}},
                                            {{2, 0}, {0, 3}},
                                            {{4, 2, 0}, {4, 0, 3}},
                                            {{0, 2, 5}, {0, 5, 3}},
                                            {{2, 5}, {0, 5, 3}}};
  for (const DType dtype : {DType::F64, DType::I64}) {
    std::vector<Array> inputs, expected;
    for (const auto& [left, right] : shapes) {
      const Array a = factor_of(dtype, 1, left), b = factor_of(dtype, 2, right);
      inputs.insert(inputs.end(), {a, b});
      const MatmulLabels labels = matmul_labels(left.size(), right.size());
      std::map<int, std::int64_t> sizes;
      for (std::size_t d = 0; d < left.size(); ++d) sizes[labels.left[d]] = left[d];
      for (std::size_t d = 0; d < right.size(); ++d) {
        std::int64_t& size = sizes.try_emplace(labels.right[d], 1).first->second;
        if (size == 1) size = right[d];
      }
      expected.push_back(
          summed_products({a, b}, {labels.left, labels.right}, labels.result, sizes));
    }
    const auto body = [](Trace&, In x) {
      std::vector<Tensor> out;
      for (std::size_t i = 0; i < x.size(); i += 2) out.push_back(matmul(x[i], x[i + 1]));
      return out;
    };
    TracedRun program(inputs, body, {1});
    EXPECT_TRUE(same(program.run(inputs), expected, 1e-12)) << program.graph().text();
    EXPECT_TRUE(program.graph().guards.empty());
  }
}

TEST(Matmul, OneGraph_ServesSizes0125) {
  TracedRun program({random_f64(1, {3, 4, 5}), random_f64(2, {7, 3, 5, 2})},
                    [](Trace&, In x) { return std::vector{matmul(x[0], x[1])}; });
  for (const std::int64_t n : {0, 1, 2, 5})
    for (const std::int64_t k : {0, 1, 2, 5}) {
      const Array a = random_f64(3, {n, 2, k}), b = random_f64(4, {3, n, k, n});
      const std::map<int, std::int64_t> sizes{{-4, 3}, {-3, n}, {'m', 2}, {'k', k}, {'n', n}};
      const Array expected =
          summed_products({a, b}, {{-3, 'm', 'k'}, {-4, -3, 'k', 'n'}}, {-4, -3, 'm', 'n'}, sizes);
      EXPECT_TRUE(same(program.run({a, b}), {expected}, 1e-12)) << n << " " << k;
    }
}

std::string refused(const std::vector<Array>& like, const TracedRun::Body& body) {
  return refusal(like, body, {1, 2, 3, 4, 5, 6, 7});
}

TEST(Matmul, WhatDoesNotFit_IsRefused) {
  const auto product = [](Trace&, In x) { return std::vector{matmul(x[0], x[1])}; };
  EXPECT_NE(refused({random_f64(1, {2, 3}), random_f64(1, {4, 5})}, product)
                .find("matmul: sizes 3 and 4 do not fit"),
            std::string::npos);
  EXPECT_NE(refused({random_f64(1, {}), random_f64(1, {4, 5})}, product)
                .find("matmul: takes tensors with dims, not f64[] and f64[4, 5]; write * for"),
            std::string::npos);
  EXPECT_NE(refused({random_f64(1, {2, 4, 3}), random_f64(1, {3, 3, 5})}, product)
                .find("matmul: sizes 2 and 3 do not fit"),
            std::string::npos);
  EXPECT_NE(refused({random_f64(1, {1, 4, 3}), random_f64(1, {2, 3, 5})},
                    [](Trace&, In x) { return std::vector{bmm(x[0], x[1])}; })
                .find("bmm: sizes 1 and 2 do not fit"),
            std::string::npos);
  EXPECT_NE(refused({random_f64(1, {3, 3}), random_f64(1, {3})},
                    [](Trace&, In x) { return std::vector{dot(x[0], x[1])}; })
                .find("dot: takes a 1-D and a 1-D tensor, not f64[3, 3] and f64[3]"),
            std::string::npos);
}

/// A random equation with operands for it.
struct Equation {
  std::string text;
  std::vector<std::vector<std::int64_t>> operand_sizes;
  std::vector<std::vector<int>> labels;  // unnamed dims: -1 is the last, -2 the one before
  std::vector<int> result;
  std::map<int, std::int64_t> sizes;
};

Equation random_equation(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t n) { return static_cast<int>(random() % n); };
  const auto space = [&] { return std::string(static_cast<std::size_t>(below(4) == 0), ' '); };
  Equation out;
  const std::string pool = "abXyZ";
  const std::vector<std::int64_t> some{2, 3, 2, 3, 1, 0};
  for (const char letter : pool) out.sizes[letter] = some[static_cast<std::size_t>(below(6))];
  const int unnamed = below(3);
  for (int i = 1; i <= unnamed; ++i) out.sizes[-i] = 2 + below(2);
  std::map<int, int> times;
  int most_unnamed = 0;
  for (int n = 1 + below(4), i = 0; i < n; ++i) {
    if (i > 0) out.text += "," + space();
    std::vector<int> labels;
    const int letters = below(4),
              dots = below(3) == 0 ? below(static_cast<std::uint64_t>(letters) + 1) : -1;
    for (int l = 0; l <= letters; ++l) {
      if (l == dots) {
        const int mine = below(static_cast<std::uint64_t>(unnamed) + 1);
        for (int d = mine; d > 0; --d) labels.push_back(-d);
        most_unnamed = std::max(most_unnamed, mine);
        out.text += "..." + space();
      }
      if (l == letters) break;
      labels.push_back(pool[static_cast<std::size_t>(below(pool.size()))]);
      out.text += std::string(1, static_cast<char>(labels.back())) + space();
    }
    std::vector<std::int64_t> sizes;
    for (const int label : labels) {
      ++times[label];
      const bool alone = std::ranges::count(labels, label) == 1;
      sizes.push_back(alone && below(6) == 0 ? 1 : out.sizes[label]);
    }
    out.labels.push_back(labels);
    out.operand_sizes.push_back(sizes);
  }
  // What no operand has, or has at size 1 alone.
  for (auto& [label, size] : out.sizes) {
    std::int64_t seen = 1;
    for (std::size_t i = 0; i < out.labels.size(); ++i)
      for (std::size_t d = 0; d < out.labels[i].size(); ++d)
        if (out.labels[i][d] == label && out.operand_sizes[i][d] != 1) seen = size;
    size = seen;
  }
  for (int d = most_unnamed; d > 0; --d) out.result.push_back(-d);
  if (below(4) == 0) {
    for (const auto& [label, n] : times)
      if (label > 0 && n == 1) out.result.push_back(label);
    return out;
  }
  const bool keeps = below(3) > 0;
  if (!keeps) out.result.clear();
  out.text += "->" + space() + (keeps ? "..." : "");
  for (const auto& [label, n] : times)
    if (label > 0 && below(2) == 0) {
      out.result.push_back(label);
      out.text += static_cast<char>(label) + space();
    }
  return out;
}

TEST(Einsum, RandomEquations_AsSummedByHand) {
  constexpr std::uint64_t kSeed = 20261123;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 4; ++round) {
    std::vector<Equation> equations;
    std::vector<Array> inputs;
    for (int i = 0; i < 40; ++i) {
      equations.push_back(random_equation(random));
      for (const auto& sizes : equations.back().operand_sizes)
        inputs.push_back(random_f64(random(), sizes));
    }
    TracedRun program(inputs,
                      [&](Trace&, In x) {
                        std::vector<Tensor> out;
                        auto next = x.begin();
                        for (const Equation& equation : equations) {
                          const auto end =
                              next + static_cast<std::ptrdiff_t>(equation.labels.size());
                          out.push_back(einsum(equation.text, {next, end}));
                          next = end;
                        }
                        return out;
                      },
                      {1});
    const std::vector<Array> got = program.run(inputs);
    ASSERT_EQ(got.size(), equations.size()) << "seed " << kSeed << " round " << round;
    auto next = inputs.begin();
    for (std::size_t e = 0; e < equations.size(); ++e) {
      const Equation& equation = equations[e];
      const auto end = next + static_cast<std::ptrdiff_t>(equation.labels.size());
      const Array expected =
          summed_products({next, end}, equation.labels, equation.result, equation.sizes);
      EXPECT_TRUE(same({got[e]}, {expected}, 1e-12))
          << "seed " << kSeed << " round " << round << ": \"" << equation.text << "\" of "
          << testing::PrintToString(equation.operand_sizes);
      next = end;
    }
  }
}

TEST(Einsum, EqualLetters_BecomeOneSizeOfOneGraph) {
  TracedRun program({random_f64(1, {3, 4, 3}), random_f64(2, {4, 6})}, [](Trace&, In x) {
    return std::vector{einsum("iji,jk", {x[0], x[1]})};
  });
  EXPECT_TRUE(program.graph().guards.empty());
  for (const std::int64_t n : {0, 1, 2, 5})
    for (const std::int64_t m : {0, 1, 2, 5}) {
      const Array a = random_f64(3, {n, m, n}), b = random_f64(4, {m, n});
      const Array expected = summed_products({a, b}, {{'i', 'j', 'i'}, {'j', 'k'}}, {'k'},
                                             {{'i', n}, {'j', m}, {'k', n}});
      EXPECT_TRUE(same(program.run({a, b}), {expected}, 1e-12)) << n << " " << m;
    }
}

/// Whether some value of the graph has these sizes.
bool has_value_of(const Graph& graph, const std::vector<std::int64_t>& sizes) {
  return std::ranges::any_of(graph.nodes, [&](const Node& node) {
    return std::ranges::equal(node.meta.sizes, sizes, [](const shapes::Expr& a, std::int64_t b) {
      return a == shapes::Expr(b);
    });
  });
}

TEST(Einsum, TheOrder_FollowsTheHintsAndLeavesNoGuard) {
  const auto chain = [](Trace&, In x) { return std::vector{einsum("ij,jk,kl", x)}; };
  const auto graph_of = [&](std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l,
                            const std::vector<std::int64_t>& fixed) {
    return TracedRun({random_f64(1, {i, j}), random_f64(2, {j, k}), random_f64(3, {k, l})}, chain,
                     fixed)
        .graph();
  };
  EXPECT_FALSE(has_value_of(graph_of(40, 2, 50, 3, {2, 3, 40, 50}), {40, 50}));
  EXPECT_FALSE(has_value_of(graph_of(3, 50, 2, 40, {2, 3, 40, 50}), {50, 40}));
  const Graph left = graph_of(3, 50, 2, 40, {}), right = graph_of(40, 2, 50, 3, {});
  EXPECT_NE(left.fingerprint(), right.fingerprint());
  EXPECT_TRUE(left.guards.empty());
  EXPECT_TRUE(right.guards.empty());
}

TEST(Einsum, BadEquations_AreRefusedInOneSentence) {
  const std::vector<Array> two{random_f64(1, {2, 3}), random_f64(2, {3, 2})};
  const auto said = [&](const std::string& text, const std::vector<Array>& of) {
    const std::string words =
        refused(of, [&](Trace&, In x) { return std::vector{einsum(text, x)}; });
    const std::size_t start = words.find("einsum: ");
    EXPECT_NE(start, std::string::npos) << words;
    return start == std::string::npos ? words : words.substr(start);
  };
  EXPECT_EQ(said("ij", two), "einsum: operands of the equation: 1, tensors: 2");
  EXPECT_EQ(said("ij,jk,kl->il", two), "einsum: operands of the equation: 3, tensors: 2");
  EXPECT_EQ(said("i1,jk", two),
            "einsum: \"i1\" holds '1'; write letters for dims, as in \"ij,jk->ik\"");
  EXPECT_EQ(said("ij,jk->i.k", two),
            "einsum: \"i.k\" holds '.'; write letters for dims, as in \"ij,jk->ik\"");
  EXPECT_EQ(said("......,jk", two), "einsum: \"...\" stands twice in one operand");
  EXPECT_EQ(said("ijk,jk", two),
            "einsum: operand 0 of the equation has 3 letters for f64[2, 3]; write \"...\" for dims "
            "without a name");
  EXPECT_EQ(said("i,jk", two),
            "einsum: operand 0 of the equation has 1 letters for f64[2, 3]; write \"...\" for dims "
            "without a name");
  EXPECT_EQ(said("ij,jk->ii", two), "einsum: the result names 'i' twice");
  EXPECT_EQ(said("ij,jk->iz", two), "einsum: the result names 'z', which no operand has");
  EXPECT_EQ(said("ij,ik", two), "einsum: sizes 2 and 3 do not fit");
  EXPECT_EQ(said("ii", {two[0]}), "einsum: sizes 2 and 3 do not fit");
  EXPECT_EQ(said("ij,ij", {two[0], integers({2, 3}, {1, 2, 3, 4, 5, 6})}),
            "einsum: dtypes differ: f64 and i64; cast() one of them");
}

}  // namespace
}  // namespace lockstep::worker::product_test
