#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <lockstep/worker/compile/execution/backend.h>
#include <lockstep/worker/compile/execution/deferred_checks.h>
#include <lockstep/worker/compile/execution/executable.h>
#include <lockstep/worker/compile/execution/rounded_rows.h>
#include <lockstep/worker/compile/run/comparison.h>
#include <lockstep/worker/compile/run/control_run.h>
#include <lockstep/worker/compile/run/joint_run.h>
#include <lockstep/worker/compile/run/own_call.h>
#include <lockstep/worker/compile/run/run_failure.h>
#include <lockstep/worker/compile/run/run_values.h>
#include <lockstep/worker/tensor/graph/control.h>

namespace lockstep::worker {

class Executable::Loaded {
 public:
  Loaded(Program program, const Clock& clock)
      : program_(std::move(program)),
        clock_(clock),
        values_(program_),
        joint_(
            program_.graph,
            [this](auto known) { return checks_.failure(*backend_, values_, std::move(known)); }),
        checks_(program_) {
    made_.resize(program_.steps.size());
    dropped_.resize(program_.steps.size());
    std::vector<bool> seen(program_.buffers.size()), kept(program_.buffers.size());
    for (const Program::Output& output : program_.outputs) kept[output.buffer] = true;
    for (std::size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      for (BufferId at : step.buffers) {
        if (seen[at]) continue;
        seen[at] = true;
        made_[i].push_back(at);
        if (!kept[at]) dropped_[program_.buffers[at].last].push_back(at);
      }
      labels_.push_back(label(step));
      if (step.kind == Step::Kind::Settle || step.carries_status) untold_ = i + 1;
    }
  }

  Result<void> link(std::span<const Bytes> units, std::shared_ptr<Device> device) {
    for (const Program& body : program_.bodies) {
      auto loaded = Executable::load(body, units, clock_, device);
      if (!loaded) return loaded.error();
      bodies_.push_back(*std::move(loaded));
    }
    auto backend =
        device ? device_backend(program_, units, std::move(device)) : host_backend(program_, units);
    if (!backend) return backend.error();
    backend_ = *std::move(backend);
    return {};
  }

  Result<std::vector<Array>> run(const Inputs& inputs, collectives::Communicator& communicator,
                                 RunHost& host) {
    const Instant start = clock_.now();
    auto result = [&]() -> Result<std::vector<Array>> {
      try {
        backend_->begin(host);
        joint_.begin(communicator, host);
        if (auto bound = bind(inputs); !bound) return bound.error();
        host.bound();
        captured_ = rows_ && !joint_.input_refused() && rows_->round_up(values_);
        if (auto done = run_steps(communicator, host); !done) return done.error();
        return collect();
      } catch (const std::bad_alloc&) {
        return no_memory();
      } catch (const std::exception& error) {  // an input on a device that has failed
        return environment_error(error.what());
      }
    }();
    backend_->end();
    ++time_.runs;
    time_.total += clock_.now() - start;
    return result;
  }

  void capture(CaptureOptions options) {
    if (program_.target == Target::Host) return;
    backend_->capture(options.limit);
    rows_.emplace(program_.graph, std::move(options));
  }
  [[nodiscard]] std::size_t captured_graphs() const { return backend_->captured_graphs(); }
  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const RunTimes& time() const { return time_; }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t bytes = backend_->bytes();
    for (const auto& body : bodies_) bytes += body->bytes();
    return bytes;
  }

 private:
  [[nodiscard]] const Node& node(const Step& step) const { return program_.graph.nodes[step.node]; }
  [[nodiscard]] std::string label(const Step& step) const {
    if (step.kind == Step::Kind::SizesExchange) return size_comparison_label(node(step));
    if (step.kind == Step::Kind::SplitsExchange) return split_comparison_label(node(step));
    return step.kind == Step::Kind::Collective ? collective_label(node(step)) : "";
  }
  [[nodiscard]] Status no_memory() const {
    return environment_error(
        fmt::format("no memory for a run of frame {}; use smaller batches", program_.graph.name));
  }

