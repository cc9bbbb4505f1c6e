// Ops whose results have as many elements as the data says: against plain loops, interpreted and
// compiled.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "compiled_graph.h"
#include "tracing.h"

#include <lockstep/worker/tensor/graph/error_sync_points.h>
#include <lockstep/worker/tensor/language/selection_ops.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker::selection_test {
namespace {

using test::DecisionBuilder;
using test::dynamic;
using test::setup;

const std::vector<std::int64_t> kSizes{0, 1, 2, 5, 13, 31};

Graph must(Result<Graph> graph) {
  EXPECT_TRUE(graph.has_value()) << graph.error().text();
  return graph ? *graph : Graph{};
}

/// What went wrong in the trace.
std::string refusal(const Result<Graph>& graph) {
  EXPECT_FALSE(graph.has_value());
  return graph ? std::string() : graph.error().message;
}

Graph traced(const DecisionBuilder& decision, const std::function<void(Trace&)>& body) {
  return must(trace(setup(decision.get()), body));
}

bool has_assert(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& n) { return n.op == Op::Assert; });
}

/// Compiled and interpreted agree, and give `expected`.
void expect_run(const Graph& graph, Executable& executable, const Inputs& inputs,
                const std::vector<Array>& expected) {
  const auto interpreted = run_interpreted(graph, inputs);
  ASSERT_TRUE(interpreted) << interpreted.error().text() << "\n" << graph.text();
  EXPECT_TRUE(same(*interpreted, expected, 1e-12)) << graph.text();
  EXPECT_TRUE(agree(executable, inputs, 1e-12));
}

std::vector<std::int64_t> trues(const Array& mask) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < mask.elements(); ++i)
    if (mask.at(i) != 0) out.push_back(i);
  return out;
}

std::int64_t width_of(const Array& x, std::size_t from) {
  std::int64_t width = 1;
  for (std::size_t d = from; d < x.sizes().size(); ++d) width *= x.sizes()[d];
  return width;
}

/// Rows of `x`, over its first `leading` dims, by number.
Array rows_at(const Array& x, std::size_t leading, const std::vector<std::int64_t>& rows) {
  std::vector<std::int64_t> sizes{static_cast<std::int64_t>(rows.size())};
  sizes.insert(sizes.end(), x.sizes().begin() + static_cast<std::ptrdiff_t>(leading),
               x.sizes().end());
  Array out(x.dtype(), sizes);
  const std::int64_t width = width_of(x, leading);
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::int64_t i = 0; i < width; ++i)
      out.set(static_cast<std::int64_t>(r) * width + i, x.at(rows[r] * width + i));
  return out;
}

Array coordinates(const Array& x) {
  const std::vector<std::int64_t> at = trues(x);
  const auto rank = static_cast<std::int64_t>(x.sizes().size());
  Array out(DType::I64, {static_cast<std::int64_t>(at.size()), rank});
  for (std::size_t k = 0; k < at.size(); ++k)
    for (std::int64_t d = rank, rest = at[k]; d-- > 0;
         rest /= x.sizes()[static_cast<std::size_t>(d)])
      out.data_as<std::int64_t>()[static_cast<std::int64_t>(k) * rank + d] =
          rest % x.sizes()[static_cast<std::size_t>(d)];
  return out;
}

TEST(Selection, Nonzero_OfEveryDtypeAndRank_AsPlainLoops) {
  std::mt19937_64 random(41);
  for (const DType dtype : {DType::F64, DType::F32, DType::I64, DType::U8, DType::Bool}) {
    const Graph graph = traced(DecisionBuilder()
                                   .tensor("p", dtype, {})
                                   .tensor("v", dtype, {dynamic(5, 0)})
                                   .tensor("x", dtype, {dynamic(5, 0), dynamic(4, 0), 3}),
                               [](Trace& t) {
                                 for (std::size_t i = 0; i < 3; ++i)
                                   t.output("y" + std::to_string(i), nonzero(t.tensor_input(i)));
                               });
    const auto executable = compile(graph);
    ASSERT_NE(executable, nullptr);
    for (const std::int64_t n : kSizes)
      for (const std::int64_t m : {0, 1, 2, 5}) {
        const Array p = random_array(random, dtype, {}), v = random_array(random, dtype, {n}, true),
                    x = random_array(random, dtype, {n, m, 3}, true);
        expect_run(graph, *executable, {{"p", p}, {"v", v}, {"x", x}},
                   {coordinates(p), coordinates(v), coordinates(x)});
      }
  }
}

