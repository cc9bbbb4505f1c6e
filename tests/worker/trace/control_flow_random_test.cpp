// Random nests of branches, loops and calls beside the same programs without them: branches become
// where(), loops are unrolled, calls are traced through. Values and gradients, also of gradients.
#include <random>

#include "function_runs.h"
#include "ops/own_ops.h"

#include <lockstep/worker/tensor/autodiff/autodiff.h>
#include <lockstep/worker/tensor/autodiff/control_flow.h>
#include <lockstep/worker/tensor/language/random_ops.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace lockstep::worker::control_flow_random_test {
namespace {

using namespace test;

enum class Kind : std::uint8_t { Op, Draw, OwnGradient, OwnOp, Call, Cond, Scan, While };
struct Block;
/// Of two earlier values, by numbers that are taken modulo how many are in sight.
struct Statement {
  Kind kind = Kind::Op;
  unsigned a = 0, b = 0, which = 0;
  std::vector<Block> blocks;
};
/// Every value is f64 [n]. A block sees the values around it, and gives its last two.
struct Block {
  std::vector<Statement> statements;
};

/// While loops have no gradient; with_while is for programs of which none is taken.
Block draw_block(std::mt19937_64& random, int depth, bool with_while) {
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  Block block;
  const unsigned count = 1 + below(3);
  for (unsigned i = 0; i < count; ++i) {
    Statement one{.a = below(64), .b = below(64), .which = below(64)};
    const unsigned die = below(depth > 0 ? 10 : 5);
    if (die < 2) {
      one.kind = Kind::Op;
    } else if (die < 5) {
      constexpr Kind kLeaves[] = {Kind::Draw, Kind::OwnGradient, Kind::OwnOp};
      one.kind = kLeaves[die - 2];
    } else {
      constexpr Kind kNests[] = {Kind::Call, Kind::Cond, Kind::Scan, Kind::Scan, Kind::While};
      one.kind = kNests[die - 5];
      if (one.kind == Kind::While && !with_while) one.kind = Kind::Cond;
      const int bodies = one.kind == Kind::Cond ? 2 : 1;
      for (int k = 0; k < bodies; ++k)
        one.blocks.push_back(draw_block(random, depth - 1, with_while));
    }
    block.statements.push_back(std::move(one));
  }
  return block;
}

int nests(const Block& block) {
  int deepest = 0;
  for (const Statement& one : block.statements)
    for (const Block& inner : one.blocks) deepest = std::max(deepest, 1 + nests(inner));
  return deepest;
}

/// Records a program, with its control flow or, given the number of rows, without.
class Recorder {
 public:
  Recorder(RankKey key, Tensor rows, std::optional<std::int64_t> unrolled)
      : key_(std::move(key)), rows_(std::move(rows)), unrolled_(unrolled) {}

  Tensors block(const Block& block, Tensors seen) {
    for (const Statement& one : block.statements)
      for (Tensor& value : statement(one, seen)) seen.push_back(std::move(value));
    return {seen[seen.size() - 1], seen[seen.size() - 2]};
  }

 private:
  Tensors statement(const Statement& one, const Tensors& seen) {
    const Tensor &a = seen[one.a % seen.size()], &b = seen[one.b % seen.size()];
    switch (one.kind) {
      case Kind::Op:
        return {op(one.which, a, b)};
      case Kind::Draw:
        return {a * uniform(key_.fold_in(one.which), {a.size(0)}, {.dtype = DType::F64}) +
                dropout(b, 0.5, key_.fold_in(one.which + 64))};
      case Kind::OwnGradient:
        return {unrolled_ ? sin(a) : own_sine(a)};
      case Kind::OwnOp:
        return {unrolled_ ? a * sigmoid(a) : squeeze(swish_({unsqueeze(a, 0)}), 0)};
      case Kind::Call:
        return call(one, a, b, seen);
      case Kind::Cond:
        return branch(one, a, b, seen);
      case Kind::Scan:
        return loop(one, a, b, seen);
      case Kind::While:
        return counted(one, a, b, seen);
    }
    return {};
  }

  static Tensor op(unsigned which, const Tensor& a, const Tensor& b) {
    switch (which % 5) {
      case 0:
        return tanh(a * b);
      case 1:
        return sin(a) + b;
      case 2:
        return tanh(sum(a)) * b;
      case 3:
        return a / (1.0 + b * b);
      default:
        return tanh(a - b);
    }
  }
  static Tensor own_sine(const Tensor& x) {
    return custom_backward([](const Tensors& in) { return Tensors{sin(in[0])}; },
                           [](const BackwardCall& call) {
                             return Tensors{call.grads[0] * cos(call.inputs[0])};
                           })({x})[0];
  }