  Result<void> bind(const Inputs& inputs) {
    checks_.forget();
    if (rows_) rows_->forget();
    if (auto bound = values_.bind(inputs); !bound) return bound.error();
    for (const Program::Input& input : program_.inputs) {
      const Node& source = program_.graph.nodes[input.node];
      auto array = bound_input(source, inputs);
      if (!array) return array.error();
      values_.gather(input.sizes, numbers_);
      if (array->sizes() != numbers_)
        joint_.refuse_input(input_size_failure(source, array->sizes(), numbers_));
      backend_->bind(input.buffer, *std::move(array));
    }
    return {};
  }

  Result<void> run_steps(collectives::Communicator& communicator, RunHost& host) {
    for (std::size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      host.poke();
      if (values_.most_elements() > RunHost::kQuickElements)
        host.announce_step_size(computes(step) ? values_.most_elements() * steps_at(step) : 0);
      const bool asserts = step.kind == Step::Kind::Assert;
      if (is_seen(step)) joint_.fail_on_input(step.node);
      if (!joint_.failed() && !asserts && step.kind != Step::Kind::HostSync)
        if (auto flaw = values_.flaw()) joint_.fail(step.node, *std::move(flaw));
      if (step.kind == Step::Kind::Settle) {
        if (auto settled = settle(step); !settled) return settled;
        continue;
      }
      if (step.kind == Step::Kind::SizesExchange || step.kind == Step::Kind::SplitsExchange) {
        if (auto done = compare(i); !done) return done;
        continue;
      }
      if (joint_.failed() && step.kind == Step::Kind::Collective)
        if (auto done = take_part(i); !done) return done;
      if (!joint_.goes_on(asserts)) continue;
      if (captured_) {
        const auto next = backend_->replay(i, values_);
        if (!next) {
          joint_.fail(step.node, next.error());
          continue;
        }
        if (*next > 0) {
          for (; i < *next; ++i) {
            checks_.started(i);
            drop(i);
          }
          --i;
          continue;
        }
      }
      if (step.chain) {
        run_chain(i);
        i += step.chain->length - 1;
        continue;
      }
      if (auto ended = execute(i, communicator, host); !ended) return ended;
      if (!joint_.failed()) drop(i);
    }
    if (auto ended = joint_.end(); !ended) return ended;
    if (auto flaw = values_.flaw()) return *flaw;
    return backend_->finish();
  }

  /// Number of steps that run with this one, with no poke and no announcement between them.
  [[nodiscard]] static std::int64_t steps_at(const Step& step) {
    return step.chain ? step.chain->length : 1;
  }

  [[nodiscard]] static bool computes(const Step& step) {
    return step.kind == Step::Kind::Kernel || step.kind == Step::Kind::Matmul ||
           step.kind == Step::Kind::SegmentMatmul || step.kind == Step::Kind::SegmentOuter ||
           step.kind == Step::Kind::Attention;
  }

  /// True if a refused input must count as this rank's failure from the step on.
  [[nodiscard]] static bool is_seen(const Step& step) {
    return step.kind == Step::Kind::Settle || step.kind == Step::Kind::Collective ||
           step.kind == Step::Kind::HostSync || step.kind == Step::Kind::SplitsCheck ||
           step.kind == Step::Kind::SizesExchange;
  }

  Result<void> settle(const Step& step) {
    if (!joint_.failed())
      if (auto done = backend_->finish(); !done) joint_.fail(step.node, done.error());
    joint_.well();
    const Instant start = clock_.now();
    auto settled = joint_.settle();
    time_.settling += clock_.now() - start;
    return settled;
  }

  [[nodiscard]] JointRun::Exchange exchange(std::size_t i) const {
    const Step& step = program_.steps[i];
    return {step.node, labels_[i], step.carries_status, i < untold_};
  }

  Result<void> take_part(std::size_t i) {
    const Step& step = program_.steps[i];
    std::optional<NodeBuffers> sizes;
    if (values_.knows(step.args)) {
      values_.gather(step.args, numbers_);
      sizes = collective_sizes(step);
    }
    return joint_.take_part(exchange(i), sizes, [&](const NodeBuffers& of) {
      return backend_->start_collective_of_zeros(step, of, labels_[i]);
    });
  }