TEST(Selection, MaskedSelectAndIndexing_AsPlainLoops) {
  std::mt19937_64 random(42);
  for (const DType dtype : {DType::F64, DType::I32, DType::Bool}) {
    const Graph graph = traced(DecisionBuilder()
                                   .tensor("a", DType::Bool, {dynamic(5, 0), dynamic(4, 0)})
                                   .tensor("r", DType::Bool, {dynamic(5, 0)})
                                   .tensor("x", dtype, {dynamic(5, 0), dynamic(4, 0), 2})
                                   .tensor("z", dtype, {dynamic(4, 0)}),
                               [](Trace& t) {
                                 const Tensor a = t.tensor_input(0), r = t.tensor_input(1),
                                              x = t.tensor_input(2);
                                 t.output("both", x[a]);
                                 t.output("rows", x[r]);
                                 t.output("each", masked_select(x, unsqueeze(a, 2)));
                                 t.output("wide", masked_select(t.tensor_input(3), a));
                               });
    const auto executable = compile(graph);
    ASSERT_NE(executable, nullptr);
    for (const std::int64_t n : kSizes)
      for (const std::int64_t m : {0, 1, 2, 5}) {
        const Array a = random_array(random, DType::Bool, {n, m}),
                    r = random_array(random, DType::Bool, {n}),
                    x = random_array(random, dtype, {n, m, 2}, true),
                    z = random_array(random, dtype, {m});
        std::vector<std::int64_t> each, wide;
        for (const std::int64_t i : trues(a)) {
          each.insert(each.end(), {2 * i, 2 * i + 1});
          wide.push_back(i % m);
        }
        expect_run(graph, *executable, {{"a", a}, {"r", r}, {"x", x}, {"z", z}},
                   {rows_at(x, 2, trues(a)), rows_at(x, 1, trues(r)), rows_at(x, 3, each),
                    rows_at(z, 1, wide)});
      }
  }
}

/// Ascending, not-a-numbers last and each of its own.
bool before(double a, double b) { return a < b || (a == a && b != b); }

std::vector<Array> unique_by_loops(const Array& x) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < x.elements(); ++i)
    if (std::ranges::find(values, x.at(i)) == values.end()) values.push_back(x.at(i));
  std::ranges::stable_sort(values, before);
  Array inverse(DType::I64, x.sizes());
  std::vector<std::int64_t> counts(values.size(), 0);
  std::vector<bool> taken(values.size(), false);
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    std::size_t at = 0;
    while (values[at] != x.at(i) && !(std::isnan(x.at(i)) && std::isnan(values[at]) && !taken[at]))
      ++at;
    taken[at] = true;
    inverse.data_as<std::int64_t>()[i] = static_cast<std::int64_t>(at);
    ++counts[at];
  }
  const auto n = static_cast<std::int64_t>(values.size());
  return {Array::of(x.dtype(), {n}, values), inverse, integers({n}, counts)};
}

TEST(Selection, Unique_OfEveryDtype_AsPlainLoops) {
  std::mt19937_64 random(43);
  for (const DType dtype : {DType::F64, DType::F32, DType::I64, DType::I8, DType::Bool}) {
    const Graph graph =
        traced(DecisionBuilder().tensor("x", dtype, {dynamic(5, 0), dynamic(4, 0)}), [](Trace& t) {
          const Unique u = unique(t.tensor_input(0));
          t.output("values", u.values);
          t.output("inverse", u.inverse);
          t.output("counts", u.counts);
        });
    const auto executable = compile(graph);
    ASSERT_NE(executable, nullptr);
    for (const std::int64_t n : kSizes)
      for (const std::int64_t m : {0, 1, 3}) {
        const Array x = random_array(random, dtype, {n, m}, true);
        expect_run(graph, *executable, {{"x", x}}, unique_by_loops(x));
      }
  }
}

/// Of rows of x [n, m], in the order of their elements; a row with a not-a-number is one of its
/// own.
std::vector<Array> unique_rows_by_loops(const Array& x) {
  const std::int64_t n = x.sizes()[0], m = x.sizes()[1];
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
    for (std::int64_t c = 0; c < m; ++c) {
      if (before(x.at(a * m + c), x.at(b * m + c))) return true;
      if (before(x.at(b * m + c), x.at(a * m + c))) return false;
    }
    return false;
  });
  std::vector<double> values;
  std::vector<std::int64_t> counts;
  Array inverse(DType::I64, {n});
  for (std::size_t i = 0; i < order.size(); ++i) {
    bool same = i > 0;
    for (std::int64_t c = 0; c < m; ++c)
      same = same && x.at(order[i] * m + c) == x.at(order[i - 1] * m + c);
    if (!same) {
      counts.push_back(0);
      for (std::int64_t c = 0; c < m; ++c) values.push_back(x.at(order[i] * m + c));
    }
    ++counts.back();
    inverse.data_as<std::int64_t>()[order[i]] = static_cast<std::int64_t>(counts.size()) - 1;
  }
  const auto u = static_cast<std::int64_t>(counts.size());
  return {Array::of(x.dtype(), {u, m}, values), inverse, integers({u}, counts)};
}