  Tensors call(const Statement& one, const Tensor& a, const Tensor& b, const Tensors& seen) {
    const auto f = [&](const Tensors& in) { return block(one.blocks[0], joined(seen, in)); };
    return unrolled_ ? f({a, b}) : allow_in_graph(f)({a, b});
  }
  Tensors branch(const Statement& one, const Tensor& a, const Tensor& b, const Tensors& seen) {
    const Tensor predicate = sum(one.which % 2 == 0 ? a : b) > 0.0;
    const auto side = [&](std::size_t k) {
      return [&, k](const Tensors& in) { return block(one.blocks[k], joined(seen, in)); };
    };
    if (!unrolled_) return cond(predicate, side(0), side(1), {a, b});
    const Tensors yes = side(0)({a, b}), no = side(1)({a, b});
    return {where(predicate, yes[0], no[0]), where(predicate, yes[1], no[1])};
  }
  /// The carried value, and the sum of what the trips give.
  Tensors loop(const Statement& one, const Tensor& a, const Tensor& b, const Tensors& seen) {
    const auto trip = [&](const Tensor& carry, const Tensor& row) {
      return block(one.blocks[0], joined(seen, {carry + b, row}));
    };
    if (!unrolled_) {
      const auto [carry, ys] = scan(
          [&](const Tensors& c, const Tensors& x) {
            const Tensors out = trip(c[0], x[0]);
            return Scanned{{tanh(out[0])}, {out[1]}};
          },
          {a}, {rows_});
      return {carry[0], sum(ys[0], {0})};
    }
    Tensor carry = a, total = a * 0.0;
    for (std::int64_t t = 0; t < *unrolled_; ++t) {
      const Tensors out = trip(carry, squeeze(slice(rows_, 0, t, 1), 0));
      carry = tanh(out[0]);
      total = total + out[1];
    }
    return {carry, total};
  }
  Tensors counted(const Statement& one, const Tensor& a, const Tensor& b, const Tensors& seen) {
    const auto trips = static_cast<std::int64_t>(one.which % 4);
    const auto trip = [&](const Tensors& c) {
      const Tensors out = block(one.blocks[0], joined(seen, {c[0], b}));
      return Tensors{tanh(out[0])};
    };
    if (!unrolled_)
      return {while_loop([&](const Tensors& c) { return c[1] < trips; },
                         [&](const Tensors& c) {
                           return Tensors{trip(c)[0], c[1] + 1};
                         },
                         {a, scalar(*a.trace(), 0)})[0]};
    Tensor carry = a;
    for (std::int64_t t = 0; t < trips; ++t) carry = trip({carry})[0];
    return {carry};
  }
  static Tensors joined(Tensors left, const Tensors& right) {
    left.insert(left.end(), right.begin(), right.end());
    return left;
  }

  RankKey key_;
  Tensor rows_;
  std::optional<std::int64_t> unrolled_;
  OwnOp swish_ = swish();
};

/// Of a key and a matrix [t + 2, n]: two vectors, and the rows that loops walk along.
struct Program {
  explicit Program(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    gradients = seed % 4 != 0;
    do block = draw_block(random, 3, !gradients);
    while (nests(block) < 2);
  }
  [[nodiscard]] Result<Graph> record(std::optional<std::int64_t> unrolled) const {
    const Dim rows = unrolled ? Dim(*unrolled + 2) : dynamic(5, 0);
    return traced({{DType::I64, {}}, {DType::F64, {rows, dynamic(4, 0)}}}, [&](const Tensors& in) {
      const Tensor& all = in[1];
      const auto row = [&](std::int64_t i) { return squeeze(slice(all, 0, i, 1), 0); };
      Recorder recorder(RankKey(in[0]), slice(all, 0, 2, all.size(0) - 2), unrolled);
      Tensors out = recorder.block(block, {row(0), row(1)});
      if (!gradients) return out;
      out.push_back(grad(sum(out[0] * out[0]) + sum(out[1]) + sum(all * all), {all})[0]);
      return out;
    });
  }
  Block block;
  bool gradients = false;
};

std::vector<Array> arrays(std::uint64_t seed, std::int64_t n, std::int64_t t) {
  std::mt19937_64 random(seed);
  return {integers({}, {static_cast<std::int64_t>(seed)}),
          random_array(random, DType::F64, {t + 2, n})};
}

class RandomNests : public testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomNests, GiveWhatTheUnrolledProgramGives) {
  SCOPED_TRACE("seed " + std::to_string(GetParam()));
  const Program program(GetParam());
  const Result<Graph> graph = program.record(std::nullopt);
  ASSERT_TRUE(graph.has_value()) << graph.error().text();
  OnRanks ranks(*graph, 1);
  for (const std::int64_t t : {0, 1, 2, 5}) {
    OnRanks unrolled(must(program.record(t)), 1);
    for (const std::int64_t n : {0, 1, 2, 5}) {
      SCOPED_TRACE(std::to_string(t) + " rows of " + std::to_string(n));
      const std::vector<Array> in = arrays(GetParam() + static_cast<std::uint64_t>(n), n, t);
      const auto expected = unrolled.interpreted({named(in)});
      ASSERT_TRUE(expected.ranks[0]->has_value()) << expected.ranks[0]->error().text();
      const auto got = ranks.interpreted({named(in)});
      ASSERT_TRUE(got.ranks[0]->has_value()) << got.ranks[0]->error().text();
      for (std::size_t k = 0; k < expected.ranks[0]->value().size(); ++k)
        EXPECT_TRUE(same({got.ranks[0]->value()[k]}, {expected.ranks[0]->value()[k]}, 1e-12))
            << "output " << k;
      if (GetParam() % 6 == 1) expect_everywhere(ranks, in, expected.ranks[0]->value());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomNests, testing::Range<std::uint64_t>(0, 48));

}  // namespace
}  // namespace lockstep::worker::control_flow_random_test
