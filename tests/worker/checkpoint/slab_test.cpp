// Slabs and stages: small tables and walks that the rest stands on.
#include <random>

#include <gtest/gtest.h>

#include <lockstep/worker/files/checkpoint/digest.h>
#include <lockstep/worker/files/checkpoint/slab.h>
#include <lockstep/worker/files/checkpoint/state.h>

namespace lockstep::worker::slab_test {

TEST(CheckpointSlab, RandomBoxes_AreWalkedOnceInOrderWithinTheLimit) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    std::mt19937_64 engine(seed);
    Box box;
    std::int64_t elements = 1;
    for (std::uint64_t d = engine() % 4; d > 0; --d) {
      box.start.push_back(static_cast<std::int64_t>(engine() % 5));
      box.sizes.push_back(static_cast<std::int64_t>(engine() % 6));
      elements *= box.sizes.back();
    }
    const std::size_t element = std::size_t{1} << engine() % 4;
    const std::uint64_t most = 1 + engine() % 200;
    std::uint64_t next = 0;
    const auto done = each_slab(box, element, most, [&](const Box& slab, std::uint64_t offset) {
      EXPECT_EQ(offset, next) << "seed " << seed;
      std::uint64_t bytes = element;
      for (const std::int64_t size : slab.sizes) bytes *= static_cast<std::uint64_t>(size);
      EXPECT_LE(bytes, std::max<std::uint64_t>(most, element)) << "seed " << seed;
      // It lies together in the box, where it is said to.
      std::vector<worker::Run> runs;
      (void)each_run(slab, box, slab, element, [&](const worker::Run& run) -> Result<void> {
        runs.push_back(run);
        return {};
      });
      for (std::size_t i = 0; i < runs.size(); ++i)
        EXPECT_EQ(runs[i].from - runs[0].from, runs[i].to - runs[0].to) << "seed " << seed;
      EXPECT_EQ(runs.at(0).from, offset) << "seed " << seed;
      next += bytes;
      return Result<void>();
    });
    EXPECT_TRUE(done);
    EXPECT_EQ(next, static_cast<std::uint64_t>(elements) * element) << "seed " << seed;
  }
}

TEST(CheckpointDigest, PartsOfAnyLength_GiveThePublishedDigest) {
  // The published value for no bytes.
  EXPECT_EQ(digest_of({}), "99aa06d3014798d86001c324468d497f");
  std::vector<std::byte> bytes(5000);
  std::mt19937_64 engine(1);
  for (auto& byte : bytes) byte = static_cast<std::byte>(engine());
  Digest digest;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t n = std::min<std::size_t>(engine() % 400, bytes.size() - at);
    digest.add(std::span(bytes).subspan(at, n));
    at += n;
  }
  EXPECT_EQ(digest.text(), digest_of(bytes));
}

TEST(CheckpointState, Floats_AreKeptBitForBit) {
  for (const double value : std::initializer_list<double>{0.1, -0.0, 1e308, 5e-324, INFINITY})
    EXPECT_EQ(float_in(float_text(value)), value);
  EXPECT_TRUE(std::signbit(*float_in(float_text(-0.0))));
  EXPECT_TRUE(std::isnan(*float_in(float_text(NAN))));
  EXPECT_EQ(float_in("3ff"), std::nullopt);
  EXPECT_EQ(int_in("12x"), std::nullopt);
  EXPECT_EQ(int_in(""), std::nullopt);
  EXPECT_EQ(int_in("-9223372036854775808"), INT64_MIN);
}

struct Inner {
  Tensor w = Array::zeros(DType::F32, {1});
  template <class V>
  void fields(V& v) {
    v("w", w);
  }
};
enum class Mode { A, B };
struct State {
  std::vector<Inner> layers = std::vector<Inner>(2);
  std::map<std::string, Tensor> extra = {{"k", Array::zeros(DType::F32, {2})}};
  std::optional<Inner> none, some = Inner();
  std::int32_t n = 5;
  Mode mode = Mode::B;
  template <class V>
  void fields(V& v) {
    v("layers", layers), v("extra", extra), v("none", none), v("some", some), v("n", n);
    v("mode", mode);
  }
};

TEST(CheckpointState, NestedLeaves_HaveTheNamesOfInputs) {
  State state;
  const StateLeaves leaves = leaves_of(state);
  std::vector<std::string> names;
  for (const StateTensor& tensor : leaves.tensors()) names.push_back(tensor.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"layers[0].w", "layers[1].w", "extra[\"k\"]", "some.w"}));
  ASSERT_EQ(leaves.values().size(), 2u);
  EXPECT_EQ(leaves.values()[1].value.text, "1");
  const ValueSetter set = leaves.values()[0].read("-7");
  ASSERT_TRUE(set);
  EXPECT_NE(state.n, -7) << "reading alone changes nothing";
  set();
  EXPECT_EQ(state.n, -7);
  EXPECT_FALSE(leaves.values()[0].read("99999999999"));  // more than its type holds
  EXPECT_TRUE(leaves.check());
}

}  // namespace lockstep::worker::slab_test
