#include <cstring>
#include <map>
#include <optional>

#include <lockstep/worker/compile/device/device_pool.h>
#include <lockstep/worker/compile/execution/backend.h>
#include <lockstep/worker/compile/execution/captured_graphs.h>
#include <lockstep/worker/compile/execution/device_attention.h>
#include <lockstep/worker/compile/execution/device_kernels.h>
#include <lockstep/worker/compile/execution/device_matmul.h>
#include <lockstep/worker/compile/execution/in_flight.h>
#include <lockstep/worker/compile/run/run_failure.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

void* pointer(DeviceAddress at) { return reinterpret_cast<void*>(at); }

class DeviceBackend final : public Backend {
 public:
  DeviceBackend(const Program& program, std::shared_ptr<Device> device)
      : program_(program),
        device_(std::move(device)),
        kernels_(program, device_),
        values_(program.buffers.size()) {}

  Result<void> link(std::span<const Bytes> units) { return kernels_.load(units); }

  void begin(RunHost& host) override {
    host_ = &host;
    pool_.emplace(device_);
    in_flight_.emplace(device_, *pool_, host);
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
    waited_ = false;
    if (given < bytes)
      if (auto done = device_->zero(moved(*taken, given), bytes - given); !done) return done;
    if (given == 0) return {};
    if (here != nullptr) return device_->copy(*taken, here->address(), given);
    uploading_.push_back(value.array);
    return device_->upload(*taken, std::as_const(value.array).data(), given);
  }

  void drop(BufferId at) override {
    Value value = std::exchange(values_[at], {});
    in_flight_->drop(value.address, value.pooled, std::move(value.array));
    lists_.erase(at);
  }

  void capture(std::size_t limit) override {
    graphs_ = std::make_unique<CapturedGraphs>(program_, device_, limit);
  }
  [[nodiscard]] std::size_t captured_graphs() const override {
    return graphs_ ? graphs_->made() : 0;
  }

  Result<std::size_t> replay(std::size_t step, const RunValues& values) override {
    const Segment* segment = graphs_ ? graphs_->segment(step) : nullptr;
    if (segment == nullptr) return std::size_t{0};
    std::vector<BufferId> carried = segment->in;
    carried.insert(carried.end(), segment->out.begin(), segment->out.end());
    for (BufferId at : carried)
      if (auto made = make(at, values[program_.buffers[at].elements]); !made) return made.error();
    if (!graphs_) return std::size_t{0};  // make() has released the graphs to free their memory
    if (auto done = wait_for(carried); !done) return done.error();
    const auto graph = graphs_->at(
        *segment, values, [&](const auto& slots) { return start_in(slots, *segment, values); });
    if (!graph) return graph.error();
    if (*graph == nullptr) return std::size_t{0};
    waited_ = false;
    const auto carry = [&](BufferId at, bool in) -> Result<void> {
      const std::int64_t elements = values[program_.buffers[at].elements];
      const DeviceAddress own = values_[at].address, slot = (*graph)->slots.at(at);
      return device_->copy(
          in ? slot : own, in ? own : slot,
          static_cast<std::size_t>(elements) * dtype_size(program_.buffers[at].dtype));
    };
    for (BufferId at : segment->in)
      if (auto done = carry(at, true); !done) return done.error();
    if (auto done = device_->launch((*graph)->work); !done) return done.error();
    for (BufferId at : segment->out)
      if (auto done = carry(at, false); !done) return done.error();
    return segment->end;
  }

  Result<void> launch(const Step& step, std::span<const std::int64_t> numbers,
                      const RunValues& values) override {
    if (auto done = wait_for(step.buffers); !done) return done;
    std::vector<DeviceAddress> buffers;
    for (BufferId at : step.buffers) buffers.push_back(values_[at].address);
    waited_ = false;
    return kernels_.start(step, std::move(buffers), numbers, values);
  }

  Result<void> launch_chain(std::span<const Step>, const RunValues&) override {
    return internal_error("a program for a device has a chain of kernels");
  }