  Result<void> compare(std::size_t i) {
    const Step& step = program_.steps[i];
    values_.gather(step.args, numbers_);
    const Instant start = clock_.now();
    auto done = step.kind == Step::Kind::SplitsExchange
                    ? joint_.compare_splits(step.node, numbers_, labels_[i])
                    : joint_.compare_sizes(step.node, exprs_of(step), numbers_, labels_[i]);
    time_.collectives += clock_.now() - start;
    return done;
  }

  [[nodiscard]] std::vector<shapes::Expr> exprs_of(const Step& step) const {
    std::vector<shapes::Expr> exprs;
    for (const ExprSlot slot : step.args) exprs.push_back(program_.exprs.expr(slot));
    return exprs;
  }

  void drop(std::size_t step) {
    for (BufferId at : dropped_[step]) backend_->drop(at);
  }

  Result<void> make(std::size_t step) {
    for (BufferId at : made_[step])
      if (auto made = backend_->make(at, values_[program_.buffers[at].elements]); !made)
        return made;
    return {};
  }

  /// Runs the chain that begins with step `first`. All of its values live until its end.
  void run_chain(std::size_t first) {
    const std::size_t end = first + program_.steps[first].chain->length;
    const Instant start = clock_.now();
    for (std::size_t i = first; i < end; ++i)
      if (auto made = make(i); !made) return joint_.fail(program_.steps[i].node, made.error());
    const auto steps = std::span(program_.steps).subspan(first, end - first);
    if (auto done = backend_->launch_chain(steps, values_); !done)
      return joint_.fail(steps.front().node, done.error());
    for (std::size_t i = first; i < end; ++i) drop(i);
    time_.kernels += clock_.now() - start;
  }

  /// Runs step `i`. Records a failure that a later status can report. Errors: failures that cannot
  /// be reported to other ranks, and joint errors.
  Result<void> execute(std::size_t i, collectives::Communicator& communicator, RunHost& host) {
    const Step& step = program_.steps[i];
    const bool collective_step = step.kind == Step::Kind::Collective;
    values_.gather(step.args, numbers_);
    const Instant start = clock_.now();
    if (auto made = make(i); !made)
      joint_.fail(step.node, made.error());
    else if (collective_step)
      get_ready(step, host);
    if (joint_.failed()) return collective_step ? take_part(i) : Result<void>{};
    switch (step.kind) {
      case Step::Kind::IndexCheck:
      case Step::Kind::CountsCheck:
        if (!step.deferred()) break;
        [[fallthrough]];
      case Step::Kind::Kernel:
        if (auto done = backend_->launch(step, numbers_, values_); !done)
          joint_.fail(step.node, done.error());
        else
          checks_.started(i);
        time_.kernels += clock_.now() - start;
        return {};
      case Step::Kind::Matmul:
      case Step::Kind::SegmentMatmul:
      case Step::Kind::SegmentOuter:
      case Step::Kind::Attention:
        if (auto done = backend_->multiply(step, numbers_); !done)
          joint_.fail(step.node, done.error());
        time_.products += clock_.now() - start;
        return {};
      case Step::Kind::Collective: {
        auto done = collective(i);
        time_.collectives += clock_.now() - start;
        return done;
      }
      case Step::Kind::HostSync: {
        if (!joint_.well()) return {};
        const auto list = backend_->read(step.buffers[0], node(step).binds.size());
        if (list)
          values_.bind(step.node, list->data());
        else
          joint_.fail(step.node, list.error());
        return {};
      }
      case Step::Kind::Control: {
        auto done = control(step, communicator, host);
        time_.kernels += clock_.now() - start;
        return done;
      }
      case Step::Kind::HostCall:
        if (!joint_.well()) return {};
        if (auto done = call_on_host(step); !done) joint_.fail(step.node, done.error());
        return {};
      case Step::Kind::Assert:
      case Step::Kind::SplitsCheck:
      case Step::Kind::SizesExchange:
      case Step::Kind::SplitsExchange:
      case Step::Kind::Settle:
        break;
    }
    check(step);
    return {};
  }

