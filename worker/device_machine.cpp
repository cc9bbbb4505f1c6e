#include <algorithm>
#include <map>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include <lockstep/collectives/watch.h>
#include <lockstep/worker/device_machine.h>
#include <lockstep/worker/device_pool.h>
#include <lockstep/worker/op.h>
#include <lockstep/worker/recordings.h>

namespace lockstep::worker {
namespace {

DeviceAddress moved(DeviceAddress at, std::size_t bytes) {
  return DeviceAddress{static_cast<std::uint64_t>(at) + bytes};
}
DeviceAddress offset(DeviceAddress at, std::int64_t elements, DType dtype) {
  return moved(at, static_cast<std::size_t>(elements) * dtype_size(dtype));
}

void* pointer(DeviceAddress at) { return reinterpret_cast<void*>(at); }

class DeviceMachine final : public Machine {
 public:
  DeviceMachine(const Program& program, std::shared_ptr<Device> device)
      : program_(program), device_(std::move(device)), values_(program.buffers.size()) {}

  ~DeviceMachine() override {
    recordings_.reset();
    for (DeviceModule module : modules_) device_->unload(module);
  }
  DeviceMachine(const DeviceMachine&) = delete;
  DeviceMachine& operator=(const DeviceMachine&) = delete;

  Result<void> link(std::span<const Bytes> units) {
    for (const Bytes& unit : units) {
      auto module = device_->load(unit);
      if (!module) return module.error();
      modules_.push_back(*module);
    }
    for (const Kernel& kernel : program_.kernels) {
      auto found = device_->kernel(modules_[kernel.unit], kernel.name);
      if (!found) return found.error();
      kernels_.push_back(*found);
    }
    return {};
  }

  void begin(RunHost& host) override {
    host_ = &host;
    pool_.emplace(device_);
  }

  void bind(BufferId at, Array value) override { values_[at].array = std::move(value); }

  Result<void> make(BufferId at, std::int64_t elements) override {
    Value& value = values_[at];
    if (value.made) return {};
    value.made = true;
    const auto bytes = static_cast<std::size_t>(elements) * dtype_size(program_.buffers[at].dtype);
    if (bytes == 0) return {};
    const DeviceBlock* here = on_this_device(value.array);
    const std::size_t given = value.array ? value.array.bytes() : 0;
    if (here != nullptr && given == bytes) {
      value.address = here->address();
      return {};
    }
    auto taken = take(bytes, at);
    if (!taken) return taken.error();
    value.address = *taken;
    value.pooled = true;
    if (!value.array) return {};
    if (given < bytes)
      if (auto done = device_->zero(moved(*taken, given), bytes - given); !done) return done;
    if (given == 0) return {};
    if (here != nullptr) return device_->copy(*taken, here->address(), given);
    uploading_.push_back(value.array);
    return device_->upload(*taken, std::as_const(value.array).data(), given);
  }

  void drop(BufferId at) override {
    if (values_[at].pooled) pool_->give_back(values_[at].address);
    values_[at] = {};
    lists_.erase(at);
  }

  void record(std::size_t limit) override {
    recordings_ = std::make_unique<Recordings>(program_, device_, limit);
  }
  [[nodiscard]] std::size_t recordings() const override {
    return recordings_ ? recordings_->made() : 0;
  }

  Result<std::size_t> replay(std::size_t step, const RunValues& values) override {
    const Segment* segment = recordings_ ? recordings_->segment(step) : nullptr;
    if (segment == nullptr) return std::size_t{0};
    for (const auto& values_of : {&segment->in, &segment->out})
      for (BufferId at : *values_of)
        if (auto made = make(at, values[program_.buffers[at].elements]); !made) return made.error();
    if (!recordings_) return std::size_t{0};  // there was no memory for both
    const auto recording = recordings_->at(
        *segment, values, [&](const auto& slots) { return start_in(slots, *segment, values); });
    if (!recording) return recording.error();
    if (*recording == nullptr) return std::size_t{0};
    const auto carry = [&](BufferId at, bool in) -> Result<void> {
      const std::int64_t elements = values[program_.buffers[at].elements];
      const DeviceAddress own = values_[at].address, slot = (*recording)->slots.at(at);
      return device_->copy(
          in ? slot : own, in ? own : slot,
          static_cast<std::size_t>(elements) * dtype_size(program_.buffers[at].dtype));
    };
    for (BufferId at : segment->in)
      if (auto done = carry(at, true); !done) return done.error();
    if (auto done = device_->launch((*recording)->work); !done) return done.error();
    for (BufferId at : segment->out)
      if (auto done = carry(at, false); !done) return done.error();
    return segment->end;
  }