  Result<void> multiply(const Step& step, std::span<const std::int64_t> n) override {
    std::vector<DeviceAddress> at;
    for (BufferId buffer : step.buffers) at.push_back(values_[buffer].address);
    if (step.kind == Step::Kind::Attention) {
      if (auto done = wait_for(step.buffers); !done) return done;
      waited_ = false;
      return attend(*device_, kernels_, step, AttentionSizes(program_.graph, step.node, n), at);
    }
    std::span<const std::int64_t> counts;
    if (step.kind != Step::Kind::Matmul) {
      const auto read_back = read(step.buffers[2], static_cast<std::size_t>(n[3]));
      if (!read_back) return read_back.error();
      counts = *read_back;
    }
    if (auto done = wait_for(step.buffers); !done) return done;
    waited_ = false;
    const DType dtype = program_.graph.nodes[step.node].meta.dtype;
    for (const Product& product : products_of(step, dtype, at, n, counts))
      if (auto done = device_->multiply(product); !done) return done;
    return {};
  }

  /// Keeps the list until the value is dropped: it is often read more than once.
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

  Array view(BufferId at, std::vector<std::int64_t> sizes) override {
    if (elements_of(sizes) == 0) return Array(program_.buffers[at].dtype, std::move(sizes));
    return Array::far(program_.buffers[at].dtype, std::move(sizes),
                      DeviceBlock::borrowed(device_, values_[at].address));
  }
  Result<void> place(BufferId at, std::int64_t block, const Array& value) override {
    if (value.bytes() == 0) return {};
    const DeviceAddress to =
        moved(values_[at].address, static_cast<std::size_t>(block) * value.bytes());
    waited_ = false;
    uploading_.push_back(value);
    if (const DeviceBlock* here = on_this_device(value))
      return device_->copy(to, here->address(), value.bytes());
    return device_->upload(to, std::as_const(value).data(), value.bytes());
  }

  Result<std::span<const std::int64_t>> outcomes() override {
    outcomes_.resize(program_.outcomes);
    if (auto done = download(outcomes_.data(), kernels_.outcomes(), 8 * outcomes_.size()); !done)
      return done.error();
    return std::span<const std::int64_t>(outcomes_);
  }

  Result<void> call(const Step& step, std::span<const std::size_t> bytes,
                    const Call& act) override {
    std::vector<std::vector<std::byte>> values;
    std::vector<void*> addresses;
    for (const std::size_t size : bytes) values.emplace_back(size);
    for (std::size_t k = 0; k < values.size(); ++k) {
      addresses.push_back(values[k].data());
      if (k + 1 == values.size()) break;
      auto here = download(values[k].data(), values_[step.buffers[k]].address, bytes[k]);
      if (!here) return here;
    }
    if (auto done = act(addresses); !done || bytes.back() == 0) return done;
    staged_.push_back(std::move(values.back()));
    waited_ = false;
    return device_->upload(values_[step.buffers.back()].address, staged_.back().data(),
                           bytes.back());
  }

  Result<bool> ready(const Step& step, const NodeBuffers& sizes) override {
    const Node& node = program_.graph.nodes[step.node];
    const DeviceAddress operand = values_[step.buffers[0]].address;
    if (step.carries_status || data_of(step) == nullptr) {
      operand_.resize(bytes_of(operand_of(step), sizes.operand_sizes));
      auto done = operand_.empty() ? finish() : download(operand_.data(), operand, operand_.size());
      if (!done) return done.error();
      return true;
    }
    if (node.op == Op::Broadcast) {
      if (auto done = wait_for(step.buffers); !done) return done.error();
      waited_ = false;
      auto copied = device_->copy(values_[step.buffers[1]].address, operand,
                                  bytes_of(node.meta, sizes.result_sizes));
      if (!copied) return copied.error();
    }
    if (auto done = in_flight_->order_after_kernels(); !done) return done.error();
    return false;
  }

  Result<bool> start_collective(const Step& step, const NodeBuffers& sizes,
                                std::string_view label) override {
    auto* data = data_of(step);
    if (data == nullptr) return false;
    NodeBuffers buffers = sizes;
    buffers.operand = pointer(values_[step.buffers[0]].address);
    buffers.result = pointer(values_[step.buffers[1]].address);
    return start(*data, step, buffers, label);
  }

