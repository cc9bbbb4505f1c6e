#include <fmt/format.h>

#include <lockstep/worker/compile/codegen/cuda_nest.h>
#include <lockstep/worker/compile/codegen/emit_attention.h>
#include <lockstep/worker/compile/codegen/scalar_text.h>
#include <lockstep/worker/tensor/graph/op.h>

namespace lockstep::worker {
namespace {

using shapes::Expr;

constexpr std::string_view kEach =
    "for (long i = blockIdx.x * {0}L + threadIdx.x; i < {1}; i += gridDim.x * {0}L)";

std::string each(std::string_view count) {
  return fmt::format(fmt::runtime(kEach), kCudaBlock, count);
}

/// Joins a value of each thread of a block, in a fixed order, and gives the result to all threads.
std::string joined(std::string_view value, std::string_view join) {
  return fmt::format(R"(    lanes[threadIdx.x] = {0};
    __syncthreads();
    for (int step = {1}; step > 0; step /= 2) {{
      if (threadIdx.x < step) {{
        const T a = lanes[threadIdx.x], b = lanes[threadIdx.x + step];
        lanes[threadIdx.x] = {2};
      }}
      __syncthreads();
    }}
    {0} = lanes[0];
    __syncthreads();
)",
                     value, kCudaBlock / 2, join);
}

class AttentionText {
 public:
  AttentionText(const Graph& graph, NodeId id)
      : node_(graph.nodes[id]),
        type_(c_type(node_.meta.dtype)),
        head_dims_(graph.nodes[node_.inputs[0]].meta.sizes.size() - 2) {
    if (node_.inputs.size() == attention_operands(node_.op)) return;
    const DType dtype = graph.nodes[node_.inputs.back()].meta.dtype;
    mask_ = c_type(dtype);
    seen_ = dtype == DType::Bool;
  }

  [[nodiscard]] std::vector<KernelText> all() const {
    if (node_.op == Op::Attention) return {take(), parts(), put()};
    return {take(), slopes(), put(), add()};
  }

 private:
  [[nodiscard]] KernelText kernel(std::string parameters, std::string body) const {
    return {std::move(parameters), fmt::format("  typedef {} T;\n{}", type_, body), {}, {}, {}};
  }