  Result<void> launch(const Step& step, std::span<const std::int64_t> numbers,
                      const RunValues& values) override {
    std::vector<DeviceAddress> buffers;
    for (BufferId at : step.buffers) buffers.push_back(values_[at].address);
    const DeviceKernel kernel = kernels_[step.kernel];
    const std::int64_t blocks = values[step.launch->blocks];
    const int threads = step.launch->threads;
    if (!step.launch->merged) return device_->launch(kernel, blocks, threads, buffers, numbers);
    std::vector<std::int64_t> with_width(numbers.begin(), numbers.end());
    with_width.push_back(0);
    for (std::int64_t width = 1; width < values[*step.launch->merged]; width *= 4)
      for (const std::int64_t now : {width, 2 * width}) {
        with_width.back() = now;
        if (auto done = device_->launch(kernel, blocks, threads, buffers, with_width); !done)
          return done;
        std::swap(buffers[buffers.size() - 1], buffers[buffers.size() - 2]);
      }
    return {};
  }

  Result<void> multiply(const Step& step, std::span<const std::int64_t> n) override {
    const auto at = [&](std::size_t k) { return values_[step.buffers[k]].address; };
    const DType dtype = program_.graph.nodes[step.node].meta.dtype;
    if (step.kind == Step::Kind::Matmul)
      return device_->multiply(
          {dtype, at(0), at(1), at(2), step.transpose_a, step.transpose_b, n[0], n[1], n[2], n[3]});
    // rows, k, m, segments
    const auto counts = read(step.buffers[2], static_cast<std::size_t>(n[3]));
    if (!counts) return counts.error();
    const std::int64_t k = n[1], m = n[2];
    std::int64_t row = 0;
    for (std::size_t e = 0; e < counts->size(); ++e) {
      const std::int64_t rows = (*counts)[e];
      const auto matrix = static_cast<std::int64_t>(e) * k * m;
      const Product product = step.kind == Step::Kind::SegmentMatmul
                                  ? Product{.dtype = dtype,
                                            .a = offset(at(0), row * k, dtype),
                                            .b = offset(at(1), matrix, dtype),
                                            .out = offset(at(3), row * m, dtype),
                                            .transpose_b = step.transpose_b,
                                            .m = rows,
                                            .k = k,
                                            .n = m}
                                  : Product{.dtype = dtype,
                                            .a = offset(at(0), row * k, dtype),
                                            .b = offset(at(1), row * m, dtype),
                                            .out = offset(at(3), matrix, dtype),
                                            .transpose_a = true,
                                            .m = k,
                                            .k = rows,
                                            .n = m};
      if (auto done = device_->multiply(product); !done) return done;
      row += rows;
    }
    return {};
  }

  /// Kept until the value is dropped: a list is often looked at more than once.
  Result<std::span<const std::int64_t>> read(BufferId at, std::size_t count) override {
    auto [found, fresh] = lists_.try_emplace(at);
    if (fresh) {
      found->second.resize(count);
      if (auto done = download(found->second.data(), values_[at].address, count * 8); !done) {
        lists_.erase(at);
        return done.error();
      }
    }
    return std::span<const std::int64_t>(found->second);
  }