  /// Runs a HostCall step; its numbers are in numbers_.
  Result<void> call_on_host(const Step& step) {
    std::vector<NodeId> ids = node(step).inputs;
    ids.push_back(step.node);
    std::vector<std::vector<std::int64_t>> sizes;
    std::vector<std::size_t> bytes;
    auto next = numbers_.begin();
    for (const NodeId id : ids) {
      const TensorMeta& meta = program_.graph.nodes[id].meta;
      const auto end = next + static_cast<std::ptrdiff_t>(meta.sizes.size());
      sizes.emplace_back(std::exchange(next, end), end);
      bytes.push_back(static_cast<std::size_t>(elements_of(sizes.back())) * dtype_size(meta.dtype));
    }
    return backend_->call(step, bytes, [&](std::span<void* const> values) {
      std::vector<Array> arrays;
      for (std::size_t k = 0; k < values.size(); ++k)
        arrays.push_back(Array::over(program_.graph.nodes[ids[k]].meta.dtype, sizes[k], values[k]));
      Array result = std::move(arrays.back());
      arrays.pop_back();
      return call_function(node(step), arrays, result);
    });
  }

  /// Prepares a Collective step; its numbers are in numbers_.
  void get_ready(const Step& step, RunHost& host) {
    const auto waited = backend_->ready(step, collective_sizes(step));
    if (!waited)
      joint_.fail(step.node, waited.error());
    else if (*waited || !host.reaches_all())  // started work must succeed before sending
      joint_.well();
  }

  /// Returns the sizes of a Collective step's values; its numbers are in numbers_.
  [[nodiscard]] NodeBuffers collective_sizes(const Step& step) const {
    const std::size_t operand_dims = program_.graph.nodes[node(step).inputs[0]].meta.sizes.size();
    const std::size_t result_dims = node(step).meta.sizes.size();
    const std::span<const std::int64_t> numbers = numbers_;
    return {nullptr, nullptr, numbers.first(operand_dims),
            numbers.subspan(operand_dims, result_dims),
            numbers.subspan(operand_dims + result_dims)};
  }

  Result<void> collective(std::size_t i) {
    const Step& step = program_.steps[i];
    const NodeBuffers sizes = collective_sizes(step);
    if (!step.carries_status) {
      const auto between_devices = backend_->start_collective(step, sizes, labels_[i]);
      if (!between_devices) return between_devices.error();
      if (*between_devices) return {};
    }
    Result<bool> any = false;  // true: some rank has failed
    const auto done =
        backend_->on_host(step, sizes, [&](const NodeBuffers& buffers) -> Result<void> {
          any = joint_.exchange(exchange(i), buffers);
          return any ? Result<void>{} : any.error();
        });
    if (!any) return any.error();
    if (*any) return joint_.told();
    if (!done) joint_.fail(step.node, done.error());
    return {};
  }

  /// Runs a Control step; its numbers are in numbers_. Errors: those that all ranks return.
  Result<void> control(const Step& step, collectives::Communicator& communicator, RunHost& host) {
    const bool together = runs_collectives(node(step));
    auto done = backend_->finish();
    if (done) done = joint_.well();
    if (done) {
      ControlCall call{program_.graph, step.node, {}, {}, step.compares, {}, {}};
      std::span<const std::int64_t> numbers = numbers_;
      call.exprs = numbers.first(node(step).exprs.size());
      numbers = numbers.subspan(call.exprs.size());
      const std::vector<NodeId>& operands = node(step).inputs;
      for (std::size_t k = 0; k < operands.size(); ++k) {
        const std::size_t dims = program_.graph.nodes[operands[k]].meta.sizes.size();
        call.operands.push_back(
            backend_->view(step.buffers[k], {numbers.begin(), numbers.begin() + dims}));
        numbers = numbers.subspan(dims);
      }
      call.run = [&](std::size_t body, const Inputs& inputs, RunHost& around) {
        return bodies_[step.bodies + body]->run(inputs, communicator, around);
      };
      call.place = [&](std::size_t result, std::int64_t block, const Array& value) {
        const auto wanted = std::ranges::find(step.results, result);
        if (wanted == step.results.end()) return Result<void>{};
        const auto at = operands.size() + static_cast<std::size_t>(wanted - step.results.begin());
        return backend_->place(step.buffers[at], block, value);
      };
      done = run_control(call, communicator, host);
    }
    if (done || together) return done;
    joint_.fail(step.node, done.error());
    return {};
  }