TEST(Selection, UniqueSlices_AlongEitherDim_AsPlainLoops) {
  std::mt19937_64 random(47);
  for (const DType dtype : {DType::F64, DType::I64, DType::Bool})
    for (const std::int64_t m : {0, 1, 3}) {
      const Graph graph =
          traced(DecisionBuilder().tensor("x", dtype, {dynamic(5, 0), m}), [](Trace& t) {
            const Tensor x = t.tensor_input(0);
            const Unique rows = unique(x, 0), columns = unique(transpose(x, 0, 1), -1);
            t.output("values", rows.values);
            t.output("inverse", rows.inverse);
            t.output("counts", rows.counts);
            t.output("values of columns", transpose(columns.values, 0, 1));
            t.output("inverse of columns", columns.inverse);
            t.output("counts of columns", columns.counts);
          });
      const auto executable = compile(graph);
      ASSERT_NE(executable, nullptr);
      for (const std::int64_t n : kSizes) {
        const Array x = random_array(random, dtype, {n, m}, true);
        std::vector<Array> expected = unique_rows_by_loops(x);
        expected.insert(expected.end(), {expected[0], expected[1], expected[2]});
        expect_run(graph, *executable, {{"x", x}}, expected);
      }
    }
  const std::string why = refusal(
      trace(setup(DecisionBuilder().tensor("x", DType::F64, {dynamic(5, 0), dynamic(4, 0)}).get()),
            [](Trace& t) { (void)unique(t.tensor_input(0), 0); }));
  EXPECT_NE(why.find("unique: the sizes of all dims but that one have to be numbers"),
            std::string::npos)
      << why;
}

TEST(Selection, RepeatInterleave_ByTensorListAndNumber_AsPlainLoops) {
  std::mt19937_64 random(44);
  const Graph graph = traced(DecisionBuilder()
                                 .tensor("one", DType::I64, {1})
                                 .tensor("r", DType::I64, {dynamic(5, 0)})
                                 .tensor("x", DType::F64, {dynamic(5, 0), 3}),
                             [](Trace& t) {
                               const Tensor one = t.tensor_input(0), r = t.tensor_input(1),
                                            x = t.tensor_input(2);
                               t.output("rows", repeat_interleave(x, r, 0));
                               t.output("same", repeat_interleave(x, one, -1));
                               t.output("list", repeat_interleave(x, {x.size(0), 0, 2}, 1));
                               t.output("twice", repeat_interleave(x, 2, 0));
                             });
  const auto executable = compile(graph);
  ASSERT_NE(executable, nullptr);
  const auto columns = [](const Array& x, const std::vector<std::int64_t>& repeats) {
    Array out(x.dtype(), {x.sizes()[0], repeats[0] + repeats[1] + repeats[2]});
    std::int64_t at = 0;
    for (std::int64_t row = 0; row < x.sizes()[0]; ++row)
      for (std::int64_t c = 0; c < 3; ++c)
        for (std::int64_t k = 0; k < repeats[static_cast<std::size_t>(c)]; ++k)
          out.set(at++, x.at(3 * row + c));
    return out;
  };
  for (const std::int64_t n : kSizes) {
    const Array x = random_array(random, DType::F64, {n, 3}), r = random_indices(random, n, 4);
    const std::int64_t one = static_cast<std::int64_t>(random() % 3);
    std::vector<std::int64_t> rows, twice;
    for (std::int64_t i = 0; i < n; ++i) {
      rows.insert(rows.end(), static_cast<std::size_t>(r.at(i)), i);
      twice.insert(twice.end(), 2, i);
    }
    expect_run(graph, *executable, {{"one", integers({1}, {one})}, {"r", r}, {"x", x}},
               {rows_at(x, 1, rows), columns(x, {one, one, one}), columns(x, {n, 0, 2}),
                rows_at(x, 1, twice)});
  }
}

