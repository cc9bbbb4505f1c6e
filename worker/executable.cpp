#include <new>

#include <fmt/format.h>

#include <lockstep/worker/arena.h>
#include <lockstep/worker/executable.h>
#include <lockstep/worker/graph_collective.h>
#include <lockstep/worker/loaded_object.h>
#include <lockstep/worker/products.h>
#include <lockstep/worker/run_failure.h>
#include <lockstep/worker/run_values.h>

namespace lockstep::worker {
namespace {

using KernelFunction = void (*)(void* const*, const std::int64_t*);

}  // namespace

class Executable::Loaded {
 public:
  Loaded(Program program, const Clock& clock)
      : program_(std::move(program)), clock_(clock), values_(program_) {
    pointers_.resize(program_.buffers.size());
    outputs_.resize(program_.buffers.size());
    made_.resize(program_.steps.size());
    dead_.resize(program_.steps.size());
    for (BufferId at = 0; at < program_.buffers.size(); ++at) {
      const Buffer& buffer = program_.buffers[at];
      if (buffer.kind == Buffer::Kind::Input) continue;
      made_[buffer.first].push_back(at);
      if (buffer.kind == Buffer::Kind::Arena) dead_[buffer.last].push_back(at);
    }
    for (const Step& step : program_.steps)
      labels_.push_back(step.kind == Step::Kind::Collective
                            ? collective_label(program_.graph.nodes[step.node])
                            : "");
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
        return Status{Code::Environment,
                      fmt::format("compiled unit {} has no kernel {}", kernel.unit, kernel.name),
                      {},
                      {}};
      functions_.push_back(reinterpret_cast<KernelFunction>(found));
    }
    return {};
  }

  Result<std::vector<Array>> run(const Inputs& inputs, collectives::Communicator& communicator,
                                 RunHost& host) {
    const Instant start = clock_.now();
    auto result = [&]() -> Result<std::vector<Array>> {
      try {
        if (auto bound = bind(inputs); !bound) return bound.error();
        if (auto done = run_steps(communicator, host); !done) return done.error();
        return collect();
      } catch (const std::bad_alloc&) {
        return no_memory();
      }
    }();
    arena_.give_back_all();
    for (Array& output : outputs_) output = Array();
    bound_.clear();
    ++time_.runs;
    time_.total += clock_.now() - start;
    return result;
  }

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const RunTimes& time() const { return time_; }
  [[nodiscard]] std::size_t arena_bytes() const { return arena_.bytes(); }

 private:
  [[nodiscard]] const Node& node(const Step& step) const { return program_.graph.nodes[step.node]; }
  [[nodiscard]] Status no_memory() const {
    return Status{
        Code::Environment,
        fmt::format("no memory for a run of frame {}; use smaller batches", program_.graph.name),
        {},
        {}};
  }

  Result<void> bind(const Inputs& inputs) {
    failure_.reset();
    misfit_.reset();
    if (auto bound = values_.bind(inputs); !bound) return bound.error();
    for (const Program::Input& input : program_.inputs) {
      const Node& source = program_.graph.nodes[input.node];
      auto array = bound_input(source, inputs);
      if (!array) return array.error();
      values_.gather(input.sizes, numbers_);
      if (array->sizes() != numbers_ && !misfit_)
        misfit_ = input_size_failure(source, array->sizes(), numbers_);
      pointers_[input.buffer] = array->data();
      bound_.push_back(*std::move(array));
    }
    return {};
  }