  [[nodiscard]] KernelText take() const {
    return kernel(fmt::format("const {0}* from, {0}* to, long count, long rows, long first, long "
                              "all, long width, long stride",
                              type_),
                  fmt::format(R"(  {} {{
    const long row = i / width;
    to[i] = from[(row / rows * all + first + row % rows) * stride + i % width];
  }}
)",
                              each("count")));
  }

  [[nodiscard]] KernelText put() const {
    const bool logs = node_.op == Op::Attention;
    return kernel(
        fmt::format("const {0}* from, {1}{0}* to, long count, long rows, long first, long all, "
                    "long width",
                    type_, logs ? fmt::format("const {}* logs, ", type_) : ""),
        fmt::format(R"(  const long stride = width + {};
  {} {{
    const long row = i / stride, column = i % stride;
    to[(row / rows * all + first + row % rows) * stride + column] = {};
  }}
)",
                    logs ? 1 : 0, each("count"),
                    logs ? fmt::format("column == width ? logs[row] : logs[row] == -({}) ? (T)0 : "
                                       "from[row * width + column]",
                                       extreme_text(node_.meta.dtype, true))
                         : "from[i]"));
  }

  [[nodiscard]] KernelText add() const {
    return kernel(fmt::format("{0}* to, const {0}* from, long count", type_),
                  fmt::format("  {} to[i] += from[i];\n", each("count")));
  }

  [[nodiscard]] std::string mask_parameter() const {
    return mask_.empty() ? "" : fmt::format(", const {}* mask", mask_);
  }
  [[nodiscard]] std::string mask_numbers() const {
    if (mask_.empty()) return "";
    std::string out = ", long of_query, long of_key";
    for (std::size_t d = 0; d < head_dims_; ++d)
      out += fmt::format(", long size{0}, long of{0}", d);
    return out;
  }

  /// Opens the loop over rows, a block of threads for each; `keys` behind `seen` are not seen.
  [[nodiscard]] std::string open_rows() const {
    std::string out = fmt::format(
        R"(  __shared__ T lanes[{}];
  for (long row = blockIdx.x; row < count; row += gridDim.x) {{
    T* const score = scores + row * keys;
    const long query = first + row % rows, head = row / rows;
    const long seen = {};
)",
        kCudaBlock, node_.ints[0] != 0 ? "query + 1 < keys ? query + 1 : keys" : "keys");
    if (!mask_.empty()) {
      out += "    long rest = head, from = query * of_query;\n";
      for (std::size_t d = 0; d < head_dims_; ++d)
        out += fmt::format("    from += rest % size{0} * of{0};\n    rest /= size{0};\n", d);
    }
    return out;
  }
  /// The score at j, with the mask.
  [[nodiscard]] std::string score() const {
    const std::string unseen = extreme_text(node_.meta.dtype, true);
    if (mask_.empty()) return fmt::format("j < seen ? score[j] : {}", unseen);
    if (seen_) return fmt::format("j < seen && mask[from + j * of_key] ? score[j] : {}", unseen);
    return fmt::format("j < seen ? score[j] + mask[from + j * of_key] : {}", unseen);
  }
  [[nodiscard]] static std::string each_key(std::string_view body) {
    return fmt::format("    for (long j = threadIdx.x; j < keys; j += {}) {{\n{}    }}\n",
                       kCudaBlock, body);
  }

  [[nodiscard]] KernelText parts() const {
    const std::string least = extreme_text(node_.meta.dtype, true);
    return kernel(
        fmt::format("{0}* scores, {0}* logs{1}, long count, long rows, long first, long all, long "
                    "keys{2}",
                    type_, mask_parameter(), mask_numbers()),
        open_rows() + fmt::format("    T best = {}, total = 0;\n", least) +
            each_key(fmt::format("      const T x = {};\n      score[j] = x;\n      best = x > "
                                 "best ? x : best;\n",
                                 score())) +
            joined("best", "a > b ? a : b") +
            fmt::format("    const T shift = best == {} ? (T)0 : best;\n", least) +
            each_key("      const T x = exp_(score[j] - shift);\n      score[j] = x;\n      total "
                     "+= x;\n") +
            joined("total", "a + b") +
            each_key("      score[j] = total == (T)0 ? (T)0 : score[j] / total;\n") +
            fmt::format("    if (threadIdx.x == 0) logs[row] = total == (T)0 ? -({}) : shift + "
                        "log_(total);\n  }}\n",
                        least));
  }

  [[nodiscard]] KernelText slopes() const {
    return kernel(
        fmt::format("{0}* scores, {0}* gradients, const {0}* result, const {0}* given{1}, long "
                    "count, long rows, long first, long all, long keys, long width{2}",
                    type_, mask_parameter(), mask_numbers()),
        open_rows() + R"(    T* const slope = gradients + row * keys;
    const T* const made = result + (head * all + query) * (width + 1);
    const T* const by = given + (head * all + query) * (width + 1);
    T total = 0;
)" +
            fmt::format(
                "    for (long j = threadIdx.x; j < width; j += {}) total += made[j] * by[j];\n",
                kCudaBlock) +
            joined("total", "a + b") +
            "    const T more = by[width] - total, log = made[width];\n" +
            each_key(fmt::format("      const T x = {};\n      const T part = exp_(x - log);\n"
                                 "      score[j] = part;\n"
                                 "      slope[j] = part * (slope[j] + more);\n",
                                 score())) +
            "  }\n");
  }

  const Node& node_;
  std::string_view type_;
  std::size_t head_dims_;
  std::string mask_{};  // type of its elements
  bool seen_ = false;
};

}  // namespace

std::vector<KernelText> attention_kernels(const Graph& graph, NodeId id) {
  return AttentionText(graph, id).all();
}

std::vector<Emission::Scratch> attention_scratch(const Graph& graph, NodeId id) {
  const Node& node = graph.nodes[id];
  const auto sizes = [&](std::size_t k) -> std::span<const Expr> {
    return graph.nodes[node.inputs[k]].meta.sizes;
  };
  const std::size_t leading = sizes(0).size() - 3;
  const Expr width = sizes(0).back(), value_width = sizes(2).back(), keys = sizes(1)[leading];
  const Expr batch = shapes::product(sizes(0).first(leading));
  const Expr rows =
      batch * sizes(0)[leading] * shapes::min(sizes(0)[leading + 1], Expr(kAttentionBlock));
  std::vector<Expr> elements{rows * width, rows * keys};
  if (node.op == Op::Attention)
    elements.insert(elements.end(), {rows * value_width, rows});
  else
    elements.insert(elements.end(), {rows * width, rows * value_width, rows * keys,
                                     batch * keys * width, batch * keys * value_width});
  std::vector<Emission::Scratch> out;
  for (const Expr& count : elements) out.push_back({node.meta.dtype, count});
  return out;
}

}  // namespace lockstep::worker
