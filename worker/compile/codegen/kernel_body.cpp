#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include <lockstep/worker/compile/codegen/kernel_body.h>
#include <lockstep/worker/compile/codegen/scalar_text.h>
#include <lockstep/worker/tensor/graph/op_map.h>
#include <lockstep/worker/tensor/graph/windows.h>

namespace lockstep::worker {

using shapes::Expr;

void KernelBody::start_kernel() {
  start_nest();
  buffers_.clear();
  written_.clear();
  scratches_.clear();
  scratch_types_.clear();
  arguments_.clear();
  names_ = 0;
}

void KernelBody::start_nest() {
  nest_ = LoopNest();
  known_.clear();
}

Access KernelBody::open_loops(std::span<const Expr> sizes) {
  Access access{{sizes.begin(), sizes.end()}, {}};
  for (const Expr& size : sizes)
    access.index.push_back(size.constant() == std::optional<std::int64_t>(1)
                               ? index_constant(0)
                               : nest_.open(number(size)));
  return access;
}

IndexText KernelBody::number(const Expr& expr) {
  if (const auto constant = expr.constant()) return index_constant(*constant);
  const auto found = std::ranges::find(arguments_, expr);
  const auto at = found - arguments_.begin();
  if (found == arguments_.end()) arguments_.push_back(expr);
  return index_name(fmt::format("n{}", at), -1);
}

std::string KernelBody::buffer(NodeId id, bool written) {
  const NodeId storage = plan_.storage[id];
  const auto found = std::ranges::find(buffers_, storage);
  const auto at = static_cast<std::size_t>(found - buffers_.begin());
  if (found == buffers_.end()) {
    buffers_.push_back(storage);
    written_.push_back(false);
  }
  written_[at] = written_[at] || written;
  return fmt::format("b{}", at);
}

IndexText KernelBody::offset(const Access& access) {
  IndexText out;
  for (std::size_t d = 0; d < access.index.size(); ++d)
    out = out * number(access.sizes[d]) + access.index[d];
  return out;
}

std::string KernelBody::element(NodeId id, const Access& access, bool written) {
  return fmt::format("{}[{}]", buffer(id, written), offset(access).text);
}

std::string KernelBody::value(NodeId id, const Access& access) {
  return compute(id, access, std::nullopt).name;
}

std::string KernelBody::root_value(NodeId id, const Access& access) {
  const Access at = is_single(graph_.nodes[id]) ? single_access(id) : access;
  const std::string name = key(id, at, std::nullopt);
  if (const auto found = known_.find(name); found != known_.end()) return found->second.name;
  const Value value = compute_op(id, at, std::nullopt);
  known_[name] = value;
  return value.name;
}

std::string KernelBody::key(NodeId id, const Access& access, const Mask& mask) const {
  std::string out = fmt::format("{}@{}", id, mask ? mask->name : "");
  for (std::size_t d = 0; d < access.index.size(); ++d)
    out += fmt::format("|{}:{}", access.sizes[d].text(), access.index[d].text);
  return out;
}

KernelBody::Value KernelBody::define(std::string_view type, const std::string& text, int level) {
  Value value{fmt::format("v{}", names_++), level};
  nest_.before(level, fmt::format("const {} {} = {};", type, value.name, text));
  return value;
}

KernelBody::Value KernelBody::compute(NodeId id, const Access& access, const Mask& mask) {
  // A single element is the same through any view.
  const Access at = is_single(graph_.nodes[id]) ? single_access(id) : access;
  const std::string name = key(id, at, mask);
  if (const auto found = known_.find(name); found != known_.end()) return found->second;
  const Value value = plan_.in_memory(id) ? load(id, at, mask) : compute_op(id, at, mask);
  known_[name] = value;
  return value;
}

Access KernelBody::single_access(NodeId id) const {
  const auto& sizes = graph_.nodes[id].meta.sizes;
  return {sizes, std::vector<IndexText>(sizes.size())};
}

KernelBody::Value KernelBody::compute_op(NodeId id, const Access& access, const Mask& mask) {
  const Node& node = graph_.nodes[id];
  using Compute = Value (KernelBody::*)(NodeId, const Access&, const Mask&);
  // Ops with nullptr are always in memory.
  static constexpr OpMap<Compute> kSources(of_class<OpClass::Source>,
                                           {{Op::Input, nullptr},
                                            {Op::Scalar, &KernelBody::scalar},
                                            {Op::Full, &KernelBody::full},
                                            {Op::Iota, &KernelBody::iota}});
  static constexpr OpMap<Compute> kViews(of_class<OpClass::View>,
                                         {{Op::Reshape, &KernelBody::reshaped},
                                          {Op::Permute, &KernelBody::moved},
                                          {Op::Expand, &KernelBody::moved},
                                          {Op::Slice, &KernelBody::moved},
                                          {Op::Pad, &KernelBody::padded},
                                          {Op::Cat, nullptr},
                                          {Op::Flip, &KernelBody::moved},
                                          {Op::Unfold, &KernelBody::unfolded},
                                          {Op::Overlay, &KernelBody::overlaid}});
  switch (op_row(node.op).kind) {
    case OpClass::Source:
      return (this->*kSources[node.op])(id, access, mask);
    case OpClass::Elementwise:
      return elementwise(id, access, mask);
    case OpClass::View:
      return (this->*kViews[node.op])(id, access, mask);
    case OpClass::Index:
      if (node.op == Op::CheckedIndex) return compute(node.inputs[0], access, mask);
      return selected(id, access, mask);
    case OpClass::Reduction:
    case OpClass::Product:
    case OpClass::Collective:
    case OpClass::HostSync:
    case OpClass::Check:
    case OpClass::Control:
    case OpClass::Result:
    case OpClass::Own:
      break;
  }
  std::abort();
}

KernelBody::Value KernelBody::scalar(NodeId id, const Access&, const Mask&) {
  const Node& node = graph_.nodes[id];
  const std::string_view type = c_type(node.meta.dtype);
  return define(type, fmt::format("({}){}", type, number(node.exprs[0]).text), -1);
}

KernelBody::Value KernelBody::full(NodeId id, const Access&, const Mask&) {
  const Node& node = graph_.nodes[id];
  return define(c_type(node.meta.dtype), literal_text(node.meta.dtype, node.number), -1);
}

KernelBody::Value KernelBody::iota(NodeId id, const Access& access, const Mask&) {
  const Node& node = graph_.nodes[id];
  const std::string_view type = c_type(node.meta.dtype);
  const IndexText index = own_access(id, access).index[static_cast<std::size_t>(node.ints[0])];
  return define(type, fmt::format("({}){}", type, index.text), index.level);
}

KernelBody::Value KernelBody::reshaped(NodeId id, const Access& access, const Mask& mask) {
  return compute(graph_.nodes[id].inputs[0], access, mask);
}

KernelBody::Value KernelBody::load(NodeId id, const Access& access, const Mask& mask) {
  const IndexText at = offset(access);
  const std::string_view type = c_type(graph_.nodes[id].meta.dtype);
  const std::string element = fmt::format("{}[{}]", buffer(id), at.text);
  if (!mask) return define(type, element, at.level);
  return define(type, fmt::format("{} ? {} : ({})0", mask->name, element, type),
                std::max(at.level, mask->level));
}

KernelBody::Value KernelBody::elementwise(NodeId id, const Access& access, const Mask& mask) {
  const Node& node = graph_.nodes[id];
  std::vector<std::string> operands;
  int level = -1;
  for (NodeId operand : node.inputs) {
    const Value value = compute(operand, access, mask);
    operands.push_back(value.name);
    level = std::max(level, value.level);
  }
  return define(c_type(node.meta.dtype),
                elementwise_text(node, graph_.nodes[node.inputs[0]].meta.dtype, operands), level);
}

KernelBody::Value KernelBody::moved(NodeId id, const Access& access, const Mask& mask) {
  const Node& node = graph_.nodes[id];
  const auto& sizes = graph_.nodes[node.inputs[0]].meta.sizes;
  if (node.op == Op::Expand && sizes == node.meta.sizes)
    return compute(node.inputs[0], access, mask);
  const Access own = own_access(id, access);
  Access operand{sizes, own.index};
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (node.op == Op::Permute)
      operand.index[static_cast<std::size_t>(node.ints[d])] = own.index[d];
    if (node.op == Op::Expand && sizes[d].constant() == std::optional<std::int64_t>(1))
      operand.index[d] = index_constant(0);
  }
  if (node.op == Op::Slice) {
    IndexText& index = operand.index[static_cast<std::size_t>(node.ints[0])];
    index = index + number(node.exprs[0]);
  }
  if (node.op == Op::Flip)
    for (const std::int64_t dim : node.ints) {
      const auto d = static_cast<std::size_t>(dim);
      operand.index[d] = number(sizes[d]) - index_constant(1) - own.index[d];
    }
  return compute(node.inputs[0], operand, mask);
}

