#include <algorithm>
#include <tuple>
#include <vector>

#include <lockstep/worker/compile/codegen/cuda_nest.h>
#include <lockstep/worker/compile/codegen/emit_attention.h>
#include <lockstep/worker/compile/execution/device_attention.h>

namespace lockstep::worker {
namespace {

using I = std::int64_t;
using Numbers = std::vector<I>;

/// Blocks of threads of a kernel. More would only wait for others.
constexpr I kMostBlocks = I{1} << 16;

class DeviceAttention {
 public:
  DeviceAttention(Device& device, const DeviceKernels& kernels, const Step& step,
                  const AttentionSizes& sizes, std::span<const DeviceAddress> at)
      : device_(device), kernels_(kernels), step_(step), sizes_(sizes) {
    const std::size_t operands = sizes.gradient ? 5 : 3;
    const bool masked = sizes.mask != AttentionSizes::Mask::None;
    operands_ = at.first(operands);
    if (masked) mask_.push_back(at[operands]);
    out_ = at[operands + mask_.size()];
    scratch_ = at.subspan(operands + mask_.size() + 1);
    if (masked) mask_numbers_ = {sizes.mask_query, sizes.mask_key};
    for (std::size_t d = sizes.head_sizes.size(); masked && d-- > 0;)
      mask_numbers_.insert(mask_numbers_.end(), {sizes.head_sizes[d], sizes.mask_heads[d]});
  }

  void forward() {
    const auto [queries, scores, sums, logs] =
        std::tie(scratch_[0], scratch_[1], scratch_[2], scratch_[3]);
    for (I first = 0; first < sizes_.queries; first += kAttentionBlock) {
      const Block block = block_at(first);
      take(block, operands_[0], queries, sizes_.width, sizes_.width);
      multiply(queries, operands_[1], scores, {.transpose_b = true}, block.each, sizes_.width,
               sizes_.keys);
      std::vector<DeviceAddress> buffers{scores, logs};
      add(buffers, mask_);
      launch(AttentionKernel::Parts, block.rows, buffers, block.rows,
             with_mask(block, {sizes_.keys}));
      multiply(scores, operands_[2], sums, {}, block.each, sizes_.keys, sizes_.value_width);
      put(block, {sums, logs, out_}, sizes_.value_width, sizes_.value_width + 1);
    }
  }

  void backward() {
    const auto parts = sizes_.parts();
    const DeviceAddress keys = element(parts[0]), values = element(parts[0] + parts[1]);
    if (sizes_.queries == 0 && done_ && parts[1] + parts[2] > 0)
      done_ = device_.zero(keys, bytes(parts[1] + parts[2]));
    for (I first = 0; first < sizes_.queries; first += kAttentionBlock)
      backward(block_at(first), first == 0, keys, values);
  }

  [[nodiscard]] Result<void> done() const { return done_; }

 private:
  /// Some queries of all heads.
  struct Block {
    I first = 0, count = 0;
    I each = 0;  // rows for each head of keys
    I rows = 0;  // of all heads
  };
  [[nodiscard]] Block block_at(I first) const {
    const I count = std::min(kAttentionBlock, sizes_.queries - first);
    return {first, count, sizes_.groups * count, sizes_.heads() * count};
  }