  void check(const Step& step) {
    if (step.kind == Step::Kind::Assert) {
      if (node(step).asserts.at(0).predicate.evaluate(values_.valuation()) !=
          std::optional<bool>(true))
        joint_.fail(step.node, assert_failure(program_.graph, node(step), values_.valuation()));
      return;
    }
    if (step.kind == Step::Kind::SplitsCheck) {
      joint_.check_splits(step.node, std::span(numbers_).subspan(2), numbers_[0], numbers_[1]);
      return;
    }
    if (!joint_.well()) return;
    const auto list = backend_->read(step.buffers[0], static_cast<std::size_t>(numbers_[0]));
    if (!list) return joint_.fail(step.node, list.error());
    const std::span<const std::int64_t> values = *list;
    if (step.kind == Step::Kind::CountsCheck) {
      if (!counts_add_up(values, numbers_[1]))
        joint_.fail(step.node, counts_failure(program_.graph, step.node, values, numbers_[1]));
      return;
    }
    const auto limit = static_cast<std::uint64_t>(numbers_[1]);
    bool outside = false;
    for (std::int64_t index : values) outside |= static_cast<std::uint64_t>(index) >= limit;
    for (std::size_t k = 0; outside && k < values.size(); ++k) {
      if (static_cast<std::uint64_t>(values[k]) < limit) continue;
      joint_.fail(step.node, index_failure(program_.graph, step.node, static_cast<std::int64_t>(k),
                                           values[k], numbers_[1]));
      return;
    }
  }

  Result<std::vector<Array>> collect() {
    std::vector<Array> out;
    for (std::size_t k = 0; k < program_.outputs.size(); ++k) {
      const Program::Output& output = program_.outputs[k];
      values_.gather(output.sizes, numbers_);
      const auto& sizes = program_.graph.nodes[program_.graph.outputs[k].node].meta.sizes;
      if (const auto given = rows_ ? rows_->given(sizes) : std::nullopt) numbers_[0] = *given;
      auto array = backend_->output(output.buffer, numbers_);
      if (!array) return array.error();
      out.push_back(*std::move(array));
    }
    return out;
  }

  Program program_;
  const Clock& clock_;
  RunValues values_;
  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<Executable>> bodies_;    // of program_.bodies
  std::vector<std::vector<BufferId>> made_, dropped_;  // per step
  std::vector<std::string> labels_;
  std::size_t untold_ = 0;  // from this step on nothing reports a failure to the peers
  RunTimes time_;
  std::optional<RoundedRows> rows_;  // nullopt: no run is captured
  // The current run.
  std::vector<std::int64_t> numbers_;
  JointRun joint_;
  DeferredChecks checks_;
  bool captured_ = false;
};

Executable::Executable(std::unique_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {}
Executable::~Executable() = default;

Result<std::unique_ptr<Executable>> Executable::load(Program program, std::span<const Bytes> units,
                                                     const Clock& clock,
                                                     std::shared_ptr<Device> device) {
  auto loaded = std::make_unique<Loaded>(std::move(program), clock);
  if (auto linked = loaded->link(units, std::move(device)); !linked) return linked.error();
  return std::unique_ptr<Executable>(new Executable(std::move(loaded)));
}

Result<std::vector<Array>> Executable::run(const Inputs& inputs,
                                           collectives::Communicator& communicator, RunHost& host) {
  return loaded_->run(inputs, communicator, host);
}

void Executable::capture(CaptureOptions options) { loaded_->capture(std::move(options)); }
std::size_t Executable::captured_graphs() const { return loaded_->captured_graphs(); }
const Program& Executable::program() const { return loaded_->program(); }
const RunTimes& Executable::time() const { return loaded_->time(); }
std::size_t Executable::bytes() const { return loaded_->bytes(); }

}  // namespace lockstep::worker
