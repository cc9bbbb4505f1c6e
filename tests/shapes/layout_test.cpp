// Strides and storage offsets as expressions of sizes: the numbered vector, each kind of tensor,
// and random tensors of several ranks against their real strides.
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include <lockstep/shapes/layout.h>

namespace lockstep::shapes {
namespace {

using Numbers = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;

// One rank's tensor.
struct Strided {
  Numbers sizes, strides;
  std::int64_t offset = 0;

  [[nodiscard]] Numbers canonical() const { return canonical_strides(sizes, strides); }
  [[nodiscard]] Dynamism seen() const {
    Dynamism out = Dynamism::of_tensor(sizes, strides);
    out.stride = {SeenDims::State::Tuple, canonical_encoding(sizes, strides)};
    return out;
  }
};

Strided contiguous(const Numbers& sizes) { return {sizes, contiguous_strides(sizes)}; }

// What a trace makes of tensors that the group has seen, all their dims dynamic.
struct Traced {
  ShapeEnv env;
  Layout layout;

  explicit Traced(const std::vector<Strided>& ranks, std::int64_t least = 2) {
    Dynamism seen;
    Seen offset;
    for (const Strided& one : ranks) {
      seen = join(seen, one.seen());
      offset = join(offset, Seen::constant(one.offset));
    }
    std::vector<Expr> sizes;
    for (std::size_t d = 0; d < ranks[0].sizes.size(); ++d) {
      sizes.push_back(
          env.backed("x.size(" + std::to_string(d) + ")", ranks[0].sizes[d], {least, Range::kMax}));
    }
    layout = infer_layout(env, "x", seen, offset, sizes, {ranks[0].canonical(), ranks[0].offset});
  }
  [[nodiscard]] Texts strides() const {
    Texts out;
    for (const Expr& e : layout.strides) out.push_back(e.text(env.source_namer()));
    return out;
  }
  // Of one rank, whose symbols are bound by their names.
  [[nodiscard]] Numbers strides_of(const Strided& rank) const {
    Numbers out;
    for (const Expr& e : layout.strides) out.push_back(value(e, rank));
    return out;
  }
  [[nodiscard]] std::int64_t value(const Expr& e, const Strided& rank) const {
    const Numbers canonical = rank.canonical();
    const auto bound = [&](Symbol symbol) -> std::optional<std::int64_t> {
      const std::string& source = env.record(symbol).source;
      if (source == "x.storage_offset()") return rank.offset;
      const auto d = static_cast<std::size_t>(source[source.size() - 2] - '0');
      return source.starts_with("x.stride(") ? canonical[d] : rank.sizes[d];
    };
    return e.evaluate(bound).value();
  }
  [[nodiscard]] std::size_t new_symbols() const {
    return env.symbols().size() - layout.strides.size();
  }
};

TEST(Layout, Vector_05_ContiguousAndDynamic_NeedsNoStrideSymbol) {
  const Traced traced({contiguous({6, 4}), contiguous({9, 5})});
  EXPECT_EQ(traced.strides(), (Texts{"x.size(1)", "1"}));
  EXPECT_EQ(traced.layout.storage_offset, Expr(0));
  EXPECT_EQ(traced.new_symbols(), 0u);
}

TEST(Layout, Contiguous_AtSizesBelowTwo_IsWhatMemoryHas) {
  const std::vector<Strided> ranks = {
      contiguous({3, 4, 5}), contiguous({3, 0, 5}), contiguous({1, 1, 1}), {{1, 4, 1}, {77, 1, 9}}};
  const Traced traced(ranks, 0);
  EXPECT_EQ(traced.strides(),
            (Texts{"Max(x.size(1), 1)*Max(x.size(2), 1)", "Max(x.size(2), 1)", "1"}));
  for (const Strided& rank : ranks) {
    EXPECT_EQ(traced.strides_of(rank), contiguous_strides(rank.sizes));
  }
}

TEST(Layout, Permuted_IsAProductOfTheSizesFurtherIn) {
  const Traced traced({{{6, 4, 5}, {1, 6, 24}}, {{3, 2, 7}, {1, 3, 6}}});
  EXPECT_EQ(traced.strides(), (Texts{"1", "x.size(0)", "x.size(0)*x.size(1)"}));
  EXPECT_EQ(traced.new_symbols(), 0u);
}

TEST(Layout, Expanded_HasAStrideOfZero) {
  const Traced traced({{{6, 4}, {0, 1}}, {{3, 9}, {0, 1}}});
  EXPECT_EQ(traced.strides(), (Texts{"0", "1"}));
  EXPECT_EQ(Traced({{{6, 4, 2}, {0, 0, 1}}}).strides(), (Texts{"0", "0", "1"}));
}

TEST(Layout, PaddedRows_AreANumberOrASymbol) {
  EXPECT_EQ(Traced({{{6, 4}, {8, 1}}, {{3, 5}, {8, 1}}}).strides(), (Texts{"8", "1"}));
  const std::vector<Strided> ranks = {{{2, 6, 4}, {48, 8, 1}}, {{3, 5, 9}, {80, 16, 1}}};
  const Traced traced(ranks);
  EXPECT_EQ(traced.strides(), (Texts{"x.size(1)*x.stride(1)", "x.stride(1)", "1"}));
  EXPECT_EQ(traced.new_symbols(), 1u);
  EXPECT_EQ(traced.env.symbols().back().hint, 8);
  for (const Strided& rank : ranks) EXPECT_EQ(traced.strides_of(rank), rank.strides);
}

TEST(Layout, DimsOfOneElement_SayNothing) {
  // x[:, 0:1] of a contiguous [6, 4], beside a contiguous one.
  const std::vector<Strided> ranks = {{{6, 1}, {1, 1}}, {{5, 1}, {1, 4}}};
  const Traced traced(ranks, 0);
  EXPECT_EQ(traced.new_symbols(), 0u);
  EXPECT_EQ(canonical_strides(Numbers{6, 1, 3}, Numbers{30, 999, 5}), (Numbers{30, 15, 5}));
  EXPECT_EQ(canonical_strides(Numbers{1, 0, 3}, Numbers{7, 7, 7}), (Numbers{3, 3, 1}));
  EXPECT_THROW(static_cast<void>(canonical_strides(Numbers{1}, Numbers{})), std::logic_error);
}

TEST(Layout, OfRanksThatDisagree_IsASymbolPerStride) {
  const std::vector<Strided> ranks = {contiguous({6, 4}), {{6, 4}, {1, 6}}};
  const Traced traced(ranks);
  EXPECT_EQ(traced.strides(), (Texts{"x.stride(0)", "x.stride(1)"}));
  for (const Strided& rank : ranks) EXPECT_EQ(traced.strides_of(rank), rank.strides);
  // Not even the number of dims.
  ShapeEnv env;
  const Expr n = env.backed("x.size(0)", 3, {});
  const Dynamism seen = join(contiguous({3}).seen(), contiguous({3, 4}).seen());
  const Layout layout = infer_layout(env, "x", seen, Seen::constant(0), std::vector{n}, {{1}, 0});
  EXPECT_EQ(layout.strides[0].text(env.source_namer()), "x.stride(0)");
}

TEST(Layout, StorageOffset_IsANumberOrASymbol) {
  const Strided a{{6}, {1}, 3}, b{{6}, {1}, 5};
  EXPECT_EQ(Traced({a, a}).layout.storage_offset, Expr(3));
  const Traced traced({a, b});
  EXPECT_EQ(traced.layout.storage_offset.text(traced.env.source_namer()), "x.storage_offset()");
  EXPECT_EQ(traced.env.symbols().back().hint, 3);
}

// Words that no rank can have said, as a damaged message might bring: no endless walk.
TEST(Layout, RingsAndDimsThatAreNotThere_AreSymbols) {
  Dynamism seen = contiguous({6, 4}).seen();
  seen.stride.dims = {Seen::inferred(1), Seen::inferred(0)};
  ShapeEnv env;
  const std::vector<Expr> sizes = {env.backed("x.size(0)", 6, {}), env.backed("x.size(1)", 4, {})};
  const Layout ring = infer_layout(env, "x", seen, Seen::constant(0), sizes, {{4, 1}, 0});
  EXPECT_EQ(ring.strides[1].text(env.source_namer()), "x.stride(1)");
  seen.stride.dims = {Seen::inferred(7), Seen::constant(1)};
  const Layout out = infer_layout(env, "x", seen, Seen::constant(0), sizes, {{4, 1}, 0});
  EXPECT_EQ(out.strides[0].text(env.source_namer()), "x.stride(0)");
  EXPECT_THROW(static_cast<void>(infer_layout(env, "x", seen, Seen::constant(0), sizes, {{4}, 0})),
               std::logic_error);
}

// Dims in the order `walk`, innermost first, some padded, some expanded.
Strided random_tensor(std::mt19937_64& random, const std::vector<std::size_t>& walk,
                      std::int64_t least) {
  Strided out{Numbers(walk.size()), Numbers(walk.size()),
              static_cast<std::int64_t>(random() % 3 == 0 ? random() % 4 : 0)};
  std::int64_t next = 1;
  const std::uint64_t odd = random() % 4;  // 0: something is padded or expanded
  for (const std::size_t d : walk) {
    out.sizes[d] = least + static_cast<std::int64_t>(random() % 5);
    const bool expanded = odd == 0 && random() % 4 == 0;
    out.strides[d] = expanded ? 0 : next;
    if (expanded) continue;
    next *= std::max<std::int64_t>(out.sizes[d], 1);
    if (odd == 0 && random() % 4 == 0) next += static_cast<std::int64_t>(random() % 3);
    // What a framework leaves in the stride of a dim of one element.
    if (out.sizes[d] == 1 && random() % 2 == 0) out.strides[d] = 1 + random() % 9;
  }
  return out;
}

TEST(Layout, RandomTensorsOfSeveralRanks_HaveTheirStrides) {
  std::mt19937_64 random(1618);
  std::size_t inferred = 0, symbols = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto least = static_cast<std::int64_t>(random() % 3);
    std::vector<std::size_t> walk(random() % 5);
    std::iota(walk.rbegin(), walk.rend(), std::size_t{0});
    if (random() % 2 == 0) std::shuffle(walk.begin(), walk.end(), random);
    std::vector<Strided> ranks(1 + random() % 4);
    for (Strided& rank : ranks) {
      rank = random_tensor(random, walk, least);
      if (random() % 16 == 0) std::shuffle(walk.begin(), walk.end(), random);
    }
    const Traced traced(ranks, least);
    symbols += traced.new_symbols();
    inferred += traced.layout.strides.size() + 1 - traced.new_symbols();
    for (const Strided& rank : ranks) {
      ASSERT_EQ(traced.strides_of(rank), rank.canonical()) << "round " << round;
      ASSERT_EQ(traced.value(traced.layout.storage_offset, rank), rank.offset);
    }
  }
  std::printf("seed 1618: %zu strides and offsets by sizes and numbers, %zu symbols\n", inferred,
              symbols);
  EXPECT_GT(inferred, symbols);
}

// The strides that a canonical tensor has address the same elements.
TEST(Layout, CanonicalStrides_AddressTheSameElements) {
  std::mt19937_64 random(1123);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::size_t> walk(1 + random() % 4);
    std::iota(walk.begin(), walk.end(), std::size_t{0});
    std::shuffle(walk.begin(), walk.end(), random);
    const Strided tensor = random_tensor(random, walk, 0);
    const Numbers canonical = tensor.canonical();
    const std::int64_t elements = std::accumulate(tensor.sizes.begin(), tensor.sizes.end(),
                                                  std::int64_t{1}, std::multiplies<>());
    for (std::int64_t n = 0; n < elements; ++n) {
      std::int64_t rest = n, a = 0, b = 0;
      for (std::size_t d = 0; d < walk.size(); ++d) {
        const std::int64_t i = rest % tensor.sizes[d];
        rest /= tensor.sizes[d];
        a += i * tensor.strides[d];
        b += i * canonical[d];
      }
      ASSERT_EQ(a, b) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace lockstep::shapes
