#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/compile/execution/arena.h>
#include <lockstep/worker/compile/execution/backend.h>
#include <lockstep/worker/compile/execution/loaded_object.h>
#include <lockstep/worker/compile/run/matmul.h>
#include <lockstep/worker/compile/run/run_failure.h>

namespace lockstep::worker {
namespace {

using KernelFunction = void (*)(void* const*, const std::int64_t*);

class HostBackend final : public Backend {
 public:
  explicit HostBackend(const Program& program) : program_(program) {
    pointers_.resize(program.buffers.size());
    arrays_.resize(program.buffers.size());
  }

  Result<void> link(std::span<const Bytes> units) {
    for (const Bytes& unit : units) {
      auto object = LoadedObject::load(unit);
      if (!object) return object.error();
      objects_.push_back(*std::move(object));
    }
    for (const Kernel& kernel : program_.kernels) {
      void* found =
          kernel.unit < objects_.size() ? objects_[kernel.unit]->symbol(kernel.name) : nullptr;
      if (found == nullptr)
        return environment_error(
            fmt::format("compiled unit {} has no kernel {}", kernel.unit, kernel.name));
      functions_.push_back(reinterpret_cast<KernelFunction>(found));
    }
    return {};
  }

  void begin(RunHost& host) override { threads_ = &host.threads(); }

  void bind(BufferId at, Array value) override {
    pointers_[at] = const_cast<void*>(std::as_const(value).data());
    arrays_[at] = std::move(value);
  }

  Result<void> make(BufferId at, std::int64_t elements) override {
    const Buffer& buffer = program_.buffers[at];
    if (buffer.kind == Buffer::Kind::Input) return {};
    const std::size_t bytes = static_cast<std::size_t>(elements) * dtype_size(buffer.dtype);
    if (buffer.kind == Buffer::Kind::Output) {
      try {
        arrays_[at] = Array(buffer.dtype, {elements});
      } catch (const std::bad_alloc&) {
        return memory_failure(program_.graph, buffer.node, bytes);
      }
      pointers_[at] = arrays_[at].data();
      return {};
    }
    pointers_[at] = arena_.take(bytes);
    if (pointers_[at] == nullptr) return memory_failure(program_.graph, buffer.node, bytes);
    return {};
  }

  void drop(BufferId at) override {
    const Buffer::Kind kind = program_.buffers[at].kind;
    if (kind == Buffer::Kind::Arena) arena_.give_back(pointers_[at]);
    if (kind == Buffer::Kind::Input) arrays_[at] = Array();  // the caller may have moved it
  }

  void capture(std::size_t) override {}
  [[nodiscard]] std::size_t captured_graphs() const override { return 0; }
  Result<std::size_t> replay(std::size_t, const RunValues&) override { return std::size_t{0}; }

  Result<void> launch(const Step& step, std::span<const std::int64_t> numbers,
                      const RunValues& values) override {
    addresses_.clear();
    for (BufferId at : step.buffers) addresses_.push_back(pointers_[at]);
    const KernelFunction function = functions_[step.kernel];
    if (step.sharing) return share(step, function, numbers, values);
    function(addresses_.data(), numbers.data());
    return {};
  }

  Result<void> multiply(const Step& step, std::span<const std::int64_t> n) override {
    const auto at = [&](std::size_t k) { return pointers_[step.buffers[k]]; };
    const DType dtype = program_.graph.nodes[step.node].meta.dtype;
    if (step.kind == Step::Kind::Matmul) {
      worker::multiply(*threads_, dtype, {at(0), step.transpose_a}, {at(1), step.transpose_b},
                       at(2), n[0], n[1], n[2], n[3]);
      return {};
    }
    const std::span counts(static_cast<const std::int64_t*>(at(2)), static_cast<std::size_t>(n[3]));
    if (step.kind == Step::Kind::SegmentMatmul)
      multiply_segments(*threads_, dtype, at(0), {at(1), step.transpose_b}, counts, at(3), n[1],
                        n[2]);
    else
      multiply_segments_outer(*threads_, dtype, at(0), at(1), counts, at(3), n[1], n[2]);
    return {};
  }

  Result<std::span<const std::int64_t>> read(BufferId at, std::size_t count) override {
    return std::span(static_cast<const std::int64_t*>(pointers_[at]), count);
  }

  Array view(BufferId at, std::vector<std::int64_t> sizes) override {
    return Array::borrowed(program_.buffers[at].dtype, std::move(sizes), pointers_[at]);
  }
  Result<void> place(BufferId at, std::int64_t block, const Array& value) override {
    if (value.bytes() == 0) return {};
    std::memcpy(
        static_cast<std::byte*>(pointers_[at]) + static_cast<std::size_t>(block) * value.bytes(),
        value.data(), value.bytes());
    return {};
  }

