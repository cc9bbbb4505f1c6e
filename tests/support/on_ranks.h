// A graph on several ranks, one thread each: compiled for the host, compiled for devices, and
// interpreted.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include "compiled_graph.h"
#include "emulated_device.h"
#include "thread_group.h"

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/interpreter/interpreter.h>
#include <lockstep/worker/compile/toolchain/shared_build.h>

namespace lockstep::worker {

/// Carries collectives between devices whose memory is in this process.
class EmulatedData final : public collectives::DeviceData {
 public:
  EmulatedData(EmulatedDevice& device, collectives::Communicator& ranks)
      : device_(device), ranks_(ranks) {}
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Result<void> start(const collectives::Collective& collective) override {
    return device_.exchange(collective, ranks_.size(),
                            [&](const collectives::Collective& c) { return ranks_.run(c); });
  }
  [[nodiscard]] Result<void> poll() override { return {}; }
  void abort() override {}

 private:
  EmulatedDevice& device_;
  collectives::Communicator& ranks_;
  std::string name_ = "memory of one process";
};

/// A host whose ranks' devices have an EmulatedData for each group.
class HostWithData final : public RunHost {
 public:
  HostWithData(RunHost& host, collectives::Communicator& all, EmulatedDevice& device)
      : host_(host), all_(all), device_(device) {}
  Result<void> settle(const std::optional<LocalFailure>& mine) override {
    return host_.settle(mine);
  }
  [[nodiscard]] bool reaches_all() const override { return host_.reaches_all(); }
  collectives::Communicator* group(std::string_view name) override { return host_.group(name); }
  [[nodiscard]] Rank rank_at(std::string_view group, Rank place) const override {
    return host_.rank_at(group, place);
  }
  collectives::DeviceData* device_data(std::string_view name) override {
    collectives::Communicator* ranks = name.empty() ? &all_ : host_.group(name);
    if (ranks == nullptr) return nullptr;
    auto& data = data_[std::string(name)];
    if (!data) data = std::make_unique<EmulatedData>(device_, *ranks);
    return data.get();
  }

 private:
  RunHost& host_;
  collectives::Communicator& all_;
  EmulatedDevice& device_;
  std::map<std::string, std::unique_ptr<EmulatedData>> data_;
};

/// Runs a graph on every rank and collects the results.
class OnRanks {
 public:
  OnRanks(Graph graph, int size) : graph_(std::move(graph)), size_(size) {}

  using Outcome = Result<std::vector<Array>>;
  struct Run {
    std::vector<std::optional<Outcome>> ranks;
    int rounds = 0, collectives = 0;
    int overlaps = 0;  // starts on devices while a collective was under way, over all ranks
  };
  Run compiled(const std::vector<Inputs>& inputs) {
    if (units_.empty()) units_ = build();
    return run([&](int, collectives::Communicator& communicator, RunHost& host) {
      auto executable = Executable::load(generate(graph_).value(), units_, clock_).value();
      return executable->run(inputs[static_cast<std::size_t>(communicator.rank().value)],
                             communicator, host);
    });
  }
  /// How collectives between devices run: through the host, or from device to device.
  enum class Way : std::uint8_t { Staged, Direct, DirectRecorded };
  /// Runs each rank on a device of its own. `prepare` may make a rank's device fail, or limit its
  /// memory.
  Run on_devices(const std::vector<Inputs>& inputs, Way way,
                 const std::function<void(int rank, EmulatedDevice& device)>& prepare = {}) {
    std::atomic<int> overlaps = 0;
    if (!for_devices_)
      for_devices_ = build_emulated(generate(graph_, Target::Cuda).value()).value();
    Run all = run([&](int rank, collectives::Communicator& communicator, RunHost& host) {
      const auto device = std::make_shared<EmulatedDevice>();
      auto executable =
          Executable::load(for_devices_->program, for_devices_->units, clock_, device).value();
      if (way == Way::DirectRecorded) executable->capture({});
      HostWithData with_data(host, communicator, *device);
      if (prepare) prepare(rank, *device);
      auto out = executable->run(inputs[static_cast<std::size_t>(rank)], communicator,
                                 way == Way::Staged ? host : with_data);
      if (out)
        for (Array& array : *out) (void)array.data();
      executable.reset();
      EXPECT_EQ(device->live_bytes(), 0U);
      EXPECT_EQ(device->events(), 0U);
      EXPECT_EQ(device->disorder(), "");
      overlaps += device->overlaps();
      return out;
    });
    all.overlaps = overlaps;
    return all;
  }
  Run interpreted(const std::vector<Inputs>& inputs) {
    return run([&](int rank, collectives::Communicator& communicator, RunHost& host) {
      return interpret(graph_, inputs[static_cast<std::size_t>(rank)], communicator, host);
    });
  }

