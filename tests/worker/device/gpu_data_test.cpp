// Collectives between GPUs through NCCL, one rank per GPU, against what the processor says.
// Skipped, and said aloud, where there is none; with one GPU its rank is alone.
#include <algorithm>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include <lockstep/collectives/nccl/nccl.h>
#include <lockstep/worker/compile/device/cuda_device.h>

namespace lockstep::worker::gpu_data_test {
namespace {

using namespace std::chrono_literals;
using collectives::Collective;
using collectives::DeviceData;
using collectives::NcclId;
using collectives::Reduce;
using Kind = Collective::Kind;

constexpr auto kDeadline = 60s;

/// One rank, on a thread of its own. What fails is a line of `wrong`.
class GpuRank {
 public:
  GpuRank(int rank, int size, int ordinal, const NcclId& id) : rank_(rank), size_(size) {
    auto opened = open_cuda_device({.ordinal = ordinal, .rank = Rank{rank}});
    if (!took(opened)) return;
    device_ = *std::move(opened);
    auto connected = collectives::connect_nccl({.rank = rank,
                                                .size = size,
                                                .id = id,
                                                .ordinal = ordinal,
                                                .device_name = device_->name(),
                                                .stream = device_->stream(DeviceStream::Work),
                                                .deadline = kDeadline});
    if (took(connected)) data_ = *std::move(connected);
  }

  [[nodiscard]] bool ready() const { return data_ != nullptr; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] Device& device() { return *device_; }
  [[nodiscard]] DeviceData& data() { return *data_; }
  std::vector<std::string> wrong;

  template <class T>
  bool took(const Result<T>& result) {
    if (!result) wrong.push_back(result.error().text());
    return result.has_value();
  }
  void expect(bool right, const std::string& what) {
    if (!right) wrong.push_back(what);
  }

  /// Waits for the stream as a job does: an error in flight ends it.
  bool wait() {
    const auto begun = std::chrono::steady_clock::now();
    for (;;) {
      const auto idle = device_->idle();
      if (!took(idle) || !took(data_->poll())) return false;
      if (*idle) return true;
      if (std::chrono::steady_clock::now() - begun < kDeadline) continue;
      data_->abort();
      wrong.push_back("the stream does not end");
      return false;
    }
  }

  /// The collective on what is uploaded; what lies in its receive buffer then, behind what lay in
  /// it.
  template <class T>
  std::vector<T> run(Collective c, const std::vector<T>& sent, std::vector<T> received) {
    const DeviceAddress send = upload(sent), receive = upload(received);
    c.send = reinterpret_cast<const void*>(send);
    c.receive = reinterpret_cast<void*>(receive);
    if (took(data_->start(c)) && wait())
      (void)took(device_->download(received.data(), receive, received.size() * sizeof(T)));
    release(send);
    release(receive);
    return received;
  }
  template <class T>
  DeviceAddress upload(const std::vector<T>& values) {
    if (values.empty()) return DeviceAddress{};
    const auto memory = device_->allocate(values.size() * sizeof(T));
    if (!took(memory) || !*memory) return DeviceAddress{};
    (void)took(device_->upload(**memory, values.data(), values.size() * sizeof(T)));
    (void)took(device_->synchronise());
    return **memory;
  }
  void release(DeviceAddress memory) {
    if (memory != DeviceAddress{}) (void)took(device_->free(memory));
  }

