#include <algorithm>

#include <fmt/format.h>

#include <lockstep/worker/device_program.h>
#include <lockstep/worker/op.h>
#include <lockstep/worker/run_failure.h>
#include <lockstep/worker/run_values.h>

namespace lockstep::worker {
namespace {

std::string place(const Node& node) {
  return node.where.file.empty() ? "the graph" : node.where.text();
}

bool has_kernel(Step::Kind kind) {
  switch (kind) {
    case Step::Kind::Matmul:
    case Step::Kind::SegmentMatmul:
    case Step::Kind::SegmentOuter:
    case Step::Kind::Collective:
    case Step::Kind::SplitsCheck:
      return false;
    default:
      return true;
  }
}

}  // namespace

class DeviceProgram::Loaded {
 public:
  Loaded(Program program, Device& device)
      : program_(std::move(program)), device_(device), values_(program_) {
    const std::size_t steps = program_.steps.size();
    std::vector<bool> seen(program_.buffers.size()), kept(program_.buffers.size());
    for (const Program::Output& output : program_.outputs) kept[output.buffer] = true;
    made_.resize(steps);
    dead_.resize(steps);
    for (std::size_t i = 0; i < steps; ++i)
      for (BufferId at : program_.steps[i].buffers) {
        if (!seen[at]) made_[i].push_back(at);
        if (!seen[at] && !kept[at]) dead_[program_.buffers[at].last].push_back(at);
        seen[at] = true;
      }
  }

  ~Loaded() {
    for (DeviceModule module : modules_) device_.unload(module);
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  Result<void> link(std::span<const Bytes> units) {
    for (const Step& step : program_.steps)
      if (!has_kernel(step.kind)) return no_kernel(node(step));
    for (const Bytes& unit : units) {
      auto module = device_.load(unit);
      if (!module) return module.error();
      modules_.push_back(*module);
    }
    for (const Kernel& kernel : program_.kernels) {
      auto found = device_.kernel(modules_[kernel.unit], kernel.name);
      if (!found) return found.error();
      kernels_.push_back(*found);
    }
    return {};
  }

  Result<std::vector<DeviceArray>> run(const Inputs& inputs, RunHost& host) {
    if (auto bound = bind(inputs); !bound) return bound.error();
    pool_.emplace(device_);
    addresses_.assign(program_.buffers.size(), std::nullopt);
    auto out = run_steps(host);
    // Nothing may be under way that reads the caller's arrays, and nothing may fail later on.
    if (auto done = device_.synchronise(); !done && out) out = done.error();
    peak_ = pool_->peak();
    pool_.reset();
    bound_.clear();
    return out;
  }

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] std::size_t peak() const { return peak_; }

 private:
  [[nodiscard]] const Node& node(const Step& step) const { return program_.graph.nodes[step.node]; }

  [[nodiscard]] Status no_kernel(const Node& node) const {
    return Status{
        Code::BadInput,
        fmt::format("frame {} cannot run on {}: {} at {} has no kernel for devices yet; "
                    "run it on the host",
                    program_.graph.name, device_.name(), op_row(node.op).name, place(node)),
        {},
        {}};
  }
  [[nodiscard]] Status no_memory(BufferId at, std::size_t bytes) const {
    const Node& of = program_.graph.nodes[program_.buffers[at].node];
    return Status{
        Code::Environment,
        fmt::format("{} has no memory for the {} bytes of {} at {} in a run of frame {}, which "
                    "uses {} bytes there and has given back those it kept; use smaller batches",
                    device_.name(), bytes, op_row(of.op).name, place(of), program_.graph.name,
                    pool_->used()),
        {},
        {}};
  }

  Result<void> bind(const Inputs& inputs) {
    misfit_.reset();
    bound_.clear();
    if (auto bound = values_.bind(inputs); !bound) return bound.error();
    for (const Program::Input& input : program_.inputs) {
      const Node& source = program_.graph.nodes[input.node];
      auto array = bound_input(source, inputs);
      if (!array) return array.error();
      values_.gather(input.sizes, numbers_);
      if (array->sizes() != numbers_ && !misfit_)
        misfit_ = input_size_failure(source, array->sizes(), numbers_);
      bound_.emplace(input.buffer, *std::move(array));
    }
    return {};
  }

  Result<std::vector<DeviceArray>> run_steps(RunHost& host) {
    std::optional<LocalFailure> failure;
    for (std::size_t i = 0; i < program_.steps.size(); ++i) {
      host.poke();
      const Step& step = program_.steps[i];
      const bool settles = step.kind == Step::Kind::Settle;
      if (!failure)
        if (auto done = settles ? finish() : execute(i); !done)
          failure = LocalFailure{done.error(), step.node};
      if (!settles) continue;
      if (auto settled = host.settle(failure); !settled) return settled.error();
    }
    if (!failure)
      if (auto done = finish(); !done) return done.error();
    if (failure) return failure->status;
    return collect();
  }

  /// All that can still be found to be wrong once the steps are done.
  Result<void> finish() {
    if (misfit_) return *misfit_;
    if (auto flaw = values_.flaw()) return *flaw;
    return device_.synchronise();
  }

  Result<void> execute(std::size_t i) {
    const Step& step = program_.steps[i];
    if (step.kind == Step::Kind::Assert) return check_assert(step);
    // Asserts say what is wrong in the user's words, so they come before sizes that make no sense.
    if (misfit_ && step.kind == Step::Kind::HostSync) return *misfit_;
    if (misfit_) return {};
    if (auto flaw = values_.flaw(); flaw && step.kind != Step::Kind::HostSync) return *flaw;
    for (BufferId at : made_[i])
      if (auto done = make(at); !done) return done;
    values_.gather(step.args, numbers_);
    auto done = step.kind == Step::Kind::Kernel ? launch(step) : read_back(step);
    for (BufferId at : dead_[i])
      if (addresses_[at] != DeviceAddress{}) pool_->give_back(*addresses_[at]);
    return done;
  }

