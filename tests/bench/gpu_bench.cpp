// What kernels and steps take on a GPU, beside what the device gives: the emitter's kernels against
// a copy on the device, launches with and without a recording, the steps that gpu_torch.py has
// peers for, and building by NVRTC. Floor and ours alternate in one process. Where there is no GPU
// it says so, runs what needs none (building, for sm_90) and exits with 7.
//
// usage: gpu_bench [--tiny] [Google Benchmark's options]
#include <cstdio>
#include <cstring>

#include "gpu_exchange.h"
#include "gpu_program.h"
#include "paired_times.h"
#include <benchmark/benchmark.h>

#include <lockstep/collectives/nccl/nccl.h>
#include <lockstep/worker/compile/device/cuda_device.h>
#include <lockstep/worker/compile/toolchain/nvrtc_toolchain.h>

namespace {

using namespace lockstep::bench;  // NOLINT: a bench reads like a user's program
using lockstep::Result;
using lockstep::Status;
using lockstep::worker::Device;
using lockstep::worker::DeviceAddress;
using lockstep::worker::DeviceRecording;
using lockstep::worker::Toolchain;

struct Setting {
  std::shared_ptr<Device> device;  // null: there is none
  std::unique_ptr<Toolchain> toolchain;
  std::string missing;  // what there is no device for
  bool tiny = false;
  [[nodiscard]] int batches() const { return tiny ? 2 : 31; }
  [[nodiscard]] int calls() const { return tiny ? 2 : 20; }
};

/// False: the benchmark was skipped, and says why.
bool ready(benchmark::State& state, const Setting& setting) {
  if (!setting.device) state.SkipWithError(setting.missing.c_str());
  return setting.device != nullptr;
}

template <class T>
std::optional<T> taken(benchmark::State& state, Result<T> result) {
  if (result) return *std::move(result);
  state.SkipWithError(result.error().message.c_str());
  return std::nullopt;
}

/// One iteration: a whole run of batches. `bytes`: that each side reads and writes.
void compare(benchmark::State& state, const Setting& setting, const Sides& sides, int calls,
             double floor_bytes, double our_bytes) {
  for (auto _ : state) {
    const auto times = taken(state, paired_times(sides, setting.batches(), calls));
    if (!times) return;
    state.SetIterationTime(times->ours_s);
    const double scale = floor_bytes > 0 ? our_bytes / floor_bytes : 1;
    state.counters["floor_us"] = times->floor_s * 1e6;
    state.counters["fraction"] = times->ratio * scale;
    state.counters["fraction_low"] = times->low * scale;
    state.counters["fraction_high"] = times->high * scale;
    if (floor_bytes == 0) continue;
    state.counters["copy_GB/s"] = floor_bytes / times->floor_s * 1e-9;
    state.counters["ours_GB/s"] = our_bytes / times->ours_s * 1e-9;
  }
}

/// Memory of a device for the length of a benchmark.
class Area {
 public:
  Area(Device& device, std::size_t bytes) : device_(device), at_(device.allocate(bytes)) {}
  ~Area() {
    if (*this) (void)device_.free(address());
  }
  Area(const Area&) = delete;
  Area& operator=(const Area&) = delete;
  explicit operator bool() const { return at_ && *at_; }
  [[nodiscard]] DeviceAddress address() const { return **at_; }