KernelBody::Value KernelBody::padded(NodeId id, const Access& seen, const Mask& mask) {
  Access access = own_access(id, seen);
  const Node& node = graph_.nodes[id];
  const std::string_view type = c_type(node.meta.dtype);
  const auto dim = static_cast<std::size_t>(node.ints[0]);
  const auto& sizes = graph_.nodes[node.inputs[0]].meta.sizes;
  const IndexText index = access.index[dim] - number(node.exprs[0]);
  const IndexText size = number(sizes[dim]);
  const std::string outer = mask ? fmt::format("{} & ", mask->name) : std::string();
  const Value inside = define(
      "bool", fmt::format("{}({} >= 0) & ({} < {})", outer, index.text, index.text, size.text),
      std::max(index.level, mask ? mask->level : -1));
  access.index[dim] = index;
  access.sizes = sizes;
  const Value value = compute(node.inputs[0], access, inside);
  return define(type, fmt::format("{} ? {} : ({})0", inside.name, value.name, type),
                std::max(value.level, inside.level));
}

KernelBody::Value KernelBody::unfolded(NodeId id, const Access& seen, const Mask& mask) {
  const Node& node = graph_.nodes[id];
  const Access own = own_access(id, seen);
  Access operand{graph_.nodes[node.inputs[0]].meta.sizes, {}};
  operand.index.assign(own.index.begin(),
                       own.index.begin() + static_cast<std::ptrdiff_t>(operand.sizes.size()));
  for (const Windowed& at : windowed_dims(node, own.sizes.size()))
    operand.index[at.dim] = own.index[at.dim] * index_constant(at.stride) +
                            own.index[at.kernel] * index_constant(at.dilation);
  return compute(node.inputs[0], operand, mask);
}