  Result<void> run_steps(collectives::Communicator& communicator, RunHost& host) {
    for (std::size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      // Asserts say what is wrong in the user's words, so they come before sizes that make no
      // sense.
      const bool only_asserts = misfit_ && !failure_;
      const bool sync = step.kind == Step::Kind::Settle || step.kind == Step::Kind::Collective ||
                        step.kind == Step::Kind::HostSync || step.kind == Step::Kind::SplitsCheck;
      if (only_asserts && sync) failure_ = misfit_;
      if (!failure_ && step.kind != Step::Kind::Assert && step.kind != Step::Kind::HostSync)
        failure_ = values_.flaw();
      if (step.kind == Step::Kind::Settle) {
        if (auto settled = settle(host); !settled) return settled;
        continue;
      }
      if (failure_ && step.kind == Step::Kind::Collective) return *failure_;
      if (failure_ || (only_asserts && step.kind != Step::Kind::Assert)) continue;
      if (!allocate(i)) return no_memory();
      if (auto done = execute(i, communicator, host); !done) return done;
      for (BufferId at : dead_[i]) arena_.give_back(pointers_[at]);
    }
    if (!failure_) failure_ = misfit_ ? misfit_ : values_.flaw();
    if (failure_) return *failure_;
    return {};
  }

  Result<void> settle(RunHost& host) {
    const Instant start = clock_.now();
    auto settled = host.settle(failure_);
    time_.settling += clock_.now() - start;
    if (settled && failure_) return *failure_;
    return settled;
  }

  bool allocate(std::size_t step) {
    for (BufferId at : made_[step]) {
      const Buffer& buffer = program_.buffers[at];
      const std::int64_t elements = values_[buffer.elements];
      if (buffer.kind == Buffer::Kind::Output) {
        outputs_[at] = Array(buffer.dtype, {elements});
        pointers_[at] = outputs_[at].data();
      } else {
        pointers_[at] = arena_.take(static_cast<std::size_t>(elements) * dtype_size(buffer.dtype));
      }
      if (pointers_[at] == nullptr) return false;
    }
    return true;
  }

  Result<void> execute(std::size_t i, collectives::Communicator& communicator, RunHost& host) {
    const Step& step = program_.steps[i];
    values_.gather(step.args, numbers_);
    const Instant start = clock_.now();
    switch (step.kind) {
      case Step::Kind::Kernel:
        addresses_.clear();
        for (BufferId at : step.buffers) addresses_.push_back(pointers_[at]);
        functions_[step.kernel](addresses_.data(), numbers_.data());
        time_.kernels += clock_.now() - start;
        return {};
      case Step::Kind::Matmul:
      case Step::Kind::SegmentMatmul:
      case Step::Kind::SegmentOuter:
        product(step);
        time_.products += clock_.now() - start;
        return {};
      case Step::Kind::Collective: {
        auto done = collective(step, labels_[i], communicator, host);
        time_.collectives += clock_.now() - start;
        return done;
      }
      case Step::Kind::HostSync:
        values_.bind(step.node, static_cast<const std::int64_t*>(pointers_[step.buffers[0]]));
        return {};
      default:
        check(step, communicator, host);
        return {};
    }
  }

  void product(const Step& step) {
    const auto at = [&](std::size_t k) { return pointers_[step.buffers[k]]; };
    const DType dtype = node(step).meta.dtype;
    const auto& n = numbers_;
    if (step.kind == Step::Kind::Matmul)
      return multiply(dtype, {at(0), step.transpose_a}, {at(1), step.transpose_b}, at(2), n[0],
                      n[1], n[2], n[3]);
    const std::span counts(static_cast<const std::int64_t*>(at(2)), static_cast<std::size_t>(n[3]));
    if (step.kind == Step::Kind::SegmentMatmul)
      multiply_segments(dtype, at(0), {at(1), step.transpose_b}, counts, at(3), n[1], n[2]);
    else
      multiply_segments_outer(dtype, at(0), at(1), counts, at(3), n[1], n[2]);
  }

  Result<void> collective(const Step& step, std::string_view label,
                          collectives::Communicator& communicator, RunHost& host) {
    const Node& at = node(step);
    const std::size_t operand_dims = program_.graph.nodes[at.inputs[0]].meta.sizes.size();
    const std::span<const std::int64_t> numbers = numbers_;
    const NodeBuffers buffers{pointers_[step.buffers[0]], pointers_[step.buffers[1]],
                              numbers.first(operand_dims),
                              numbers.subspan(operand_dims, at.meta.sizes.size()),
                              numbers.subspan(operand_dims + at.meta.sizes.size())};
    const auto ranks = ranks_of(at, communicator, host);
    if (!ranks) return ranks.error();
    return (*ranks)->run(collective_of(at, buffers, label));
  }

