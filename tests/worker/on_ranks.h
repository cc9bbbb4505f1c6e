// A graph on several ranks, one thread each: compiled for the host, compiled for devices, and
// interpreted.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compiled_graph.h"
#include "emulated_device.h"
#include "thread_group.h"

#include <lockstep/worker/build.h>
#include <lockstep/worker/codegen.h>
#include <lockstep/worker/interpreter.h>

namespace lockstep::worker {

/// Carries collectives between devices whose memory is this process's.
class EmulatedData final : public collectives::DeviceData {
 public:
  explicit EmulatedData(collectives::Communicator& ranks) : ranks_(ranks) {}
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Result<void> start(const collectives::Collective& collective) override {
    return ranks_.run(collective);
  }
  [[nodiscard]] Result<void> poll() override { return {}; }
  void abort() override {}

 private:
  collectives::Communicator& ranks_;
  std::string name_ = "memory of one process";
};

/// A host whose ranks' devices have such data planes.
class HostWithData final : public RunHost {
 public:
  HostWithData(RunHost& host, collectives::Communicator& all) : host_(host), all_(all) {}
  Result<void> settle(const std::optional<LocalFailure>& mine) override {
    return host_.settle(mine);
  }
  [[nodiscard]] bool reaches_all() const override { return host_.reaches_all(); }
  collectives::Communicator* group(std::string_view name) override { return host_.group(name); }
  collectives::DeviceData* device_data(std::string_view name) override {
    collectives::Communicator* ranks = name.empty() ? &all_ : host_.group(name);
    if (ranks == nullptr) return nullptr;
    auto& data = data_[std::string(name)];
    if (!data) data = std::make_unique<EmulatedData>(*ranks);
    return data.get();
  }

 private:
  RunHost& host_;
  collectives::Communicator& all_;
  std::map<std::string, std::unique_ptr<EmulatedData>> data_;
};

/// What every rank gets from a graph.
class OnRanks {
 public:
  OnRanks(Graph graph, int size) : graph_(std::move(graph)), size_(size) {}

  using Outcome = Result<std::vector<Array>>;
  struct Run {
    std::vector<std::optional<Outcome>> ranks;
    int rounds = 0, collectives = 0;
  };
  Run compiled(const std::vector<Inputs>& inputs) {
    if (units_.empty()) units_ = build();
    return run([&](int, collectives::Communicator& communicator, RunHost& host) {
      auto executable = Executable::load(generate(graph_).value(), units_, clock_).value();
      return executable->run(inputs[static_cast<std::size_t>(communicator.rank().value)],
                             communicator, host);
    });
  }
  /// Each rank on a device of its own. `direct`: collectives between the devices, and runs
  /// recorded; else collectives by way of the host. `prepare` may tell a rank's device to fail.
  Run on_devices(const std::vector<Inputs>& inputs, bool direct,
                 const std::function<void(int rank, EmulatedDevice& device)>& prepare = {}) {
    if (!for_devices_)
      for_devices_ = build_emulated(generate(graph_, Target::Cuda).value()).value();
    return run([&](int rank, collectives::Communicator& communicator, RunHost& host) {
      const auto device = std::make_shared<EmulatedDevice>();
      auto executable =
          Executable::load(for_devices_->program, for_devices_->units, clock_, device).value();
      if (direct) executable->record({});
      HostWithData with_data(host, communicator);
      if (prepare) prepare(rank, *device);
      auto out = executable->run(inputs[static_cast<std::size_t>(rank)], communicator,
                                 direct ? with_data : host);
      if (out)
        for (Array& array : *out) (void)array.data();
      executable.reset();
      EXPECT_EQ(device->live_bytes(), 0U);
      return out;
    });
  }
  Run interpreted(const std::vector<Inputs>& inputs) {
    return run([&](int rank, collectives::Communicator& communicator, RunHost& host) {
      return interpret(graph_, inputs[static_cast<std::size_t>(rank)], communicator, host);
    });
  }

  /// All give the same on every rank, in as many rounds and collectives: the interpreter, the
  /// host's program, the devices' with either way for collectives.
  Run everywhere(const std::vector<Inputs>& inputs) {
    Run expected = interpreted(inputs);
    compare(compiled(inputs), expected, "compiled");
    compare(on_devices(inputs, false), expected, "on devices, staged");
    compare(on_devices(inputs, true), expected, "on devices");
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
    for (int i = 0; i < program.unit_count(); ++i)
      units.push_back(build_unit(program, i, test_toolchain(), nullptr).value().object);
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

}  // namespace lockstep::worker
