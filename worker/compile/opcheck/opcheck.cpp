#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/worker/compile/codegen/codegen.h>
#include <lockstep/worker/compile/execution/loaded_object.h>
#include <lockstep/worker/compile/opcheck/device_call.h>
#include <lockstep/worker/compile/opcheck/gradcheck.h>
#include <lockstep/worker/compile/opcheck/guarded_call.h>
#include <lockstep/worker/compile/opcheck/opcheck.h>
#include <lockstep/worker/compile/opcheck/single_rank.h>
#include <lockstep/worker/compile/opcheck/traced_gradient.h>
#include <lockstep/worker/compile/run/own_call.h>
#include <lockstep/worker/compile/toolchain/host_toolchain.h>
#include <lockstep/worker/compile/toolchain/shared_build.h>
#include <lockstep/worker/tensor/graph/half.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

using HostKernel = void (*)(void* const*, const std::int64_t*);
using Tuple = std::map<std::string, std::int64_t>;  // sizes by name

constexpr std::int64_t kOtherSize = 3;  // size of names that are not varied
constexpr const char* kOnDevice = "a program for the device";
constexpr std::int64_t kManyElements = 4096;     // if inputs have more, few are varied
constexpr std::int64_t kMostElements = 1 << 20;  // most elements of an input; larger sizes are
                                                 // halved

double difference_allowed(DType dtype, double tolerance) {
  if (dtype == DType::F64) return tolerance;
  if (dtype == DType::F32) return tolerance * 1e7;
  return is_half(dtype) ? tolerance * 1e10 : 0;
}

class OpCheck {
 public:
  OpCheck(const OwnOp& op, const std::vector<OpcheckInput>& inputs, const OpcheckOptions& options)
      : op_(op), inputs_(inputs), options_(options), random_(options.seed) {}

  Result<OpcheckReport> run() {
    if (const auto flaw = op_.definition().flaw()) return failed(*flaw);
    if (auto made = make_graph(); !made) return made.error();
    if (auto made = make_ways(); !made) return made.error();
    for (const Tuple& tuple : tuples()) {
      tuple_ = tuple;
      if (auto done = check_tuple(); !done) return done.error();
      ++report_.sizes;
    }
    if (auto done = check_gradient(); !done) return done.error();
    report_.text = fmt::format("{}: {} tuples of sizes; {}; gradient {}", name(), report_.sizes,
                               fmt::join(report_.ways, ", "), report_.gradient);
    return report_;
  }

 private:
  [[nodiscard]] const std::string& name() const { return op_.definition().name; }

  [[nodiscard]] Status failed(std::string_view words) const {
    std::vector<std::string> sizes;
    for (const auto& [size, value] : tuple_) sizes.push_back(fmt::format("{} = {}", size, value));
    return bad_input(fmt::format("opcheck of {}{}: {}", name(),
                                 sizes.empty() ? "" : fmt::format(" at {}", fmt::join(sizes, ", ")),
                                 words));
  }
  /// Returns the status with the op's name and sizes added to its message.
  [[nodiscard]] Status failed(const Status& status) const {
    Status out = failed(status.message);
    out.code = status.code;
    return out;
  }