  void check(const Step& step, collectives::Communicator& communicator, RunHost& host) {
    if (step.kind == Step::Kind::Assert) {
      if (node(step).asserts.at(0).predicate.evaluate(values_.valuation()) !=
          std::optional<bool>(true))
        failure_ = assert_failure(program_.graph, node(step), values_.valuation());
      return;
    }
    if (step.kind == Step::Kind::SplitsCheck) {
      const auto ranks = ranks_of(node(step), communicator, host);
      failure_ = ranks ? splits_failure(program_.graph, step.node, std::span(numbers_).subspan(2),
                                        numbers_[0], numbers_[1], (*ranks)->size())
                       : ranks.error();
      return;
    }
    const auto* list = static_cast<const std::int64_t*>(pointers_[step.buffers[0]]);
    const std::span values(list, static_cast<std::size_t>(numbers_[0]));
    if (step.kind == Step::Kind::CountsCheck) {
      if (!counts_add_up(values, numbers_[1]))
        failure_ = counts_failure(program_.graph, step.node, values, numbers_[1]);
      return;
    }
    const auto limit = static_cast<std::uint64_t>(numbers_[1]);
    bool outside = false;
    for (std::int64_t index : values) outside |= static_cast<std::uint64_t>(index) >= limit;
    for (std::size_t k = 0; outside && k < values.size(); ++k) {
      if (static_cast<std::uint64_t>(values[k]) < limit) continue;
      failure_ = index_failure(program_.graph, step.node, static_cast<std::int64_t>(k), values[k],
                               numbers_[1]);
      return;
    }
  }

  Result<std::vector<Array>> collect() {
    std::vector<Array> out;
    for (const Program::Output& output : program_.outputs) {
      values_.gather(output.sizes, numbers_);
      if (program_.buffers[output.buffer].kind != Buffer::Kind::Input) {
        out.push_back(outputs_[output.buffer].reshaped(numbers_));
        continue;
      }
      std::size_t input = 0;
      while (program_.inputs[input].buffer != output.buffer) ++input;
      out.push_back(bound_[input].reshaped(numbers_));
    }
    return out;
  }

  Program program_;
  const Clock& clock_;
  RunValues values_;
  std::vector<std::unique_ptr<LoadedObject>> objects_;
  std::vector<KernelFunction> functions_;
  std::vector<std::vector<BufferId>> made_, dead_;  // per step
  std::vector<std::string> labels_;
  Arena arena_;
  RunTimes time_;
  // Of the run under way.
  std::vector<void*> pointers_, addresses_;
  std::vector<Array> outputs_, bound_;
  std::vector<std::int64_t> numbers_;
  std::optional<Status> failure_;
  std::optional<Status> misfit_;  // an input of other sizes than the entry's
};

Executable::Executable(std::unique_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {}
Executable::~Executable() = default;

Result<std::unique_ptr<Executable>> Executable::load(Program program, std::span<const Bytes> units,
                                                     const Clock& clock) {
  auto loaded = std::make_unique<Loaded>(std::move(program), clock);
  if (auto linked = loaded->link(units); !linked) return linked.error();
  return std::unique_ptr<Executable>(new Executable(std::move(loaded)));
}

Result<std::vector<Array>> Executable::run(const Inputs& inputs,
                                           collectives::Communicator& communicator, RunHost& host) {
  return loaded_->run(inputs, communicator, host);
}

const Program& Executable::program() const { return loaded_->program(); }
const RunTimes& Executable::time() const { return loaded_->time(); }
std::size_t Executable::arena_bytes() const { return loaded_->arena_bytes(); }

}  // namespace lockstep::worker