  Result<void> exchange(collectives::Communicator& ranks, const Step& step,
                        const NodeBuffers& sizes, std::string_view label) override {
    const Node& node = program_.graph.nodes[step.node];
    if (auto* data = host_->device_data(node.text)) {
      NodeBuffers buffers = sizes;
      buffers.operand = pointer(values_[step.buffers[0]].address);
      buffers.result = pointer(values_[step.buffers[1]].address);
      if (node.op == Op::Broadcast)
        if (auto done = device_->copy(values_[step.buffers[1]].address,
                                      values_[step.buffers[0]].address, result_bytes(node, sizes));
            !done)
          return done;
      used_data_ = data;
      return data->start(collective_of(node, buffers, label));
    }
    return on_host(step, sizes, [&](const NodeBuffers& buffers) {
      fill_root(node, buffers);
      return ranks.run(collective_of(node, buffers, label));
    });
  }

  Result<void> exchange_zeros(collectives::Communicator& ranks, const Step& step,
                              const NodeBuffers& sizes, std::string_view label) override {
    const Node& node = program_.graph.nodes[step.node];
    auto* data = host_->device_data(node.text);
    if (data == nullptr)
      return take_part_with_zeros(ranks, node, sizes, operand_dtype(node), label);
    NodeBuffers buffers = sizes;
    std::vector<DeviceAddress> scratch;
    const auto zeros = [&](std::size_t bytes) -> Result<void*> {
      if (bytes == 0) return nullptr;
      auto taken = take(bytes, step.buffers[0]);
      if (!taken) return taken.error();
      scratch.push_back(*taken);
      if (auto done = device_->zero(*taken, bytes); !done) return done.error();
      return pointer(*taken);
    };
    const auto done = [&]() -> Result<void> {
      auto operand = zeros(operand_bytes(node, sizes));
      if (!operand) return operand.error();
      auto result = zeros(result_bytes(node, sizes));
      if (!result) return result.error();
      buffers.operand = *operand;
      buffers.result = *result;
      used_data_ = data;
      return data->start(collective_of(node, buffers, label));
    }();
    for (DeviceAddress at : scratch) pool_->give_back(at);
    return done;
  }

  Result<void> on_host(const Step& step, const NodeBuffers& sizes, const OnHost& act) override {
    const Node& node = program_.graph.nodes[step.node];
    std::vector<std::byte> operand(operand_bytes(node, sizes));
    const std::size_t bytes = result_bytes(node, sizes);
    std::vector<std::byte> result(bytes);
    if (auto done = download(operand.data(), values_[step.buffers[0]].address, operand.size());
        !done)
      return done;
    NodeBuffers buffers = sizes;
    buffers.operand = operand.data();
    buffers.result = result.data();
    if (auto done = act(buffers); !done) return done;
    if (bytes == 0) return {};
    staged_.push_back(std::move(result));
    return device_->upload(values_[step.buffers[1]].address, staged_.back().data(), bytes);
  }

  /// Neither the driver nor NCCL is asked to wait: a peer that does not come would never be named.
  Result<void> finish() override {
    const collectives::Watch::Armed armed(host_->watch());
    for (int turns = 0;; ++turns) {
      auto idle = device_->idle();
      if (!idle) return idle.error();
      if (*idle) break;
      if (used_data_ != nullptr)
        if (auto well = used_data_->poll(); !well) return well;
      host_->poke();
      if (turns > 1000)
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      else
        std::this_thread::yield();
    }
    uploading_.clear();
    staged_.clear();
    return {};
  }

  Result<Array> output(BufferId at, std::vector<std::int64_t> sizes) override {
    Value& value = values_[at];
    if (value.array) return value.array.reshaped(std::move(sizes));
    if (value.pooled) {
      value.array = Array::far(program_.buffers[at].dtype, sizes, pool_->part_with(value.address));
      value.pooled = false;
    } else {
      value.array = Array(program_.buffers[at].dtype, sizes);
    }
    return value.array;
  }

  void end() override {
    // After an error something may still be under way that reads the host's memory.
    if (!uploading_.empty() || !staged_.empty()) (void)finish();
    uploading_.clear();
    staged_.clear();
    peak_ = pool_->peak();
    for (Value& value : values_) value = {};
    pool_.reset();
    lists_.clear();
    used_data_ = nullptr;
    host_ = nullptr;
  }