  /// Expects the same results, rounds and collectives on every rank from the interpreter, the
  /// host's program, and the devices' program with every way for collectives. Returns the
  /// interpreter's.
  Run everywhere(const std::vector<Inputs>& inputs) {
    Run expected = interpreted(inputs);
    compare(compiled(inputs), expected, "compiled");
    compare(on_devices(inputs, Way::Staged), expected, "on devices, staged");
    compare(on_devices(inputs, Way::Direct), expected, "on devices");
    compare(on_devices(inputs, Way::DirectRecorded), expected, "on devices, recorded");
    return expected;
  }

 private:
  static void compare(const Run& got, const Run& expected, const char* how) {
    SCOPED_TRACE(how);
    EXPECT_EQ(got.rounds, expected.rounds);
    EXPECT_EQ(got.collectives, expected.collectives);
    for (std::size_t r = 0; r < got.ranks.size(); ++r) {
      EXPECT_EQ(got.ranks[r]->has_value(), expected.ranks[r]->has_value());
      if (got.ranks[r]->has_value() != expected.ranks[r]->has_value()) continue;
      if (!got.ranks[r]->has_value()) {
        EXPECT_EQ(got.ranks[r]->error().text(), expected.ranks[r]->error().text());
        continue;
      }
      EXPECT_TRUE(same(got.ranks[r]->value(), expected.ranks[r]->value(), 1e-12)) << "rank " << r;
    }
  }
  std::vector<Bytes> build() {
    const Program program = generate(graph_).value();
    std::vector<Bytes> units;
    for (const std::string& unit : program.units)
      units.push_back(test_toolchain().build(unit).value());
    return units;
  }
  Run run(const std::function<Outcome(int, collectives::Communicator&, RunHost&)>& body) {
    Run out;
    out.ranks.resize(static_cast<std::size_t>(size_));
    ThreadGroup group(size_);
    group.run([&](collectives::Communicator& communicator, RunHost& host) {
      const int rank = communicator.rank().value;
      out.ranks[static_cast<std::size_t>(rank)] = body(rank, communicator, host);
    });
    out.rounds = group.rounds();
    out.collectives = group.collectives();
    return out;
  }
  Graph graph_;
  int size_;
  std::vector<Bytes> units_;
  std::optional<EmulatedProgram> for_devices_;
  SystemClock clock_;
};

/// The outputs of rank 0 in one way of running.
struct Way {
  const char* name;
  std::vector<Array> outputs;
};
/// Requires a graph of one rank that runs to its end.
inline std::vector<Way> every_way(OnRanks& ranks, const Inputs& inputs) {
  const auto got = [](OnRanks::Run run) { return run.ranks[0].value().value(); };
  return {{"interpreted", got(ranks.interpreted({inputs}))},
          {"compiled", got(ranks.compiled({inputs}))},
          {"on a device", got(ranks.on_devices({inputs}, OnRanks::Way::Staged))}};
}

}  // namespace lockstep::worker