  [[nodiscard]] Decision symbolic() {
    Decision decision;
    std::map<std::string, std::uint32_t> numbers;
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      SourceDecision source;
      source.spec = {numbered_input(k), Kind::Tensor, inputs_[k].dtype,
                     static_cast<std::uint32_t>(inputs_[k].sizes.size())};
      for (std::size_t d = 0; d < inputs_[k].sizes.size(); ++d) {
        const OpcheckSize& size = inputs_[k].sizes[d];
        const auto next = static_cast<std::uint32_t>(numbers.size());
        source.dims.push_back({.value = size.number});
        if (size.name.empty()) continue;
        const auto [found, fresh] = numbers.emplace(size.name, next);
        source.dims.back() = {.is_symbol = true, .symbol = found->second};
        if (!fresh) continue;
        names_.push_back(size.name);
        decision.symbols.push_back(
            {.source = fmt::format("{}.size({})", source.spec.name, d), .min = 0, .hint = 5});
      }
      decision.sources.push_back(std::move(source));
    }
    return decision;
  }

  Result<void> make_graph() {
    decision_ = symbolic();
    auto graph = trace_on_one_rank(
        "opcheck", decision_, [&](const std::vector<Tensor>& x) { return std::vector{op_(x)}; });
    if (!graph) return failed(graph.error());
    graph_ = *std::move(graph);
    symbols_ = decision_.trace_symbols();
    return {};
  }

  Result<void> make_ways() {
    const Node& node = graph_.nodes[graph_.outputs[0].node];
    const auto on_arrays = [this, &node](auto act) {
      return [this, &node, act](const std::vector<const void*>& inputs, void* result) {
        std::vector<Array> arrays;
        for (std::size_t k = 0; k < inputs.size(); ++k)
          arrays.push_back(
              Array::over(inputs_[k].dtype, sizes_of(k), const_cast<void*>(inputs[k])));
        Array out = Array::over(node.meta.dtype, result_sizes(), result);
        return act(node, arrays, out);
      };
    };
    ways_.push_back({"the reference", on_arrays(call_reference)});
    if (op_.definition().function != nullptr)
      ways_.push_back({"the function", on_arrays(call_function)});
    if (auto made = make_program(); !made) return made;
    if (auto made = make_device_program(); !made) return made;
    for (const OpWay& way : ways_) report_.ways.push_back(way.name);
    for (const auto& [what, program] : programs_) report_.ways.push_back(what);
    return {};
  }

  Result<void> make_program() {
    auto toolchain = HostToolchain::open({.compiler = options_.compiler});
    if (!toolchain) return failed(toolchain.error());
    auto program = generate(graph_, Target::Host);
    if (!program) return failed(program.error());
    const auto units = built(*program, **toolchain);
    if (!units) return failed(units.error());
    if (!op_.definition().host_text.empty())
      if (auto made = make_text_way(*program, *units); !made) return made;
    return load("a program for the host", *std::move(program), *units, nullptr);
  }

  Result<void> make_device_program() {
    if (options_.device == nullptr || options_.device_toolchain == nullptr) return {};
    auto program = generate(graph_, Target::Cuda);
    if (!program) return failed(program.error());
    const auto units = built(*program, *options_.device_toolchain);
    if (!units) return failed(units.error());
    return load(kOnDevice, *std::move(program), *units, options_.device);
  }

  static Result<std::vector<Bytes>> built(const Program& program, Toolchain& toolchain) {
    std::vector<Bytes> units;
    for (const std::string& unit : program.units) {
      auto made = toolchain.build(unit);
      if (!made) return made.error();
      units.push_back(*std::move(made));
    }
    return units;
  }

  Result<void> load(std::string what, Program program, const std::vector<Bytes>& units,
                    std::shared_ptr<Device> device) {
    auto loaded = Executable::load(std::move(program), units, clock_, std::move(device));
    if (!loaded) return failed(loaded.error());
    programs_.emplace_back(std::move(what), *std::move(loaded));
    return {};
  }

  /// Adds the kernel of the host text as a way of its own.
  Result<void> make_text_way(const Program& program, const std::vector<Bytes>& units) {
    auto object = LoadedObject::load(units.at(0));
    if (!object) return failed(object.error());
    object_ = *std::move(object);
    const auto step =
        std::ranges::find(program.steps, Step::Kind::Kernel, [](const Step& s) { return s.kind; });
    auto* const kernel =
        reinterpret_cast<HostKernel>(object_->symbol(program.kernels.at(step->kernel).name));
    std::vector<NodeId> nodes;
    for (const BufferId at : step->buffers) nodes.push_back(program.buffers[at].node);
    std::vector<shapes::Expr> arguments;
    for (const ExprSlot slot : step->args) arguments.push_back(program.exprs.expr(slot));
    const NodeId result_node = program.graph.outputs[0].node;
    ways_.push_back({"the host text", [=, this](const auto& inputs, void* result) -> Result<void> {
                       std::vector<void*> buffers;
                       for (const NodeId id : nodes)
                         buffers.push_back(id == result_node ? result
                                                             : const_cast<void*>(inputs.at(id)));
                       std::vector<std::int64_t> numbers;
                       for (const shapes::Expr& argument : arguments)
                         numbers.push_back(value_of_size(argument));
                       kernel(buffers.data(), numbers.data());
                       return {};
                     }});
    return {};
  }

  /// Returns the tuples to test: each size for all names, then for each name with the others at
  /// kOtherSize.
  [[nodiscard]] std::vector<Tuple> tuples() const {
    std::vector<Tuple> out;
    const auto add = [&](const Tuple& tuple) {
      if (std::ranges::find(out, tuple) == out.end()) out.push_back(tuple);
    };
    if (names_.empty()) out.emplace_back();
    for (const std::int64_t size : options_.sizes) {
      Tuple tuple;
      for (const std::string& name : names_) tuple[name] = size;
      if (!names_.empty()) add(small_enough(tuple));
    }
    for (const std::int64_t size : options_.sizes)
      for (const std::string& name : names_) {
        Tuple tuple;
        for (const std::string& other : names_) tuple[other] = other == name ? size : kOtherSize;
        add(small_enough(tuple));
      }
    return out;
  }

  [[nodiscard]] Tuple small_enough(Tuple tuple) const {
    const auto too_large = [&](const OpcheckInput& input) {
      std::int64_t elements = 1;
      for (const OpcheckSize& size : input.sizes)
        elements *= size.name.empty() ? size.number : tuple[size.name];
      return elements > kMostElements;
    };
    while (std::ranges::any_of(inputs_, too_large))
      for (auto& [name, size] : tuple) size = std::max<std::int64_t>(size / 2, 1);
    return tuple;
  }

  [[nodiscard]] std::vector<std::int64_t> sizes_of(std::size_t k) const {
    std::vector<std::int64_t> out;
    for (const OpcheckSize& size : inputs_[k].sizes)
      out.push_back(size.name.empty() ? size.number : tuple_.at(size.name));
    return out;
  }
  [[nodiscard]] std::int64_t value_of_size(const shapes::Expr& size) const {
    const auto value =
        size.evaluate([&](shapes::Symbol symbol) { return value_of_symbol(symbol); });
    return value.value_or(-1);
  }
  [[nodiscard]] std::optional<std::int64_t> value_of_symbol(shapes::Symbol symbol) const {
    for (std::size_t i = 0; i < symbols_.size(); ++i)
      if (symbols_[i] == symbol) return tuple_.at(names_[i]);
    return std::nullopt;
  }
  [[nodiscard]] std::vector<std::int64_t> result_sizes() const {
    std::vector<std::int64_t> out;
    for (const shapes::Expr& size : graph_.nodes[graph_.outputs[0].node].meta.sizes)
      out.push_back(value_of_size(size));
    return out;
  }

  Array drawn(std::size_t k, DType dtype) {
    Array out(dtype, sizes_of(k));
    for (std::int64_t i = 0; i < out.elements(); ++i) {
      const double part = static_cast<double>(random_() >> 11) * 0x1p-53;
      const double value = inputs_[k].low + part * (inputs_[k].high - inputs_[k].low);
      out.set(i, is_float(dtype) ? value : dtype == DType::Bool ? part > 0.5 : std::round(value));
    }
    return out;
  }
  std::vector<Array> all_drawn() {
    std::vector<Array> out;
    for (std::size_t k = 0; k < inputs_.size(); ++k) out.push_back(drawn(k, inputs_[k].dtype));
    return out;
  }

  Result<void> check_tuple() {
    if (auto ruled = check_rule(); !ruled) return ruled;
    const std::vector<Array> inputs = all_drawn(), others = all_drawn();
    const OwnClaims& claims = op_.definition().claims;
    const DType dtype = graph_.nodes[graph_.outputs[0].node].meta.dtype;
    std::optional<Array> expected;
    for (const OpWay& way : ways_) {
      auto result = guarded_call(way, claims, inputs, others, dtype, result_sizes());
      if (!result) return failed(result.error());
      if (expected)
        if (auto equal = compare(way.name, *result, *expected); !equal) return equal;
      if (!expected) expected = *std::move(result);
    }
    for (auto& [what, program] : programs_) {
      const auto output = what == kOnDevice
                              ? device_call(*program, options_.device, claims, inputs, others)
                              : run_on_host(*program, inputs);
      if (!output) return failed(output.error());
      if (auto equal = compare(what, *output, *expected); !equal) return equal;
    }
    return {};
  }

  static Result<Array> run_on_host(Executable& program, const std::vector<Array>& inputs) {
    const auto outputs = run_on_one_rank(program, inputs);
    if (!outputs) return outputs.error();
    return (*outputs)[0];
  }

  Result<void> check_rule() const {
    const Node& node = graph_.nodes[graph_.outputs[0].node];
    std::vector<TensorMeta> metas;
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      metas.push_back({inputs_[k].dtype, {}});
      for (const std::int64_t size : sizes_of(k)) metas.back().sizes.emplace_back(size);
    }
    const auto ruled = own_result(node, metas);
    if (!ruled) return failed(ruled.error());
    TensorMeta traced{node.meta.dtype, {}};
    for (const std::int64_t size : result_sizes()) traced.sizes.emplace_back(size);
    if (*ruled == traced) return {};
    return failed(fmt::format(
        "the shape rule gives {} for these numbers, but what it gives for symbols is {}; "
        "it must not look at the value of a size",
        meta_text(*ruled), meta_text(traced)));
  }

  Result<void> compare(const std::string& what, const Array& got, const Array& expected) const {
    const double allowed = difference_allowed(expected.dtype(), options_.tolerance);
    for (std::int64_t i = 0; i < expected.elements(); ++i) {
      const double a = got.at(i), b = expected.at(i);
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      if (std::abs(a - b) <= allowed * std::max({1.0, std::abs(a), std::abs(b)})) continue;
      return failed(
          fmt::format("{} gives {} for element {}, but the reference gives {}", what, a, i, b));
    }
    return {};
  }

  /// Checks the gradient at all tuples, in a trace with the sizes as numbers and in one with
  /// symbols.
  Result<void> check_gradient() {
    report_.gradient = "none";
    if (!op_.has_gradient()) return {};
    std::vector<DType> dtypes;
    for (const OpcheckInput& input : inputs_) dtypes.push_back(input.dtype);
    if (const std::string why = no_differences(dtypes); !why.empty()) {
      report_.gradient = "not checked: " + why;
      return {};
    }
    const bool coarse = std::ranges::find(dtypes, DType::F32) != dtypes.end();
    report_.gradient = coarse ? "checked in f32" : "checked";
    tuple_.clear();
    const auto f = [&](const std::vector<Tensor>& x) { return std::vector{op_(x)}; };
    const auto symbolic = TracedGradient::trace(decision_, f, options_.seed);
    if (!symbolic) return failed(symbolic.error());
    for (const Tuple& tuple : tuples()) {
      tuple_ = tuple;
      const std::vector<Array> inputs = all_drawn();
      std::int64_t elements = 0;
      for (const Array& input : inputs) elements += input.elements();
      const GradcheckOptions options{.elements = elements > kManyElements ? 4 : 64,
                                     .seed = options_.seed};
      if (auto checked = gradcheck(f, inputs, options); !checked) return failed(checked.error());
      const auto size = [&](shapes::Symbol symbol) { return value_of_symbol(symbol); };
      if (!symbolic->takes(size)) continue;
      if (auto checked = symbolic->compare(inputs, options); !checked) {
        Status status = checked.error();
        status.message += ", traced with symbols as sizes";
        return failed(status);
      }
    }
    return {};
  }

  const OwnOp& op_;
  const std::vector<OpcheckInput>& inputs_;
  const OpcheckOptions& options_;
  std::mt19937_64 random_;
  SystemClock clock_;
  OpcheckReport report_;
  Decision decision_;  // named sizes as symbols
  Graph graph_;
  std::vector<std::string> names_;  // names of free sizes, in the order of the symbols
  std::vector<shapes::Symbol> symbols_;
  std::unique_ptr<LoadedObject> object_;
  std::vector<OpWay> ways_;
  std::vector<std::pair<std::string, std::unique_ptr<Executable>>> programs_;
  Tuple tuple_;
};

}  // namespace

Result<OpcheckReport> opcheck(const OwnOp& op, const std::vector<OpcheckInput>& inputs,
                              const OpcheckOptions& options) {
  return OpCheck(op, inputs, options).run();
}

}  // namespace lockstep::worker
