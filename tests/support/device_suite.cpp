#include "device_suite.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/worker/tensor/graph/array.h>
#include <lockstep/worker/tensor/graph/half.h>

namespace lockstep::worker {
namespace {

/// Device memory filled with values of the host, which are doubles for every dtype.
class Values {
 public:
  Values(Device& device, DType dtype, std::vector<double> values)
      : device_(device), dtype_(dtype), count_(values.size()) {
    const auto bytes = encoded(values);
    const auto taken = device.allocate(std::max<std::size_t>(bytes.size(), 1));
    EXPECT_TRUE(taken && *taken);
    at_ = taken->value();
    set(values);
  }
  ~Values() { EXPECT_TRUE(device_.free(at_).has_value()); }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  [[nodiscard]] DeviceAddress at() const { return at_; }
  void set(const std::vector<double>& values) {
    const auto bytes = encoded(values);
    EXPECT_TRUE(device_.upload(at_, bytes.data(), bytes.size()).has_value());
    EXPECT_TRUE(device_.synchronise().has_value());
  }
  [[nodiscard]] std::vector<double> get() const {
    Array host(dtype_, {static_cast<std::int64_t>(count_)});
    EXPECT_TRUE(device_.download(host.data(), at_, host.bytes()).has_value());
    std::vector<double> out(count_);
    for (std::size_t i = 0; i < count_; ++i) out[i] = host.at(static_cast<std::int64_t>(i));
    return out;
  }

  [[nodiscard]] std::vector<std::byte> encoded(const std::vector<double>& values) const {
    const Array host = Array::of(dtype_, {static_cast<std::int64_t>(values.size())}, values);
    const auto* data = static_cast<const std::byte*>(host.data());
    return {data, data + host.bytes()};
  }

 private:
  Device& device_;
  DType dtype_;
  std::size_t count_;
  DeviceAddress at_{};
};

/// Random values that `dtype` and f32 represent exactly.
std::vector<double> random_values(std::mt19937_64& random, std::int64_t count,
                                  DType dtype = DType::F32) {
  std::vector<double> out(static_cast<std::size_t>(count));
  for (double& value : out) {
    value = static_cast<float>(std::uniform_real_distribution<double>(-1, 1)(random));
    if (is_half(dtype)) value = half_value(dtype, half_bits(dtype, value));
  }
  return out;
}

/// Bound of a product's error: sums of f32 or f64; for f16 and bf16 half of a last place more.
double bound_of(const Product& p) {
  const auto terms = static_cast<double>(p.k + 1);
  if (p.dtype == DType::F64) return 1e-14 * terms;
  const double place = p.dtype == DType::BF16 ? 0x1p-9 : p.dtype == DType::F16 ? 0x1p-12 : 0;
  return 1e-6 * terms + place * 4 * std::sqrt(terms);
}

/// Sums of products in f64, one by one.
std::vector<double> naive(const Product& p, const std::vector<double>& a,
                          const std::vector<double>& b) {
  std::vector<double> out;
  for (std::int64_t e = 0; e < p.batch; ++e)
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < p.k; ++l) {
          const std::int64_t ia = e * p.m * p.k + (p.transpose_a ? l * p.m + i : i * p.k + l);
          const std::int64_t ib = e * p.k * p.n + (p.transpose_b ? j * p.k + l : l * p.n + j);
          sum += a[static_cast<std::size_t>(ia)] * b[static_cast<std::size_t>(ib)];
        }
        out.push_back(sum);
      }
  return out;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                 double bound) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(got[i] - expected[i]), bound) << "element " << i;
}

void expect_product(Device& device, std::mt19937_64& random, Product p) {
  SCOPED_TRACE(testing::Message() << dtype_name(p.dtype) << " batch " << p.batch << " m " << p.m
                                  << " k " << p.k << " n " << p.n << (p.transpose_a ? " a^T" : "")
                                  << (p.transpose_b ? " b^T" : ""));
  constexpr std::size_t kBeyond = 16;
  const auto a = random_values(random, p.batch * p.m * p.k, p.dtype);
  const auto b = random_values(random, p.batch * p.k * p.n, p.dtype);
  auto expected = naive(p, a, b);
  // Empty operands may have no memory.
  const Values on_a(device, p.dtype, a), on_b(device, p.dtype, b);
  const Values out(device, p.dtype, std::vector<double>(expected.size() + kBeyond, 7));
  p.a = a.empty() ? DeviceAddress{} : on_a.at();
  p.b = b.empty() ? DeviceAddress{} : on_b.at();
  p.out = expected.empty() ? DeviceAddress{} : out.at();
  const auto done = device.multiply(p);
  ASSERT_TRUE(done.has_value()) << done.error().text();
  expected.resize(expected.size() + kBeyond, 7);
  expect_near(out.get(), expected, bound_of(p));
}

}  // namespace

void expect_products(Device& device) {
  std::mt19937_64 random(20265);
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16})
    for (int transposed = 0; transposed < 4; ++transposed)
      for (const auto& [batch, m, k, n] : std::vector<std::array<std::int64_t, 4>>{{0, 2, 5, 2},
                                                                                   {2, 0, 5, 2},
                                                                                   {2, 5, 0, 2},
                                                                                   {2, 5, 2, 0},
                                                                                   {1, 1, 1, 1},
                                                                                   {1, 5, 2, 5},
                                                                                   {5, 2, 5, 1},
                                                                                   {3, 1, 2, 5},
                                                                                   {1, 67, 131, 33},
                                                                                   {3, 33, 17, 67},
                                                                                   {1, 257, 3, 1}})
        expect_product(device, random,
                       {.dtype = dtype,
                        .transpose_a = (transposed & 1) != 0,
                        .transpose_b = (transposed & 2) != 0,
                        .batch = batch,
                        .m = m,
                        .k = k,
                        .n = n});
}

