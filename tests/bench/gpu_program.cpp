#include "gpu_program.h"

#include <cstring>

#include <lockstep/collectives/communicator.h>
#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/device/device_pool.h>
#include <lockstep/worker/compile/run/run_values.h>

namespace lockstep::bench {

using namespace worker;  // NOLINT: a bench reads like a user's program
using collectives::Collective;

Result<Built> build_for(const Graph& graph, Toolchain& toolchain) {
  auto program = generate(graph, Target::Cuda);
  if (!program) return program.error();
  Built out{.program = *std::move(program), .units = {}};
  for (const std::string& unit : out.program.units) {
    auto object = toolchain.build(unit);
    if (!object) return object.error();
    out.units.push_back(*std::move(object));
  }
  return out;
}

Result<std::unique_ptr<BareKernels>> BareKernels::load(const Model& model, Built built,
                                                       Device& device) {
  std::unique_ptr<BareKernels> out(new BareKernels(device));
  if (auto ready = out->prepare(model, built); !ready) return ready.error();
  return out;
}

BareKernels::~BareKernels() {
  (void)device_.synchronise();
  for (const DeviceAddress at : memory_) (void)device_.free(at);
  for (const DeviceModule module : modules_) device_.unload(module);
}

Result<void> BareKernels::prepare(const Model& model, const Built& built) {
  const Program& program = built.program;
  RunValues values(program);
  if (auto bound = values.bind(model.inputs); !bound) return bound;
  for (const Bytes& unit : built.units) {
    auto module = device_.load(unit);
    if (!module) return module.error();
    modules_.push_back(*module);
  }
  std::vector<DeviceAddress> addresses;
  for (const Buffer& buffer : program.buffers) {
    const auto bytes = static_cast<std::size_t>(values[buffer.elements]) * dtype_size(buffer.dtype);
    if (bytes == 0) return Status{Code::BadInput, "a value of the model has no elements.", {}, {}};
    auto at = device_.allocate(bytes);
    if (!at) return at.error();
    if (!*at) return Status{Code::Environment, device_.name() + " has no memory left.", {}, {}};
    memory_.push_back(**at);
    addresses.push_back(**at);
    if (auto done = device_.zero(**at, bytes); !done) return done;
  }
  for (const Step& step : program.steps) {
    if (step.kind != Step::Kind::Kernel || step.launch->merged)
      return Status{Code::BadInput, "a step of the model is more than a kernel.", {}, {}};
    const Kernel& kernel = program.kernels[step.kernel];
    auto found = device_.kernel(modules_[kernel.unit], kernel.name);
    if (!found) return found.error();
    Call call{.kernel = *found,
              .blocks = values[step.launch->blocks],
              .threads = step.launch->threads,
              .buffers = {},
              .numbers = {}};
    for (const BufferId at : step.buffers) call.buffers.push_back(addresses[at]);
    values.gather(step.args, call.numbers);
    calls_.push_back(std::move(call));
  }
  return device_.synchronise();
}

Result<void> BareKernels::launch() {
  for (const Call& call : calls_)
    if (auto done =
            device_.launch(call.kernel, call.blocks, call.threads, call.buffers, call.numbers);
        !done)
      return done;
  return {};
}

namespace {

/// Bytes of a collective of one rank: what it sends is what it receives.
std::size_t bytes_of(const Collective& collective) {
  if (collective.kind == Collective::Kind::Broadcast) return 0;
  return static_cast<std::size_t>(collectives::CollectiveExtent::of(collective, 1).send) *
         dtype_size(collective.dtype);
}

class OwnData final : public collectives::DeviceData {
 public:
  explicit OwnData(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] Result<void> start(const Collective& collective) override {
    const std::size_t bytes = bytes_of(collective);
    const auto at = [](const void* p) { return DeviceAddress{reinterpret_cast<std::uint64_t>(p)}; };
    if (bytes == 0) return {};
    return device_->copy(at(collective.receive), at(collective.send), bytes);
  }
  [[nodiscard]] Result<void> poll() override { return {}; }
  void abort() override {}

 private:
  std::shared_ptr<Device> device_;
  std::string name_ = "one rank";
};

}  // namespace

/// A group of one.
class SteppedModel::Alone final : public collectives::Communicator, public RunHost {
 public:
  explicit Alone(std::shared_ptr<Device> device) : data_(std::move(device)) {}
  [[nodiscard]] Rank rank() const override { return {}; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] std::string name() const override { return "alone"; }
  void start(collectives::Round&) override {}
  [[nodiscard]] Result<void> start(const Collective& collective) override {
    return run(collective);
  }
  using Communicator::run;
  [[nodiscard]] Result<void> run(const Collective& collective) override {
    if (const std::size_t bytes = bytes_of(collective); bytes > 0)
      std::memcpy(collective.receive, collective.send, bytes);
    return {};
  }
  [[nodiscard]] Result<bool> poll() override { return true; }
  [[nodiscard]] Result<void> wait() override { return {}; }
  [[nodiscard]] Result<void> settle(const std::optional<LocalFailure>& mine) override {
    return mine ? Result<void>(mine->status) : Result<void>();
  }
  [[nodiscard]] collectives::DeviceData* device_data(std::string_view) override { return &data_; }

 private:
  OwnData data_;
};

SteppedModel::SteppedModel(Model model, std::shared_ptr<Device> device)
    : model_(std::move(model)), alone_(std::make_unique<Alone>(std::move(device))) {}
SteppedModel::~SteppedModel() = default;

Result<std::unique_ptr<SteppedModel>> SteppedModel::load(Model model, Built built,
                                                         std::shared_ptr<Device> device) {
  // Small inputs are the host's, as a batch is; the others are there before the first step.
  constexpr std::int64_t kSmall = 1 << 16;
  for (auto& [name, array] : model.inputs) {
    if (array.elements() < kSmall || array.far_memory() != nullptr) continue;
    auto at = device->allocate(array.bytes());
    if (!at) return at.error();
    if (!*at)
      return Status{Code::Environment, device->name() + " has no memory for " + name + ".", {}, {}};
    auto block = std::make_shared<const DeviceBlock>(device, **at);
    if (auto sent = device->upload(**at, std::as_const(array).data(), array.bytes()); !sent)
      return sent.error();
    if (auto done = device->synchronise(); !done) return done.error();
    array = Array::far(array.dtype(), array.sizes(), std::move(block));
  }
  std::unique_ptr<SteppedModel> out(new SteppedModel(std::move(model), device));
  auto loaded = Executable::load(std::move(built.program), built.units, out->clock_, device);
  if (!loaded) return loaded.error();
  out->executable_ = *std::move(loaded);
  return out;
}

Result<void> SteppedModel::step() {
  auto made = executable_->run(model_.inputs, *alone_, *alone_);
  if (!made) return made.error();
  for (std::size_t i = 0; i < model_.next.size(); ++i) model_.inputs[model_.next[i]] = (*made)[i];
  last_ = made->back();
  return {};
}

double SteppedModel::last_value() const { return last_.at(0); }

}  // namespace lockstep::bench