  Result<std::span<const std::int64_t>> outcomes() override {
    return std::span<const std::int64_t>();
  }

  Result<void> call(const Step& step, std::span<const std::size_t>, const Call& act) override {
    addresses_.clear();
    for (BufferId at : step.buffers) addresses_.push_back(pointers_[at]);
    return act(addresses_);
  }

  Result<bool> ready(const Step&, const NodeBuffers&) override { return true; }

  Result<bool> start_collective(const Step&, const NodeBuffers&, std::string_view) override {
    return false;
  }
  Result<bool> start_collective_of_zeros(const Step&, const NodeBuffers&,
                                         std::string_view) override {
    return false;
  }

  Result<void> on_host(const Step& step, const NodeBuffers& sizes, const OnHost& act) override {
    NodeBuffers buffers = sizes;
    buffers.operand = pointers_[step.buffers[0]];
    buffers.result = pointers_[step.buffers[1]];
    return act(buffers);
  }

  Result<void> finish() override { return {}; }

  Result<Array> output(BufferId at, std::vector<std::int64_t> sizes) override {
    return arrays_[at].reshaped(std::move(sizes));
  }

  void end() override {
    arena_.give_back_all();
    for (Array& array : arrays_) array = Array();
  }

  [[nodiscard]] std::size_t bytes() const override { return arena_.bytes(); }

 private:
  /// A thread's call of a kernel.
  struct OfThread {
    std::vector<void*> addresses;
    std::vector<std::int64_t> numbers;
    std::vector<std::vector<std::byte>> scratch;
  };

  /// Has threads share the step's kernel; its addresses are in addresses_.
  Result<void> share(const Step& step, KernelFunction function,
                     std::span<const std::int64_t> numbers, const RunValues& values) {
    const std::int64_t iterations = values[step.sharing->iterations], unit = step.sharing->unit;
    if (iterations == 0) return {};
    const std::int64_t units = (iterations + unit - 1) / unit;
    const int pieces = threads_->pieces_of(values[step.sharing->elements], units);
    if (auto made = make_calls(step, numbers, pieces == 1 ? 1 : threads_->count(), values); !made)
      return made;
    threads_->run(pieces, [&](std::int64_t piece, int thread) {
      OfThread& call = calls_[static_cast<std::size_t>(thread)];
      call.numbers[numbers.size()] = piece * units / pieces * unit;
      call.numbers[numbers.size() + 1] = std::min((piece + 1) * units / pieces * unit, iterations);
      function(call.addresses.data(), call.numbers.data());
    });
    return {};
  }

  /// Prepares the calls of `threads` threads. The first thread uses the scratch memory of the
  /// arena.
  Result<void> make_calls(const Step& step, std::span<const std::int64_t> numbers, int threads,
                          const RunValues& values) {
    calls_.resize(std::max(calls_.size(), static_cast<std::size_t>(threads)));
    for (std::size_t t = 0; t < static_cast<std::size_t>(threads); ++t) {
      OfThread& call = calls_[t];
      call.addresses.assign(addresses_.begin(), addresses_.end());
      call.numbers.assign(numbers.begin(), numbers.end());
      call.numbers.resize(numbers.size() + 2);
      if (t == 0) continue;
      call.scratch.resize(std::max(call.scratch.size(), step.of_thread.size()));
      for (std::size_t k = 0; k < step.of_thread.size(); ++k) {
        const Buffer& buffer = program_.buffers[step.buffers[step.of_thread[k]]];
        const std::size_t bytes =
            static_cast<std::size_t>(values[buffer.elements]) * dtype_size(buffer.dtype);
        try {
          if (call.scratch[k].size() < bytes) call.scratch[k].resize(bytes);
        } catch (const std::bad_alloc&) {
          return memory_failure(program_.graph, buffer.node, bytes);
        }
        call.addresses[step.of_thread[k]] = call.scratch[k].data();
      }
    }
    return {};
  }

  const Program& program_;
  std::vector<std::unique_ptr<LoadedObject>> objects_;
  std::vector<KernelFunction> functions_;
  Arena arena_;
  std::vector<OfThread> calls_;  // by thread
  // The current run.
  Threads* threads_ = nullptr;
  std::vector<void*> pointers_, addresses_;
  std::vector<Array> arrays_;  // inputs and outputs
};

}  // namespace

Result<std::unique_ptr<Backend>> host_backend(const Program& program,
                                              std::span<const Bytes> units) {
  auto backend = std::make_unique<HostBackend>(program);
  if (auto linked = backend->link(units); !linked) return linked.error();
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace lockstep::worker