  Result<bool> start_collective_of_zeros(const Step& step, const NodeBuffers& sizes,
                                         std::string_view label) override {
    const Node& node = program_.graph.nodes[step.node];
    auto* data = data_of(step);
    if (data == nullptr) return false;
    // Frees the run's values, because there may be no memory left.
    for (BufferId at = 0; at < values_.size(); ++at) drop(at);
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
    const auto started = [&]() -> Result<bool> {
      auto operand = zeros(bytes_of(operand_of(step), sizes.operand_sizes));
      if (!operand) return operand.error();
      auto result = zeros(bytes_of(node.meta, sizes.result_sizes));
      if (!result) return result.error();
      buffers.operand = *operand;
      buffers.result = *result;
      if (auto ordered = in_flight_->order_after_kernels(); !ordered) return ordered.error();
      return start(*data, step, buffers, label);
    }();
    for (DeviceAddress at : scratch) in_flight_->drop(at, true, {});
    return started;
  }

  Result<void> on_host(const Step& step, const NodeBuffers& sizes, const OnHost& act) override {
    const std::size_t bytes = bytes_of(program_.graph.nodes[step.node].meta, sizes.result_sizes);
    std::vector<std::byte> result(bytes);
    NodeBuffers buffers = sizes;
    buffers.operand = operand_.data();
    buffers.result = result.data();
    if (auto done = act(buffers); !done) return done;
    if (bytes == 0) return {};
    if (step.carries_status) {  // counts; the host reads them next
      auto& list = lists_[step.buffers[1]];
      list.resize(bytes / 8);
      std::memcpy(list.data(), result.data(), bytes);
    }
    staged_.push_back(std::move(result));
    waited_ = false;
    return device_->upload(values_[step.buffers[1]].address, staged_.back().data(), bytes);
  }

  Result<void> finish() override {
    if (auto done = in_flight_->wait(); !done) return done;
    uploading_.clear();
    staged_.clear();
    waited_ = true;
    return {};
  }

  Result<Array> output(BufferId at, std::vector<std::int64_t> sizes) override {
    Value& value = values_[at];
    if (value.array) return value.array.reshaped(std::move(sizes));
    if (value.pooled) {
      value.array =
          Array::far(program_.buffers[at].dtype, sizes, pool_->release_to_caller(value.address));
      value.pooled = false;
    } else {
      value.array = Array(program_.buffers[at].dtype, sizes);
    }
    return value.array;
  }

  void end() override {
    const bool over = waited_ || finish().has_value();  // all started work is done
    // Failed work that is still in flight may use the memory, which must not be freed before.
    (void)in_flight_->wait_for_all();
    in_flight_.reset();
    uploading_.clear();
    staged_.clear();
    peak_ = pool_->peak();
    for (Value& value : values_) value = {};
    pool_.reset();
    // Releases the memory to other ranks. Never waits for unfinished work, which may need a peer.
    if (over && device_->shared()) (void)device_->synchronise();
    lists_.clear();
    host_ = nullptr;
  }

  [[nodiscard]] std::size_t bytes() const override { return peak_; }

 private:
  struct Value {
    DeviceAddress address{};
    bool made = false;
    bool pooled = false;  // memory of the pool
    Array array;          // an input, or an output that was handed out
  };

  [[nodiscard]] const DeviceBlock* on_this_device(const Array& array) const {
    const auto* block = dynamic_cast<const DeviceBlock*>(array.far_memory().get());
    return block != nullptr && block->is_on(*device_) ? block : nullptr;
  }

  /// Makes the kernels wait for collectives that write these values. Called before starting work
  /// that uses the values.
  Result<void> wait_for(std::span<const BufferId> values) {
    for (BufferId at : values)
      if (auto done = in_flight_->wait_for(values_[at].address); !done) return done;
    return {};
  }