TEST(Selection, RepeatsThatAreNoCounts_EndTheRun) {
  std::uint32_t line = 0;
  const Graph graph = traced(
      DecisionBuilder().tensor("r", DType::I64, {3}).tensor("x", DType::F64, {3}), [&](Trace& t) {
        line = __LINE__ + 1;
        t.output("y", repeat_interleave(t.tensor_input(1), t.tensor_input(0), 0));
      });
  const auto executable = compile(graph);
  ASSERT_NE(executable, nullptr);
  const std::vector<double> x{1, 2, 3};
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  for (const auto& repeats : std::vector<std::vector<std::int64_t>>{
           {5, -2, 1}, {-5, 2, 1}, {kHuge, kHuge, 1}, {INT64_MAX, INT64_MAX, 5}}) {
    const Inputs inputs{{"r", integers({3}, repeats)}, {"x", Array::of(DType::F64, {3}, x)}};
    const auto got = run_compiled(*executable, inputs);
    ASSERT_FALSE(got.has_value());
    EXPECT_EQ(got.error().code, Code::RuntimeAssert) << got.error().text();
    EXPECT_NE(got.error().message.find("selection_test.cpp:" + std::to_string(line)),
              std::string::npos)
        << got.error().text();
    EXPECT_TRUE(agree(*executable, inputs, 0));
  }
}

TEST(Selection, CountsOfOneMask_AreOneSymbolAndOneHostSync) {
  const Graph graph = traced(DecisionBuilder()
                                 .tensor("m", DType::Bool, {dynamic(5, 0)})
                                 .tensor("x", DType::F32, {dynamic(5, 0)}),
                             [](Trace& t) {
                               const Tensor m = t.tensor_input(0), x = t.tensor_input(1);
                               const Tensor a = nonzero(m), b = nonzero(m), c = masked_select(x, m),
                                            d = x[m];
                               EXPECT_EQ(a.node(), b.node());
                               EXPECT_EQ(c.node(), d.node());
                               EXPECT_EQ(a.size(0).expr(), c.size(0).expr());
                               EXPECT_EQ(item(sum(cast(m, DType::I64))).expr(), c.size(0).expr());
                               t.output("y", c + cast(squeeze(a, 1), DType::F32));
                               t.output("z", nonzero(logical_not(m)));
                               EXPECT_NE(nonzero(logical_not(m)).size(0).expr(), c.size(0).expr());
                             });
  std::int64_t syncs = 0;
  for (const Node& node : graph.nodes) syncs += op_row(node.op).kind == OpClass::HostSync;
  EXPECT_EQ(syncs, 2);
  EXPECT_EQ(graph.joint_nodes().size(), 2U);
}

TEST(Selection, ACountIsCertain_SoNoVoteTellsOfIt) {
  const Graph graph =
      traced(DecisionBuilder().tensor("m", DType::Bool, {dynamic(5, 0)}), [](Trace& t) {
        const Tensor m = t.tensor_input(0);
        const SymInt count = nonzero(m).size(0);
        check(count >= 0);
        check(count <= m.size(0), "no more than there are");
        t.output("y", pad(nonzero(m), 0, 0, m.size(0) - count));
      });
  EXPECT_FALSE(has_assert(graph)) << graph.text();
  EXPECT_FALSE(error_sync_points(graph).at_end) << graph.text();
}

TEST(Selection, Masks_AreChecked) {
  const auto refused = [](const std::function<void(const Tensor&, const Tensor&)>& body) {
    const DecisionBuilder decision =
        DecisionBuilder().tensor("m", DType::Bool, {3}).tensor("x", DType::F32, {4, 2});
    return refusal(trace(setup(decision.get()),
                         [&](Trace& t) { body(t.tensor_input(0), t.tensor_input(1)); }));
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos && text.find("selection_test.cpp:") == 0;
  };
  const auto is = [&](const std::string& part,
                      const std::function<void(const Tensor&, const Tensor&)>& body) {
    const std::string text = refused(body);
    EXPECT_TRUE(contains(text.substr(std::min(text.size(), text.find("selection_test.cpp"))), part))
        << text;
  };
  is("an i64 tensor", [](const Tensor&, const Tensor& x) { (void)masked_select(x, x); });
  is("compare first", [](const Tensor&, const Tensor& x) { (void)x[x]; });
  is("fewer dims", [](const Tensor& m, const Tensor& x) { (void)m[x > 0.0]; });
  is("needs a mask", [](const Tensor& m, const Tensor& x) { (void)x[m]; });
  is("not a number", [](const Tensor&, const Tensor& x) { (void)x[2]; });
  is("negative", [](const Tensor& m, const Tensor&) { (void)repeat_interleave(m, -1, 0); });
  is("2 repeats", [](const Tensor& m, const Tensor&) {
    (void)repeat_interleave(m, Sizes{1, 1}, 0);
  });
  is("i64 or i32 indices",
     [](const Tensor& m, const Tensor&) { (void)repeat_interleave(m, m, 0); });
  is("bool", [](const Tensor&, const Tensor& x) { (void)any(x); });
  is("bool", [](const Tensor&, const Tensor& x) { (void)item_bool(sum(x)); });
}

}  // namespace
}  // namespace lockstep::worker::selection_test