KernelBody::Value KernelBody::overlaid(NodeId id, const Access& seen, const Mask& mask) {
  const Node& node = graph_.nodes[id];
  Access access = own_access(id, seen);
  const auto& sizes = graph_.nodes[node.inputs[0]].meta.sizes;
  Mask there = mask;
  for (const Windowed& at : windowed_dims(node, sizes.size())) {
    const IndexText place =
        access.index[at.dim] - access.index[at.kernel] * index_constant(at.dilation);
    const IndexText window = place / index_constant(at.stride);
    std::string text = there ? there->name + " & " : "";
    text +=
        fmt::format("({} >= 0) & ({} < {})", place.text, window.text, number(sizes[at.dim]).text);
    if (at.stride > 1) text += fmt::format(" & ({} % {} == 0)", place.text, at.stride);
    there = define("bool", text, std::max(place.level, there ? there->level : -1));
    access.index[at.dim] = window;
  }
  access.sizes = sizes;
  const Value value = compute(node.inputs[0], access, there);
  return define(c_type(node.meta.dtype),
                fmt::format("{} ? {} : ({})0", there->name, value.name, c_type(node.meta.dtype)),
                std::max(value.level, there->level));
}

KernelBody::Value KernelBody::selected(NodeId id, const Access& seen, const Mask& mask) {
  Access access = own_access(id, seen);
  const Node& node = graph_.nodes[id];
  const bool rows = node.op == Op::IndexSelect;
  const auto dim = rows ? std::size_t{0} : static_cast<std::size_t>(node.ints[0]);
  const Access place{graph_.nodes[node.inputs[1]].meta.sizes,
                     rows ? std::vector{access.index[0]} : access.index};
  const Value row = compute(node.inputs[1], place, mask);
  access.index[dim] = index_name(row.name, row.level);
  access.sizes = graph_.nodes[node.inputs[0]].meta.sizes;
  if (indices_ == Indices::Checked) return compute(node.inputs[0], access, mask);
  const Value there =
      define("bool",
             fmt::format("{}((unsigned long){} < (unsigned long){})",
                         mask ? mask->name + " & " : "", row.name, number(access.sizes[dim]).text),
             std::max(row.level, mask ? mask->level : -1));
  return compute(node.inputs[0], access, there);
}