 private:
  int rank_, size_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceData> data_;
};

/// Small whole numbers, so that sums are exact.
template <class T>
std::vector<T> values(int rank, std::int64_t count) {
  std::vector<T> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<T>((rank * 3 + i) % 5));
  return out;
}

std::int64_t split(int from, int to) { return (from * 2 + to) % 3 * 1031; }

template <class T>
void all_reduce(GpuRank& self, DType dtype, Reduce reduce, std::int64_t count) {
  std::vector<T> expected = values<T>(0, count);
  for (int r = 1; r < self.size(); ++r) {
    const std::vector<T> other = values<T>(r, count);
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = reduce == Reduce::Sum   ? static_cast<T>(expected[i] + other[i])
                    : reduce == Reduce::Min ? std::min(expected[i], other[i])
                                            : std::max(expected[i], other[i]);
  }
  const auto got =
      self.run<T>({.kind = Kind::AllReduce, .dtype = dtype, .reduce = reduce, .rows = count},
                  values<T>(self.rank(), count), std::vector<T>(expected.size(), T{99}));
  self.expect(got == expected, "all_reduce of " + std::string(dtype_name(dtype)));
}

template <class T>
void others(GpuRank& self, DType dtype, std::int64_t rows) {
  const int n = self.size();
  const auto mine = values<T>(self.rank(), rows);
  std::vector<T> gathered, rest(static_cast<std::size_t>(rows), T{99});
  for (int r = 0; r < n; ++r)
    for (const T value : values<T>(r, rows)) gathered.push_back(value);
  self.expect(self.run<T>({.kind = Kind::AllGather, .dtype = dtype, .rows = rows}, mine,
                          std::vector<T>(gathered.size(), T{99})) == gathered,
              "all_gather of " + std::string(dtype_name(dtype)));
  self.expect(
      self.run<T>({.kind = Kind::Broadcast, .dtype = dtype, .root = Rank{n - 1}, .rows = rows}, {},
                  mine) == values<T>(n - 1, rows),
      "broadcast of " + std::string(dtype_name(dtype)));
}

void reduce_scatter(GpuRank& self, std::int64_t rows) {
  const int n = self.size();
  std::vector<double> expected(static_cast<std::size_t>(rows), 0);
  for (int r = 0; r < n; ++r) {
    const auto sent = values<double>(r, rows * n);
    for (std::int64_t i = 0; i < rows; ++i)
      expected[static_cast<std::size_t>(i)] +=
          sent[static_cast<std::size_t>(self.rank() * rows + i)];
  }
  const auto got = self.run<double>(
      {.kind = Kind::ReduceScatter, .dtype = DType::F64, .rows = rows},
      values<double>(self.rank(), rows * n), std::vector<double>(expected.size(), 99));
  self.expect(got == expected, "reduce_scatter");
}

template <class T>
void all_to_all(GpuRank& self, DType dtype, std::int64_t width) {
  std::vector<std::int64_t> sent_rows, received_rows;
  std::vector<T> expected;
  std::int64_t sent = 0;
  for (int r = 0; r < self.size(); ++r) {
    sent_rows.push_back(split(self.rank(), r));
    received_rows.push_back(split(r, self.rank()));
    sent += sent_rows.back() * width;
    std::int64_t before = 0;
    for (int to = 0; to < self.rank(); ++to) before += split(r, to) * width;
    const auto theirs = values<T>(r, before + received_rows.back() * width);
    expected.insert(expected.end(), theirs.begin() + before, theirs.end());
  }
  const auto got =
      self.run<T>({.kind = Kind::AllToAll,
                   .dtype = dtype,
                   .row_elements = width,
                   .send_rows = sent_rows,
                   .receive_rows = received_rows},
                  values<T>(self.rank(), sent), std::vector<T>(expected.size(), T{99}));
  self.expect(got == expected, "all_to_all_single of " + std::string(dtype_name(dtype)));
}

/// Every rank's part at once; fails with what went wrong on any.
template <class Part>
void on_gpus(int size, Part part) {
  const auto id = collectives::nccl_unique_id(Rank{0});
  ASSERT_TRUE(id) << id.error().text();
  std::vector<std::vector<std::string>> wrong(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      GpuRank self(r, size, r, *id);
      part(self);
      wrong[static_cast<std::size_t>(r)] = self.wrong;
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& lines : wrong)
    for (const std::string& line : lines) ADD_FAILURE() << line;
}

class GpuData : public testing::Test {
 protected:
  void SetUp() override {
    const auto count = cuda_device_count(Rank{0});
    if (!count) GTEST_SKIP() << "SKIPPED ALOUD: " << count.error().message;
    if (*count == 0) GTEST_SKIP() << "SKIPPED ALOUD: the driver has no GPU for this process";
    gpus_ = std::min(*count, 8);
  }
  int gpus_ = 0;
};

void everything(GpuRank& self) {
  if (!self.ready()) return;
  for (const std::int64_t count : {0, 1, 5, 100'003}) {
    for (const Reduce reduce : {Reduce::Sum, Reduce::Min, Reduce::Max}) {
      all_reduce<double>(self, DType::F64, reduce, count);
      all_reduce<float>(self, DType::F32, reduce, count);
      all_reduce<std::int64_t>(self, DType::I64, reduce, count);
      all_reduce<std::int32_t>(self, DType::I32, reduce, count);
    }
    all_reduce<std::uint8_t>(self, DType::U8, Reduce::Max, count);
    others<std::uint8_t>(self, DType::Bool, count);
    others<std::int16_t>(self, DType::I16, count);
    others<std::uint16_t>(self, DType::BF16, count);
    others<std::uint16_t>(self, DType::F16, count);
    others<float>(self, DType::F32, count);
    reduce_scatter(self, count);
  }
  for (const std::int64_t width : {1, 17}) {
    all_to_all<float>(self, DType::F32, width);
    all_to_all<std::int16_t>(self, DType::I16, width);
  }
}

TEST_F(GpuData, OneGpu_EveryCollective) { on_gpus(1, everything); }
TEST_F(GpuData, AllGpus_EveryCollective) { on_gpus(gpus_, everything); }

TEST_F(GpuData, RecordedCollective_IsDoneAtEachLaunch) {
  on_gpus(gpus_, [](GpuRank& self) {
    if (!self.ready()) return;
    Device& device = self.device();
    std::vector<float> got(5, 0);
    // What connects devices is no part of a recording.
    all_reduce<float>(self, DType::F32, Reduce::Sum, 5);
    const DeviceAddress sum = self.upload(got), mine = self.upload(std::vector<float>(5, 1));
    if (!self.took(device.begin_recording())) return;
    (void)self.took(self.data().start({.kind = Kind::AllReduce,
                                       .send = reinterpret_cast<const void*>(mine),
                                       .receive = reinterpret_cast<void*>(sum),
                                       .rows = 5}));
    const auto recording = device.end_recording();
    if (!self.took(recording)) return;
    for (const float value : {1.0F, 2.0F}) {
      const std::vector<float> now(5, value);
      if (!self.took(device.upload(mine, now.data(), now.size() * sizeof(float))) ||
          !self.took(device.launch(*recording)) || !self.wait() ||
          !self.took(device.download(got.data(), sum, got.size() * sizeof(float))))
        break;
      self.expect(got == std::vector<float>(5, value * static_cast<float>(self.size())),
                  "recorded all_reduce");
    }
    device.destroy(*recording);
    self.release(sum);
    self.release(mine);
  });
}

TEST_F(GpuData, TwoRanksOnOneGpu_AreRefused) {
  const auto id = collectives::nccl_unique_id(Rank{0});
  ASSERT_TRUE(id) << id.error().text();
  std::vector<std::vector<std::string>> wrong(2);
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back(
        [&, r] { wrong[static_cast<std::size_t>(r)] = GpuRank(r, 2, 0, *id).wrong; });
  for (std::thread& thread : threads) thread.join();
  for (const auto& lines : wrong) {
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find("ncclCommInitRankConfig failed on rank "), std::string::npos)
        << lines[0];
  }
}

TEST_F(GpuData, Abort_EndsWhatWaitsOnTheStream) {
  if (gpus_ < 2) GTEST_SKIP() << "SKIPPED: it takes two GPUs";
  std::promise<void> aborted;
  on_gpus(2, [&, over = aborted.get_future().share()](GpuRank& self) {
    if (self.ready()) all_reduce<float>(self, DType::F32, Reduce::Sum, 5);
    if (self.rank() == 1) {
      over.wait();
      if (self.ready()) self.data().abort();
      return;
    }
    if (self.ready()) {
      const DeviceAddress sum = self.upload(std::vector<float>(5, 0));
      const DeviceAddress mine = self.upload(std::vector<float>(5, 1));
      (void)self.took(self.data().start({.kind = Kind::AllReduce,
                                         .send = reinterpret_cast<const void*>(mine),
                                         .receive = reinterpret_cast<void*>(sum),
                                         .rows = 5}));
      std::this_thread::sleep_for(200ms);
      const auto idle = self.device().idle();
      self.expect(self.took(idle) && !*idle, "the peer has not come");
      self.data().abort();
      (void)self.took(self.device().synchronise());
      self.release(sum);
      self.release(mine);
    }
    aborted.set_value();
  });
}

}  // namespace
}  // namespace lockstep::worker::gpu_data_test