  [[nodiscard]] std::size_t bytes() const override { return peak_; }

 private:
  struct Value {
    DeviceAddress address{};
    bool made = false;
    bool pooled = false;  // memory of the pool
    Array array;          // of an input; of an output that was handed out
  };

  [[nodiscard]] const DeviceBlock* on_this_device(const Array& array) const {
    const auto* block = dynamic_cast<const DeviceBlock*>(array.far_memory().get());
    return block != nullptr && block->is_on(*device_) ? block : nullptr;
  }

  /// The segment's steps, on values in these slots.
  Result<void> start_in(const std::map<BufferId, DeviceAddress>& slots, const Segment& segment,
                        const RunValues& values) {
    std::map<BufferId, DeviceAddress> own;
    for (const auto& [at, slot] : slots) own[at] = std::exchange(values_[at].address, slot);
    const auto done = [&]() -> Result<void> {
      std::vector<std::int64_t> numbers;
      for (std::size_t i = segment.begin; i < segment.end; ++i) {
        const Step& step = program_.steps[i];
        values.gather(step.args, numbers);
        auto started = step.kind == Step::Kind::Kernel ? launch(step, numbers, values)
                                                       : multiply(step, numbers);
        if (!started) return started;
      }
      return {};
    }();
    for (const auto& [at, address] : own) values_[at].address = address;
    return done;
  }

  [[nodiscard]] DType operand_dtype(const Node& node) const {
    return program_.graph.nodes[node.inputs[0]].meta.dtype;
  }
  [[nodiscard]] std::size_t operand_bytes(const Node& node, const NodeBuffers& sizes) const {
    return static_cast<std::size_t>(elements_of(sizes.operand_sizes)) *
           dtype_size(operand_dtype(node));
  }
  [[nodiscard]] static std::size_t result_bytes(const Node& node, const NodeBuffers& sizes) {
    return static_cast<std::size_t>(elements_of(sizes.result_sizes)) * dtype_size(node.meta.dtype);
  }

  Result<DeviceAddress> take(std::size_t bytes, BufferId at) {
    auto taken = pool_->take(bytes);
    if (taken && !*taken && recordings_) {
      // Recordings are a luxury.
      if (auto done = finish(); !done) return done.error();
      recordings_.reset();
      taken = pool_->take(bytes);
    }
    if (!taken) return taken.error();
    if (*taken) return **taken;
    const Node& of = program_.graph.nodes[program_.buffers[at].node];
    return Status{
        Code::Environment,
        fmt::format("{} has no memory for the {} bytes of {} at {} in a run of frame {}, which "
                    "uses {} bytes there and has given back those it kept; use smaller batches",
                    device_->name(), bytes, op_row(of.op).name,
                    of.where.file.empty() ? "the graph" : of.where.text(), program_.graph.name,
                    pool_->used()),
        {},
        {}};
  }

  Result<void> download(void* to, DeviceAddress from, std::size_t bytes) {
    if (bytes == 0) return {};
    if (auto done = finish(); !done) return done;
    return device_->download(to, from, bytes);
  }

  const Program& program_;
  std::shared_ptr<Device> device_;
  std::vector<DeviceModule> modules_;
  std::vector<DeviceKernel> kernels_;
  std::unique_ptr<Recordings> recordings_;  // null: none are made
  std::size_t peak_ = 0;
  // Of the run under way.
  RunHost* host_ = nullptr;
  std::optional<DevicePool> pool_;
  std::vector<Value> values_;
  std::map<BufferId, std::vector<std::int64_t>> lists_;  // read back
  std::vector<Array> uploading_;                         // memory of the host that uploads read
  std::vector<std::vector<std::byte>> staged_;           // the same
  collectives::DeviceData* used_data_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<Machine>> device_machine(const Program& program,
                                                std::span<const Bytes> units,
                                                std::shared_ptr<Device> device) {
  auto machine = std::make_unique<DeviceMachine>(program, std::move(device));
  if (auto linked = machine->link(units); !linked) return linked.error();
  return std::unique_ptr<Machine>(std::move(machine));
}

}  // namespace lockstep::worker