 private:
  Device& device_;
  Result<std::optional<DeviceAddress>> at_;
};

/// The kernels of a model of x [rows, width] f32 against a copy of x on the device.
void against_a_copy(benchmark::State& state, const Setting& setting, Result<Model> made,
                    double our_bytes) {
  if (!ready(state, setting)) return;
  auto model = taken(state, std::move(made));
  if (!model) return;
  auto built = taken(state, build_for(model->graph, *setting.toolchain));
  if (!built) return;
  Device& device = *setting.device;
  auto kernels = taken(state, BareKernels::load(*model, *std::move(built), device));
  if (!kernels) return;
  const std::size_t bytes = model->inputs.at("x").bytes();
  const Area from(device, bytes), to(device, bytes);
  if (!from || !to) return state.SkipWithError("the device has no memory for the copy");
  if (auto zeroed = device.zero(from.address(), bytes); !zeroed)
    return state.SkipWithError(zeroed.error().message.c_str());
  const Sides sides{.floor = [&] { return device.copy(to.address(), from.address(), bytes); },
                    .ours = [&] { return (*kernels)->launch(); },
                    .wait = [&] { return device.synchronise(); }};
  compare(state, setting, sides, setting.calls(), 2.0 * static_cast<double>(bytes), our_bytes);
  state.counters["kernels"] = static_cast<double>((*kernels)->count());
}

struct Extent {
  std::int64_t rows, width;
  [[nodiscard]] double bytes() const { return 4.0 * static_cast<double>(rows * width); }
};
/// 1 GiB of f32, or next to nothing.
Extent large(const Setting& setting) {
  return setting.tiny ? Extent{37, 65} : Extent{262'144, 1'024};
}

void elementwise(benchmark::State& state, const Setting& setting) {
  const Extent e = large(setting);
  against_a_copy(state, setting, chain(e.rows, e.width), 2 * e.bytes());
}

void reduction(benchmark::State& state, const Setting& setting, int dim) {
  const Extent e = large(setting);
  against_a_copy(state, setting, sums(e.rows, e.width, dim), e.bytes());
}

/// Launching kernels one by one (the floor) and as one recording.
void launches(benchmark::State& state, const Setting& setting) {
  if (!ready(state, setting)) return;
  auto model = taken(state, small_kernels(setting.tiny ? 4 : 200));
  if (!model) return;
  auto built = taken(state, build_for(model->graph, *setting.toolchain));
  if (!built) return;
  Device& device = *setting.device;
  auto kernels = taken(state, BareKernels::load(*model, *std::move(built), device));
  if (!kernels) return;
  const auto record = [&]() -> Result<DeviceRecording> {
    if (auto begun = device.begin_recording(); !begun) return begun.error();
    const auto launched = (*kernels)->launch();
    auto recording = device.end_recording();
    if (!launched) return launched.error();
    return recording;
  };
  const auto recording = taken(state, record());
  if (!recording) return;
  compare(state, setting,
          {.floor = [&] { return (*kernels)->launch(); },
           .ours = [&] { return device.launch(*recording); },
           .wait = [&] { return device.synchronise(); }},
          setting.calls(), 0, 0);
  const auto count = static_cast<double>((*kernels)->count());
  state.counters["kernels"] = count;
  state.counters["floor_us_per_kernel"] = state.counters["floor_us"] / count;
  (void)device.synchronise();
  device.destroy(*recording);
}

/// Whole steps through the executable: times only, and what gpu_torch.py compares itself with.
void steps(benchmark::State& state, const Setting& setting, Result<Model> made,
           const StepShape& shape, bool recorded = false) {
  if (!ready(state, setting)) return;
  auto model = taken(state, std::move(made));
  if (!model) return;
  auto built = taken(state, build_for(model->graph, *setting.toolchain));
  if (!built) return;
  auto stepped =
      taken(state, SteppedModel::load(*std::move(model), *std::move(built), setting.device));
  if (!stepped) return;
  if (recorded) (*stepped)->record();
  const auto step = [&] { return (*stepped)->step(); };
  const auto wait = [&] { return setting.device->synchronise(); };
  for (const char* loss : {"first_loss", "second_loss"}) {
    if (auto done = step(); !done) return state.SkipWithError(done.error().message.c_str());
    state.counters[loss] = (*stepped)->last_value();
  }
  for (auto _ : state) {
    std::vector<double> times;
    for (int b = -1; b < setting.batches(); ++b) {
      const auto took = taken(state, batch_s(step, wait, setting.tiny ? 1 : 5));
      if (!took) return;
      if (b >= 0) times.push_back(*took);
    }
    state.SetIterationTime(median(times));
  }
  state.counters["lines"] = static_cast<double>(shape.lines);
  state.counters["length"] = static_cast<double>(shape.length);
  state.counters["width"] = static_cast<double>(shape.width);
  state.counters["hidden"] = static_cast<double>(shape.hidden);
  state.counters["experts"] = static_cast<double>(shape.experts);
  state.counters["bytes"] = static_cast<double>((*stepped)->bytes());
}

/// Small kernels through the executable: what its own work adds to launches.
void run_overhead(benchmark::State& state, const Setting& setting, bool recorded) {
  if (!ready(state, setting)) return;
  auto model = taken(state, small_kernels(setting.tiny ? 4 : 200));
  if (!model) return;
  auto built = taken(state, build_for(model->graph, *setting.toolchain));
  if (!built) return;
  auto kernels = taken(state, BareKernels::load(*model, *built, *setting.device));
  if (!kernels) return;
  model->inputs["x"] = lockstep::worker::Array::zeros(lockstep::DType::F32, {1, 8});
  auto stepped =
      taken(state, SteppedModel::load(*std::move(model), *std::move(built), setting.device));
  if (!stepped) return;
  if (recorded) (*stepped)->record();
  compare(state, setting,
          {.floor = [&]() -> Result<void> {
             if (auto launched = (*kernels)->launch(); !launched) return launched;
             return setting.device->synchronise();
           },
           .ours = [&] { return (*stepped)->step(); },
           .wait = [&] { return setting.device->synchronise(); }},
          setting.calls(), 0, 0);
  state.counters["kernels"] = static_cast<double>((*kernels)->count());
}

/// all_to_all_single of the data plane against a send and a receive by hand, on one GPU.
void exchange(benchmark::State& state, const Setting& setting, std::int64_t rows) {
  using lockstep::collectives::Collective;
  if (!ready(state, setting)) return;
  constexpr std::int64_t kWidth = 1024;
  Device& device = *setting.device;
  const auto elements = static_cast<std::size_t>(rows * kWidth);
  const Area from(device, elements * 4), to(device, elements * 4);
  if (!from || !to) return state.SkipWithError("the device has no memory for the exchange");
  if (auto zeroed = device.zero(from.address(), elements * 4); !zeroed)
    return state.SkipWithError(zeroed.error().message.c_str());
  const auto id = taken(state, lockstep::collectives::nccl_unique_id(lockstep::Rank{0}));
  if (!id) return;
  auto data = taken(state, lockstep::collectives::connect_nccl(
                               {.rank = 0,
                                .size = 1,
                                .id = *id,
                                .ordinal = device.ordinal(),
                                .device_name = device.name(),
                                .stream = device.stream(lockstep::worker::DeviceStream::Work)}));
  if (!data) return;
  auto bare = taken(state, BareExchange::open(device));
  if (!bare) return;
  const std::vector<std::int64_t> counts{rows};
  const Collective ours{.kind = Collective::Kind::AllToAll,
                        .send = reinterpret_cast<const void*>(from.address()),
                        .receive = reinterpret_cast<void*>(to.address()),
                        .row_elements = kWidth,
                        .rows = rows,
                        .send_rows = counts,
                        .receive_rows = counts,
                        .label = "all_to_all_single"};
  compare(state, setting,
          {.floor = [&] { return (*bare)->start(from.address(), to.address(), elements); },
           .ours = [&] { return (*data)->start(ours); },
           .wait = [&] { return device.synchronise(); }},
          setting.calls(), 0, 0);
  state.counters["bytes"] = static_cast<double>(elements * 4);
}

/// Text and cubins of the training step, from its graph. Needs no device.
void building(benchmark::State& state, const Setting& setting, Result<Model> made) {
  if (!setting.toolchain) return state.SkipWithError(setting.missing.c_str());
  const auto model = taken(state, std::move(made));
  if (!model) return;
  for (auto _ : state) {
    const auto built = taken(state, build_for(model->graph, *setting.toolchain));
    if (!built) return;
    state.counters["units"] = static_cast<double>(built->units.size());
    state.counters["kernels"] = static_cast<double>(built->program.kernels.size());
  }
}

void add(const char* name, const std::function<void(benchmark::State&)>& body) {
  benchmark::RegisterBenchmark(name, body)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(1);
}

void add_all(const Setting& setting) {
  using benchmark::State;
  const StepShape shape = setting.tiny ? kTinyStep : kUsualStep;
  add("elementwise_chain", [&](State& s) { elementwise(s, setting); });
  add("sum_along_rows", [&](State& s) { reduction(s, setting, 1); });
  add("sum_over_rows", [&](State& s) { reduction(s, setting, 0); });
  add("sum_of_all", [&](State& s) { reduction(s, setting, -1); });
  add("recorded_launches", [&](State& s) { launches(s, setting); });
  add("run_of_small_kernels", [&](State& s) { run_overhead(s, setting, false); });
  add("recorded_run_of_small_kernels", [&](State& s) { run_overhead(s, setting, true); });
  for (const std::int64_t rows :
       setting.tiny ? std::vector<std::int64_t>{3} : std::vector<std::int64_t>{1, 4'096, 65'536})
    add(("all_to_all_of_" + std::to_string(rows) + "_rows").c_str(),
        [&setting, rows](State& s) { exchange(s, setting, rows); });
  add("transformer_block",
      [&setting, shape](State& s) { steps(s, setting, transformer_block(shape), shape); });
  add("moe_step", [&setting, shape](State& s) { steps(s, setting, moe_step(shape), shape); });
  add("recorded_moe_step",
      [&setting, shape](State& s) { steps(s, setting, moe_step(shape), shape, true); });
  benchmark::RegisterBenchmark(
      "build_moe_step", [&setting, shape](State& s) { building(s, setting, moe_step(shape)); })
      ->Unit(benchmark::kMillisecond)
      ->Iterations(1);
}

/// A device and its toolchain; else the toolchain of an H100, and why there is no device.
Setting open_setting(bool tiny) {
  Setting out{.device = nullptr, .toolchain = nullptr, .missing = {}, .tiny = tiny};
  std::string architecture = "sm_90";
  if (auto device = lockstep::worker::open_cuda_device({})) {
    out.device = *std::move(device);
    architecture = out.device->architecture();
  } else {
    out.missing = device.error().message;
  }
  if (auto toolchain = lockstep::worker::open_nvrtc({.architecture = architecture})) {
    out.toolchain = *std::move(toolchain);
  } else {
    out.device.reset();
    out.missing = toolchain.error().message;
  }
  return out;
}

/// Why its times are no figures of a GPU; empty: they are.
std::string no_figures(const Setting& setting) {
  constexpr const char* kEmulated = "656d756c-6174-6564";  // "emulated", in the UUID of such a unit
  if (!setting.device) return setting.missing;
  if (setting.device->unit_name().find(kEmulated) != std::string::npos)
    return "the device is emulated on this processor";
  return setting.tiny ? "--tiny shows that it runs" : "";
}

/// Takes --tiny out of the arguments.
bool take_tiny(int& argc, char** argv) {
  char** end = std::remove_if(argv + 1, argv + argc,
                              [](const char* a) { return std::strcmp(a, "--tiny") == 0; });
  const bool found = end != argv + argc;
  argc = static_cast<int>(end - argv);
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kUsage = 2, kEnvironment = 7;
  const bool tiny = take_tiny(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return kUsage;
  const Setting setting = open_setting(tiny);
  if (setting.device) {
    benchmark::AddCustomContext("device", setting.device->name());
    benchmark::AddCustomContext("unit", setting.device->unit_name());
    benchmark::AddCustomContext("products", setting.device->product_identity());
  }
  if (const std::string why = no_figures(setting); !why.empty())
    benchmark::AddCustomContext("figures", "none: " + why);
  add_all(setting);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  if (setting.device) return 0;
  std::fprintf(stderr, "gpu_bench: no figures of a device: %s\n", setting.missing.c_str());
  return kEnvironment;
}
