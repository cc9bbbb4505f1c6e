#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/compile/execution/arena.h>
#include <lockstep/worker/compile/execution/backend.h>
#include <lockstep/worker/compile/execution/loaded_object.h>
#include <lockstep/worker/compile/run/attention.h>
#include <lockstep/worker/compile/run/matmul.h>
#include <lockstep/worker/compile/run/run_failure.h>

namespace lockstep::worker {
namespace {

/// Elements over which the kernels of a chain go before the next rows: so many that calls cost
/// little, and so few that they stay in the cache of a core.
constexpr std::int64_t kChainBlock = 1 << 17;

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
    if (step.sharing) return share({&step, 1}, values[step.sharing->iterations], values);
    addresses_.clear();
    for (BufferId at : step.buffers) addresses_.push_back(pointers_[at]);
    functions_[step.kernel](addresses_.data(), numbers.data());
    return {};
  }

  Result<void> launch_chain(std::span<const Step> steps, const RunValues& values) override {
    const std::int64_t rows = values[steps.front().chain->rows];
    if (rows >= threads_->count()) return share(steps, rows, values);
    for (const Step& step : steps)  // each alone has more rows for the threads
      if (auto done = share({&step, 1}, values[step.sharing->iterations], values); !done)
        return done;
    return {};
  }

  Result<void> multiply(const Step& step, std::span<const std::int64_t> n) override {
    const auto at = [&](std::size_t k) { return pointers_[step.buffers[k]]; };
    const DType dtype = program_.graph.nodes[step.node].meta.dtype;
    if (step.kind == Step::Kind::Attention) {
      std::vector<const void*> operands;
      for (std::size_t k = 0; k + 1 < step.buffers.size(); ++k) operands.push_back(at(k));
      attend(*threads_, AttentionSizes(program_.graph, step.node, n), operands,
             at(operands.size()));
      return {};
    }
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
  /// A kernel that threads share, while it runs.
  struct Shared {
    KernelFunction function = nullptr;
    std::int64_t iterations = 0, unit = 1;
    std::int64_t per_row = 1;  // iterations of each row of its chain
    std::size_t arguments = 0;
  };
  /// A thread's calls of the kernels that run together.
  struct OfThread {
    struct Call {
      std::vector<void*> addresses;
      std::vector<std::int64_t> numbers;
    };
    std::vector<Call> calls;
    std::vector<std::vector<std::byte>> scratch;

    void call(const Shared& kernel, std::size_t which, std::int64_t first, std::int64_t last) {
      Call& mine = calls[which];
      mine.numbers[kernel.arguments] = first;
      mine.numbers[kernel.arguments + 1] = last;
      kernel.function(mine.addresses.data(), mine.numbers.data());
    }
  };

  /// Runs steps together, `rows` rows; every step goes over a multiple of `rows` iterations.
  Result<void> share(std::span<const Step> steps, std::int64_t rows, const RunValues& values) {
    if (rows == 0) return {};
    shared_.clear();
    std::int64_t unit = 1, elements = 0;  // rows at a multiple of which every step can be cut
    for (const Step& step : steps) {
      const Sharing& how = *step.sharing;
      const std::int64_t iterations = values[how.iterations], per_row = iterations / rows;
      shared_.push_back({functions_[step.kernel], iterations, how.unit, per_row, step.args.size()});
      elements += values[how.elements];
      if (per_row > 0) unit = std::lcm(unit, how.unit / std::gcd(how.unit, per_row));
    }
    const std::int64_t units = (rows + unit - 1) / unit;
    const int pieces = threads_->pieces_of(elements, units);
    const int threads = pieces == 1 ? 1 : threads_->count();
    if (auto made = make_calls(steps, threads, values); !made) return made;
    // A single step has nothing to gain from blocks.
    const std::int64_t per_block =
        steps.size() == 1
            ? units
            : std::max<std::int64_t>(kChainBlock / std::max<std::int64_t>(elements / units, 1), 1);
    threads_->run(pieces, [&](std::int64_t piece, int thread) {
      OfThread& mine = of_threads_[static_cast<std::size_t>(thread)];
      const std::int64_t end = (piece + 1) * units / pieces;
      for (std::int64_t block = piece * units / pieces; block < end; block += per_block) {
        const std::int64_t first = block * unit,
                           last = std::min(std::min(block + per_block, end) * unit, rows);
        for (std::size_t k = 0; k < shared_.size(); ++k)
          if (const std::int64_t each = shared_[k].per_row; each > 0)
            mine.call(shared_[k], k, first * each, last * each);
      }
    });
    return {};
  }

  /// Prepares the calls of `threads` threads. The first thread uses the scratch memory of the
  /// arena.
  Result<void> make_calls(std::span<const Step> steps, int threads, const RunValues& values) {
    const auto count = static_cast<std::size_t>(threads);
    of_threads_.resize(std::max(of_threads_.size(), count));
    for (std::size_t t = 0; t < count; ++t) {
      OfThread& mine = of_threads_[t];
      mine.calls.resize(std::max(mine.calls.size(), steps.size()));
      for (std::size_t k = 0; k < steps.size(); ++k) {
        const Step& step = steps[k];
        OfThread::Call& call = mine.calls[k];
        values.gather(step.args, call.numbers);
        call.numbers.resize(step.args.size() + 2);
        call.addresses.clear();
        for (const BufferId at : step.buffers) call.addresses.push_back(pointers_[at]);
        mine.scratch.resize(std::max(mine.scratch.size(), step.of_thread.size()));
      }
      if (t == 0) continue;
      if (auto made = make_scratch(steps, mine, values); !made) return made;
    }
    return {};
  }

  /// Gives a thread scratch memory; its kernels run one after the other and use the same.
  Result<void> make_scratch(std::span<const Step> steps, OfThread& mine, const RunValues& values) {
    const auto buffer_of = [&](const Step& step, std::size_t which) -> const Buffer& {
      return program_.buffers[step.buffers[step.of_thread[which]]];
    };
    for (const Step& step : steps)
      for (std::size_t k = 0; k < step.of_thread.size(); ++k) {
        const Buffer& buffer = buffer_of(step, k);
        const std::size_t bytes =
            static_cast<std::size_t>(values[buffer.elements]) * dtype_size(buffer.dtype);
        try {
          if (mine.scratch[k].size() < bytes) mine.scratch[k].resize(bytes);
        } catch (const std::bad_alloc&) {
          return memory_failure(program_.graph, buffer.node, bytes);
        }
      }
    for (std::size_t s = 0; s < steps.size(); ++s)
      for (std::size_t k = 0; k < steps[s].of_thread.size(); ++k)
        mine.calls[s].addresses[steps[s].of_thread[k]] = mine.scratch[k].data();
    return {};
  }

  const Program& program_;
  std::vector<std::unique_ptr<LoadedObject>> objects_;
  std::vector<KernelFunction> functions_;
  Arena arena_;
  // The current run.
  Threads* threads_ = nullptr;
  std::vector<Shared> shared_;
  std::vector<OfThread> of_threads_;
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