  /// Starts the segment's steps, on values in these slots.
  Result<void> start_in(const std::map<BufferId, DeviceAddress>& slots, const Segment& segment,
                        const RunValues& values) {
    std::map<BufferId, DeviceAddress> own;
    for (const auto& [at, slot] : slots) own[at] = std::exchange(values_[at].address, slot);
    const auto done = [&]() -> Result<void> {
      std::vector<std::int64_t> numbers;
      for (std::size_t i = segment.begin; i < segment.end; ++i) {
        const Step& step = program_.steps[i];
        values.gather(step.args, numbers);
        auto started = step.launch ? launch(step, numbers, values) : multiply(step, numbers);
        if (!started) return started;
      }
      return {};
    }();
    for (const auto& [at, address] : own) values_[at].address = address;
    return done;
  }

  /// Returns what carries this collective between devices (NCCL); null if it goes over the host, as
  /// reductions of i16 do, which NCCL lacks.
  [[nodiscard]] collectives::DeviceData* data_of(const Step& step) const {
    const Node& node = program_.graph.nodes[step.node];
    const bool reduces = node.op == Op::AllReduce || node.op == Op::ReduceScatter;
    if (reduces && node.meta.dtype == DType::I16) return nullptr;
    return host_->device_data(node.text);
  }

  Result<bool> start(collectives::DeviceData& data, const Step& step, const NodeBuffers& buffers,
                     std::string_view label) {
    waited_ = false;
    auto done =
        in_flight_->start(data, collective_of(program_.graph.nodes[step.node], buffers, label));
    if (!done) return done.error();
    return true;
  }

  [[nodiscard]] const TensorMeta& operand_of(const Step& step) const {
    return program_.graph.nodes[program_.graph.nodes[step.node].inputs[0]].meta;
  }
  [[nodiscard]] static std::size_t bytes_of(const TensorMeta& meta,
                                            std::span<const std::int64_t> sizes) {
    return static_cast<std::size_t>(elements_of(sizes)) * dtype_size(meta.dtype);
  }

  Result<DeviceAddress> take(std::size_t bytes, BufferId at) {
    auto taken = pool_->take(bytes);
    if (taken && !*taken && !in_flight_->empty()) {
      if (auto done = in_flight_->wait_for_all(); !done) return done.error();
      taken = pool_->take(bytes);
    }
    if (taken && !*taken && graphs_) {
      // Captured graphs are dispensable: their memory is released.
      if (auto done = finish(); !done) return done.error();
      graphs_.reset();
      taken = pool_->take(bytes);
    }
    if (!taken) return taken.error();
    if (*taken) return **taken;
    return device_memory_failure(program_.graph, program_.buffers[at].node, device_->name(), bytes,
                                 pool_->used());
  }

  Result<void> download(void* to, DeviceAddress from, std::size_t bytes) {
    if (bytes == 0) return {};
    if (auto done = finish(); !done) return done;
    return device_->download(to, from, bytes);
  }

  const Program& program_;
  std::shared_ptr<Device> device_;
  DeviceKernels kernels_;
  std::unique_ptr<CapturedGraphs> graphs_;  // null: no run is captured
  std::size_t peak_ = 0;
  // The current run.
  RunHost* host_ = nullptr;
  std::optional<DevicePool> pool_;
  std::optional<InFlight> in_flight_;
  std::vector<Value> values_;
  std::map<BufferId, std::vector<std::int64_t>> lists_;  // read back from the device
  std::vector<std::int64_t> outcomes_;                   // sources of uploads in flight
  std::vector<Array> uploading_;                         // sources of uploads in flight
  std::vector<std::vector<std::byte>> staged_;           // sources of uploads that may not be done
  std::vector<std::byte> operand_;                       // operand of the collective that is ready
  bool waited_ = true;                                   // all started work is done
};

}  // namespace

Result<std::unique_ptr<Backend>> device_backend(const Program& program,
                                                std::span<const Bytes> units,
                                                std::shared_ptr<Device> device) {
  auto backend = std::make_unique<DeviceBackend>(program, std::move(device));
  if (auto linked = backend->link(units); !linked) return linked.error();
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace lockstep::worker