void expect_zeros_and_copies(Device& device) {
  const Values values(device, DType::F64, {1, 2, 3, 4, 5});
  EXPECT_TRUE(device.zero(values.at(), 0).has_value());
  EXPECT_TRUE(device.zero(values.at(), 3 * sizeof(double)).has_value());
  EXPECT_EQ(values.get(), (std::vector<double>{0, 0, 0, 4, 5}));
  const Values others(device, DType::F64, {6, 7, 8, 9, 10});
  EXPECT_TRUE(device.copy(others.at(), values.at(), 0).has_value());
  EXPECT_TRUE(device.copy(others.at(), values.at(), 4 * sizeof(double)).has_value());
  EXPECT_EQ(others.get(), (std::vector<double>{0, 0, 0, 4, 10}));
  EXPECT_EQ(values.get(), (std::vector<double>{0, 0, 0, 4, 5}));
  EXPECT_TRUE(device.synchronise().has_value());
  const auto idle = device.idle();
  ASSERT_TRUE(idle.has_value());
  EXPECT_TRUE(*idle);
}

void expect_recordings(Device& device) {
  std::mt19937_64 random(20266);
  constexpr std::int64_t kSize = 17;
  const auto square = [&] { return random_values(random, kSize * kSize); };
  auto first = square();
  const auto second = square(), before = square();
  Values a(device, DType::F64, first);
  const Values b(device, DType::F64, second), once(device, DType::F64, before),
      twice(device, DType::F64, before);
  Product product{.dtype = DType::F64, .batch = 1, .m = kSize, .k = kSize, .n = kSize};

  ASSERT_TRUE(device.begin_recording().has_value());
  const auto passing = device.allocate(4096), lasting = device.allocate(4096);
  ASSERT_TRUE(passing && *passing && lasting && *lasting);
  EXPECT_TRUE(device.zero(**lasting, 4096).has_value());
  product.a = a.at(), product.b = b.at(), product.out = once.at();
  EXPECT_TRUE(device.multiply(product).has_value());
  product.a = once.at(), product.out = twice.at();
  EXPECT_TRUE(device.multiply(product).has_value());
  EXPECT_TRUE(device.zero(once.at(), sizeof(double)).has_value());
  EXPECT_TRUE(device.free(**passing).has_value());
  const auto recording = device.end_recording();
  ASSERT_TRUE(recording.has_value()) << recording.error().text();

  EXPECT_EQ(once.get(), before);
  EXPECT_EQ(twice.get(), before);
  for (int launch = 0; launch < 3; ++launch) {
    product.a = {};
    auto expected_once = naive(product, first, second);
    const auto expected_twice = naive(product, expected_once, second);
    expected_once[0] = 0;
    ASSERT_TRUE(device.launch(*recording).has_value());
    expect_near(once.get(), expected_once, 1e-12);
    expect_near(twice.get(), expected_twice, 1e-12);
    first = square();
    a.set(first);
  }
  device.destroy(*recording);
  EXPECT_TRUE(device.free(**lasting).has_value());

  ASSERT_TRUE(device.begin_recording().has_value());
  const auto empty = device.end_recording();
  ASSERT_TRUE(empty.has_value()) << empty.error().text();
  EXPECT_TRUE(device.launch(*empty).has_value());
  EXPECT_TRUE(device.synchronise().has_value());
  device.destroy(*empty);
}

void expect_flawed_recordings_refused(Device& device) {
  const std::vector<double> before{1, 2};
  const Values values(device, DType::F64, before);
  std::vector<double> host{3, 4};
  const auto size = host.size() * sizeof(double);
  const std::vector<std::pair<const char*, std::function<Result<void>()>>> misplaced{
      {"upload", [&] { return device.upload(values.at(), host.data(), size); }},
      {"download", [&] { return device.download(host.data(), values.at(), size); }},
      {"synchronise", [&] { return device.synchronise(); }},
      {"idle",
       [&]() -> Result<void> {
         auto idle = device.idle();
         if (!idle) return idle.error();
         return {};
       }},
      {"begin_recording", [&] { return device.begin_recording(); }},
      {"launch", [&] { return device.launch(DeviceRecording{1}); }}};
  for (const auto& [name, call] : misplaced) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(device.begin_recording().has_value());
    EXPECT_TRUE(device.zero(values.at(), size).has_value());
    const auto refused = call();
    ASSERT_TRUE(refused.has_error());
    EXPECT_EQ(refused.error().code, Code::Environment);
    EXPECT_NE(refused.error().message.find(device.name()), std::string::npos)
        << refused.error().message;
    EXPECT_TRUE(device.zero(values.at(), size).has_value());
    const auto recording = device.end_recording();
    ASSERT_TRUE(recording.has_error());
    EXPECT_EQ(recording.error(), refused.error());
    EXPECT_EQ(values.get(), before);
  }
  EXPECT_TRUE(device.end_recording().has_error());
  expect_recordings(device);
}

}  // namespace lockstep::worker