  /// Memory of the value; for an input, its values.
  Result<void> make(BufferId at) {
    const Buffer& buffer = program_.buffers[at];
    const auto bytes =
        static_cast<std::size_t>(values_[buffer.elements]) * dtype_size(buffer.dtype);
    addresses_[at] = DeviceAddress{};
    if (bytes == 0) return {};
    auto taken = pool_->take(bytes);
    if (!taken) return taken.error();
    if (!*taken) return no_memory(at, bytes);
    addresses_[at] = **taken;
    if (buffer.kind != Buffer::Kind::Input) return {};
    return device_.upload(**taken, bound_.at(at).data(), bytes);
  }

  Result<void> launch(const Step& step) {
    std::vector<DeviceAddress> buffers;
    for (BufferId at : step.buffers) buffers.push_back(*addresses_[at]);
    const DeviceKernel kernel = kernels_[step.kernel];
    const std::int64_t blocks = values_[step.launch->blocks];
    const int threads = step.launch->threads;
    if (!step.launch->merged) return device_.launch(kernel, blocks, threads, buffers, numbers_);
    numbers_.push_back(0);
    for (std::int64_t width = 1; width < values_[*step.launch->merged]; width *= 4)
      for (const std::int64_t now : {width, 2 * width}) {
        numbers_.back() = now;
        if (auto done = device_.launch(kernel, blocks, threads, buffers, numbers_); !done)
          return done;
        std::swap(buffers[buffers.size() - 1], buffers[buffers.size() - 2]);
      }
    return {};
  }

  Result<void> check_assert(const Step& step) {
    const bool holds = node(step).asserts.at(0).predicate.evaluate(values_.valuation()) ==
                       std::optional<bool>(true);
    if (holds) return {};
    return assert_failure(program_.graph, node(step), values_.valuation());
  }

  /// What the host wants to know of a list of integers: their values, or that they are in order.
  Result<void> read_back(const Step& step) {
    const bool binds = step.kind == Step::Kind::HostSync;
    std::vector<std::int64_t> list(binds ? node(step).binds.size()
                                         : static_cast<std::size_t>(numbers_[0]));
    if (auto done = device_.download(list.data(), *addresses_[step.buffers[0]],
                                     list.size() * sizeof(std::int64_t));
        !done)
      return done;
    if (binds) {
      values_.bind(step.node, list.data());
      return {};
    }
    if (step.kind == Step::Kind::CountsCheck) {
      if (counts_add_up(list, numbers_[1])) return {};
      return counts_failure(program_.graph, step.node, list, numbers_[1]);
    }
    const auto outside = std::ranges::find_if(
        list, [&](std::int64_t index) { return index < 0 || index >= numbers_[1]; });
    if (outside == list.end()) return {};
    return index_failure(program_.graph, step.node, outside - list.begin(), *outside, numbers_[1]);
  }

  Result<std::vector<DeviceArray>> collect() {
    std::map<BufferId, std::shared_ptr<const DeviceBlock>> blocks;
    std::vector<DeviceArray> out;
    for (const Program::Output& output : program_.outputs) {
      const BufferId at = output.buffer;
      if (!addresses_[at])  // an input that no step reads
        if (auto done = make(at); !done) return done.error();
      if (addresses_[at] != DeviceAddress{} && !blocks.contains(at))
        blocks[at] = pool_->part_with(*addresses_[at]);
      values_.gather(output.sizes, numbers_);
      out.push_back({program_.buffers[at].dtype, numbers_, blocks[at]});
    }
    return out;
  }

  Program program_;
  Device& device_;
  RunValues values_;
  std::vector<DeviceModule> modules_;
  std::vector<DeviceKernel> kernels_;
  std::vector<std::vector<BufferId>> made_, dead_;  // per step
  std::size_t peak_ = 0;
  // Of the run under way.
  std::optional<DevicePool> pool_;
  std::vector<std::optional<DeviceAddress>> addresses_;
  std::map<BufferId, Array> bound_;
  std::vector<std::int64_t> numbers_;
  std::optional<Status> misfit_;  // an input of other sizes than the entry's
};

DeviceProgram::DeviceProgram(std::unique_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {}
DeviceProgram::~DeviceProgram() = default;

Result<std::unique_ptr<DeviceProgram>> DeviceProgram::load(Program program,
                                                           std::span<const Bytes> units,
                                                           Device& device) {
  auto loaded = std::make_unique<Loaded>(std::move(program), device);
  if (auto linked = loaded->link(units); !linked) return linked.error();
  return std::unique_ptr<DeviceProgram>(new DeviceProgram(std::move(loaded)));
}

Result<std::vector<DeviceArray>> DeviceProgram::run(const Inputs& inputs, RunHost& host) {
  return loaded_->run(inputs, host);
}

const Program& DeviceProgram::program() const { return loaded_->program(); }
std::size_t DeviceProgram::peak_bytes() const { return loaded_->peak(); }

Result<Array> to_host(const DeviceArray& array, Device& device) {
  Array out(array.dtype, array.sizes);
  if (!array.memory) return out;
  if (auto done = device.download(out.data(), array.memory->address(), out.bytes()); !done)
    return done.error();
  return out;
}

}  // namespace lockstep::worker
