// What one written order of sums costs (worker/compile/sums): compiled sums, scans and joins of
// rows beside plain loops in their own type, which nobody bounds the error of.
//
// usage: sums_bench [--batches N] [--out FILE]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiled_body.h"
#include "interleaved.h"
#include "plain_sums.h"
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <lockstep/worker/tensor/language/index_ops.h>
#include <lockstep/worker/tensor/language/order_ops.h>
#include <lockstep/worker/tensor/language/tensor_ops.h>

namespace {

using namespace lockstep::worker;  // NOLINT: a bench reads like a user's program
using lockstep::DType;
using lockstep::bench::CompiledBody;
using lockstep::bench::Pair;
namespace plain = lockstep::bench::plain;
using plain::I;

/// Elements that a batch goes over, about: some milliseconds.
constexpr I kElements = 4'000'000;

class Pairs {
 public:
  explicit Pairs(std::vector<Pair>& pairs) : pairs_(pairs) {}

  template <class T>
  Array numbers(std::vector<I> sizes) {
    Array out(sizeof(T) == 4 ? DType::F32 : DType::F64, std::move(sizes));
    for (I i = 0; i < out.elements(); ++i) out.set(i, static_cast<double>(i % 1013) / 1013 - 0.3);
    return out;
  }

  /// `floor` makes `outputs` elements in its own memory.
  template <class T>
  void add(const std::string& name, double target, std::vector<Array> inputs, I outputs,
           const CompiledBody::Body& body,
           std::function<void(const std::vector<Array>&, T* out)> floor) {
    const I elements = inputs[0].elements();
    auto kept = std::make_shared<std::vector<Array>>(inputs);
    auto out = std::make_shared<std::vector<T>>(static_cast<std::size_t>(outputs));
    auto made = CompiledBody::make(std::move(inputs), body);
    if (!made) {
      std::fprintf(stderr, "sums_bench: %s: %s\n", name.c_str(), made.error().message.c_str());
      std::exit(1);
    }
    std::shared_ptr<CompiledBody> compiled = *std::move(made);
    Pair pair;
    pair.name = fmt::format("{}, {}", name, sizeof(T) == 4 ? "f32" : "f64");
    pair.calls = static_cast<int>(std::max<I>(1, kElements / elements));
    pair.target = target;
    pair.floor = [=] { floor(*kept, out->data()); };
    pair.ours = [=] {
      if (!compiled->run()) std::exit(1);
    };
    pairs_.push_back(std::move(pair));
  }

 private:
  std::vector<Pair>& pairs_;
};

template <class T>
void add_sums(Pairs& pairs) {
  constexpr double kTarget = 1.05;
  struct Rows {
    const char* name;
    I rows, n;
  };
  for (const Rows& at : {Rows{"rows of 4 in cache", 8192, 4},
                         {"rows of 20 in cache", 4096, 20},
                         {"rows of 257 in cache", 256, 257},
                         {"rows of 4,096 in cache", 16, 4096},
                         {"rows of 1,024 from memory", 8192, 1024},
                         {"one row of 4,000,000", 1, 4'000'000}})
    for (const bool squares : {false, true})
      pairs.add<T>(
          fmt::format("sum of {}{}", squares ? "squares of " : "", at.name), kTarget,
          {pairs.numbers<T>({at.rows, at.n})}, at.rows,
          [=](std::span<const Tensor> x) { return sum(squares ? x[0] * x[0] : x[0], {1}); },
          [=](const auto& in, T* out) {
            plain::sum_rows(in[0].template data_as<T>(), out, at.rows, at.n, squares);
          });
  for (const Rows& at : {Rows{"columns of 4", 4, 8192},
                         {"columns of 1,024", 1024, 64},
                         {"columns of 8,192 from memory", 8192, 1024}})
    pairs.add<T>(
        fmt::format("sum of {}", at.name), kTarget, {pairs.numbers<T>({at.rows, at.n})}, at.n,
        [](std::span<const Tensor> x) { return sum(x[0], {0}); },
        [=](const auto& in, T* out) {
          plain::sum_columns(in[0].template data_as<T>(), out, at.rows, at.n);
        });
}

template <class T>
void add_scans(Pairs& pairs) {
  constexpr double kTarget = 1.5;
  constexpr I kRows = 64, kWidth = 1000;
  pairs.add<T>(
      "cumsum of rows of 1,000", kTarget, {pairs.numbers<T>({kRows, kWidth})}, kRows * kWidth,
      [](std::span<const Tensor> x) { return cumsum(x[0], 1); },
      [](const auto& in, T* out) {
        plain::cumsum(in[0].template data_as<T>(), out, kRows, kWidth);
      });
  pairs.add<T>(
      "cumsum of rows of 8", kTarget, {pairs.numbers<T>({8000, 8})}, 64000,
      [](std::span<const Tensor> x) { return cumsum(x[0], 1); },
      [](const auto& in, T* out) { plain::cumsum(in[0].template data_as<T>(), out, 8000, 8); });
  pairs.add<T>(
      "logcumsumexp of rows of 1,000", kTarget, {pairs.numbers<T>({kRows, kWidth})}, kRows * kWidth,
      [](std::span<const Tensor> x) { return logcumsumexp(x[0], 1); },
      [](const auto& in, T* out) {
        plain::logcumsumexp(in[0].template data_as<T>(), out, kRows, kWidth);
      });
  struct Join {
    const char* name;
    I rows, n, count;
  };
  for (const Join& at : {Join{"100,000 numbers into 1,000", 100'000, 1, 1000},
                         {"100,000 numbers into 100,000", 100'000, 1, 100'000},
                         {"30,000 rows of 3 into 3,000", 30'000, 3, 3000},
                         {"4,000 rows of 64 into 100", 4000, 64, 100},
                         {"4,000 rows of 64 into 20,000", 4000, 64, 20'000},
                         {"500 rows of 1,000 into 500", 500, 1000, 500}}) {
    Array index(DType::I64, {at.rows});
    for (I i = 0; i < at.rows; ++i) index.set(i, static_cast<double>(i * 7919 % at.count));
    std::vector<I> sizes{at.rows};
    if (at.n > 1) sizes.push_back(at.n);
    pairs.add<T>(
        fmt::format("index_add of {}", at.name), kTarget, {pairs.numbers<T>(sizes), index},
        at.count * at.n,
        [=](std::span<const Tensor> x) { return index_add(SymInt(at.count), x[1], x[0]); },
        [=](const auto& in, T* out) {
          plain::index_add(in[1].template data_as<I>(), in[0].template data_as<T>(), out, at.rows,
                           at.n, at.count);
        });
  }
}

}  // namespace

int main(int argc, char** argv) {
  int batches = 41;
  std::string out;
  CLI::App app("compiled sums beside plain loops");
  app.add_option("--batches", batches)->check(CLI::Range(3, 1001));
  app.add_option("--out", out);
  CLI11_PARSE(app, argc, argv);
  std::vector<Pair> pairs;
  Pairs into(pairs);
  add_sums<float>(into);
  add_sums<double>(into);
  add_scans<float>(into);
  add_scans<double>(into);
  lockstep::bench::Together alone;
  alone.barrier = [] {};
  alone.slowest = [](double mine) { return mine; };
  alone.seconds = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  return lockstep::bench::run_pairs(alone, "sums_bench", pairs, batches, out) ? 0 : 1;
}