  void backward(const Block& block, bool is_first, DeviceAddress of_keys, DeviceAddress of_values) {
    const DeviceAddress queries = scratch_[0], scores = scratch_[1], sums = scratch_[2],
                        given = scratch_[3], slopes = scratch_[4];
    const I width = sizes_.width, value_width = sizes_.value_width, keys = sizes_.keys;
    take(block, operands_[0], queries, width, width);
    take(block, operands_[4], given, value_width, value_width + 1);
    multiply(queries, operands_[1], scores, {.transpose_b = true}, block.each, width, keys);
    multiply(given, operands_[2], slopes, {.transpose_b = true}, block.each, value_width, keys);
    std::vector<DeviceAddress> buffers{scores, slopes, operands_[3], operands_[4]};
    add(buffers, mask_);
    launch(AttentionKernel::Parts, block.rows, buffers, block.rows,
           with_mask(block, {keys, value_width}));
    multiply(slopes, operands_[1], sums, {}, block.each, keys, width);
    put(block, {sums, out_}, width, width);
    const auto join = [&](DeviceAddress a, DeviceAddress b, DeviceAddress to, DeviceAddress more,
                          I columns) {
      multiply(a, b, is_first ? to : more, {.transpose_a = true}, keys, block.each, columns);
      const I count = sizes_.batch * keys * columns;
      if (!is_first) launch(AttentionKernel::Add, threads(count), {to, more}, count, {});
    };
    join(slopes, queries, of_keys, scratch_[5], width);
    join(scores, given, of_values, scratch_[6], value_width);
  }

  [[nodiscard]] std::size_t bytes(I elements) const {
    return static_cast<std::size_t>(elements) * dtype_size(sizes_.dtype);
  }
  [[nodiscard]] DeviceAddress element(I at) const { return moved(out_, bytes(at)); }
  /// Blocks of threads for so many elements.
  [[nodiscard]] static I threads(I elements) { return (elements + kCudaBlock - 1) / kCudaBlock; }
  template <class T>
  static void add(std::vector<T>& to, const std::vector<T>& more) {
    to.insert(to.end(), more.begin(), more.end());
  }
  [[nodiscard]] Numbers with_mask(const Block& block, const Numbers& more) const {
    Numbers out{block.count, block.first, sizes_.queries};
    add(out, more);
    add(out, mask_numbers_);
    return out;
  }

  /// Starts a kernel, unless it has nothing to do: `count` is its first number.
  void launch(AttentionKernel kernel, I blocks, std::vector<DeviceAddress> buffers, I count,
              const Numbers& more) {
    if (!done_ || count == 0) return;
    Numbers numbers{count};
    add(numbers, more);
    done_ = kernels_.start(step_.kernels[static_cast<std::size_t>(kernel)],
                           std::min(blocks, kMostBlocks), buffers, numbers);
  }
  void take(const Block& block, DeviceAddress from, DeviceAddress to, I width, I stride) {
    const I count = block.rows * width;
    launch(AttentionKernel::Take, threads(count), {from, to}, count,
           {block.count, block.first, sizes_.queries, width, stride});
  }
  void put(const Block& block, std::vector<DeviceAddress> buffers, I width, I stride) {
    const I count = block.rows * stride;
    launch(AttentionKernel::Put, threads(count), std::move(buffers), count,
           {block.count, block.first, sizes_.queries, width});
  }
  /// For each head of keys: out [m, n] = a [m, k] b [k, n].
  void multiply(DeviceAddress a, DeviceAddress b, DeviceAddress out, Product how, I m, I k, I n) {
    if (!done_) return;
    how.dtype = sizes_.dtype;
    how.a = a, how.b = b, how.out = out;
    how.batch = sizes_.batch, how.m = m, how.k = k, how.n = n;
    done_ = device_.multiply(how);
  }

  Device& device_;
  const DeviceKernels& kernels_;
  const Step& step_;
  const AttentionSizes& sizes_;
  std::span<const DeviceAddress> operands_, scratch_;
  std::vector<DeviceAddress> mask_;  // one, or none
  Numbers mask_numbers_;
  DeviceAddress out_{};
  Result<void> done_{};
};

}  // namespace

Result<void> attend(Device& device, const DeviceKernels& kernels, const Step& step,
                    const AttentionSizes& sizes, std::span<const DeviceAddress> at) {
  DeviceAttention attention(device, kernels, step, sizes, at);
  if (sizes.gradient)
    attention.backward();
  else
    attention.forward();
  return attention.done();
}

}  // namespace lockstep::worker
