// What tests of sums, scans and joins of rows share: a program on the emulated device, and data on
// which an order shows.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "compiled_graph.h"
#include "emulated_device.h"

#include <lockstep/worker/compile/codegen/codegen.h>

namespace lockstep::worker::order_cases {

using shapes::Expr;
using I = std::int64_t;

inline bool identical(const Array& a, const Array& b) {
  return a.sizes() == b.sizes() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

/// Over a program for the emulated device.
struct OnDevice {
  explicit OnDevice(const Graph& graph) {
    auto built = build_emulated(generate(graph, Target::Cuda).value());
    executable = Executable::load(std::move(built->program), built->units, clock, device).value();
  }
  std::vector<Array> run(const Inputs& inputs) {
    auto out = run_compiled(*executable, inputs).value();
    for (Array& array : out) (void)array.data();
    return out;
  }
  SystemClock clock;
  std::shared_ptr<EmulatedDevice> device = std::make_shared<EmulatedDevice>();
  std::unique_ptr<Executable> executable;
};

/// Near 1, so that products stay numbers, and of both signs.
inline Array elements(std::mt19937_64& random, DType dtype, std::vector<I> sizes) {
  Array out(dtype, std::move(sizes));
  std::normal_distribution<double> normal(0, 0.01);
  for (I i = 0; i < out.elements(); ++i)
    out.set(i, (random() % 2 == 0 ? 1 : -1) * std::exp(normal(random)));
  return out;
}

struct Data {
  const char* name;
  double (*at)(I i);
  bool equal = false;  // a sum in f32 is rounded once
};
inline double uniform(I i) {
  return static_cast<double>(static_cast<std::uint64_t>(i * 2654435761) % 1000003) / 1000003;
}
inline constexpr Data kData[] = {
    {"random", [](I i) { return uniform(i) - 0.5; }},
    {"a large mean", [](I i) { return 10000 + uniform(i); }},
    {"equal numbers", [](I) { return 123.456; }, true},
    {"alternating signs", [](I i) { return (i % 2 == 0 ? 1e6 : -1e6) + uniform(i); }},
    {"one large among small", [](I i) { return i == 0 ? 1e8 : 1e-3; }},
    {"numbers below the normal ones", [](I i) { return 1e-40 * uniform(i); }},
    {"ones", [](I) { return 1.0; }, true},
};

/// The sum of many, to more digits than a long double alone would keep.
class ExactSum {
 public:
  void add(long double x) {
    const long double sum = total_ + x, mine = sum - total_;
    lost_ += (total_ - (sum - mine)) + (x - mine);
    total_ = sum;
  }
  [[nodiscard]] long double total() const { return total_ + lost_; }

 private:
  long double total_ = 0, lost_ = 0;
};

/// Unit of the last place.
inline double unit_of(DType dtype) { return dtype == DType::F32 ? 0x1p-24 : 0x1p-53; }

}  // namespace lockstep::worker::order_cases