Access KernelBody::own_access(NodeId id, const Access& access) {
  const auto& sizes = graph_.nodes[id].meta.sizes;
  if (access.sizes == sizes) return access;
  Access own{sizes, std::vector<IndexText>(sizes.size())};
  if (long_sizes(access.sizes) == long_sizes(sizes)) {
    std::size_t from = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d].constant() == std::optional<std::int64_t>(1)) continue;
      while (access.sizes[from].constant() == std::optional<std::int64_t>(1)) ++from;
      own.index[d] = access.index[from++];
    }
    return own;
  }
  IndexText rest = offset(access);
  for (std::size_t d = sizes.size(); d-- > 0;) {
    own.index[d] = d == 0 ? rest : rest % number(sizes[d]);
    rest = rest / number(sizes[d]);
  }
  return own;
}

std::string KernelBody::scratch(std::size_t which, DType dtype) {
  const auto found = std::ranges::find(scratches_, which);
  if (found == scratches_.end()) {
    scratches_.push_back(which);
    scratch_types_.push_back(dtype);
  }
  return fmt::format("p{}", which);
}

std::string KernelBody::pointer_type(std::size_t buffer) const {
  return fmt::format("{}{}*", written_[buffer] ? "" : "const ",
                     c_type(graph_.nodes[buffers_[buffer]].meta.dtype));
}

std::string KernelBody::text(const std::string& loops) const {
  std::string out;
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    out += fmt::format("  {0} __restrict b{1} = ({0})b[{1}];\n", pointer_type(i), i);
  for (std::size_t i = 0; i < scratches_.size(); ++i)
    out += fmt::format("  {0}* __restrict p{1} = ({0}*)b[{2}];\n", c_type(scratch_types_[i]),
                       scratches_[i], buffers_.size() + i);
  for (std::size_t i = 0; i < arguments_.size(); ++i)
    out += fmt::format("  const long n{0} = n[{0}];\n", i);
  return out + loops;
}

std::string KernelBody::aligned_text() const {
  std::string out;
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    out += fmt::format("  b{0} = ({1})__builtin_assume_aligned(b{0}, 16);\n", i, pointer_type(i));
  return out;
}

std::string KernelBody::parameters() const {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    out.push_back(fmt::format("{} __restrict b{}", pointer_type(i), i));
  for (std::size_t i = 0; i < scratches_.size(); ++i)
    out.push_back(fmt::format("{}* __restrict p{}", c_type(scratch_types_[i]), scratches_[i]));
  for (std::size_t i = 0; i < arguments_.size(); ++i) out.push_back(fmt::format("long n{}", i));
  return fmt::format("{}", fmt::join(out, ", "));
}

}  // namespace lockstep::worker
