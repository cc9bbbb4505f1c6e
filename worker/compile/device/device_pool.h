// Memory of one run on a device. Blocks are handed out, returned and reused at once, which is safe
// because work on a device runs in order. When the run ends, the remaining blocks go back to the
// device.
#pragma once

#include <map>
#include <memory>
#include <set>

#include <lockstep/worker/compile/device/device.h>
#include <lockstep/worker/tensor/graph/array.h>

namespace lockstep::worker {

/// Owns memory of a device, and keeps the device open.
class DeviceBlock final : public DeviceMemory {
 public:
  DeviceBlock(std::shared_ptr<Device> device, DeviceAddress address)
      : device_(std::move(device)), address_(address) {}
  /// Refers to memory that another owner frees.
  [[nodiscard]] static std::shared_ptr<const DeviceBlock> borrowed(std::shared_ptr<Device> device,
                                                                   DeviceAddress address) {
    auto block = std::make_shared<DeviceBlock>(std::move(device), address);
    block->owned_ = false;
    return block;
  }
  /// Ignores an error of free(): the device has failed before, and the next wait for the device
  /// returns that failure.
  ~DeviceBlock() override {
    if (owned_) (void)device_->free(address_);
  }
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;
  [[nodiscard]] DeviceAddress address() const { return address_; }
  [[nodiscard]] bool is_on(const Device& device) const { return device_.get() == &device; }
  [[nodiscard]] Result<void> fetch(void* to, std::size_t bytes) const override {
    return device_->download(to, address_, bytes);
  }

 private:
  std::shared_ptr<Device> device_;
  DeviceAddress address_;
  bool owned_ = true;
};

/// Blocks are multiples of kGrain bytes. A block is reused for requests of its size, or of up to a
/// fifth less. take() chooses the smallest block that fits, among equals the one at the lowest
/// address. Blocks are neither split nor joined. If none fits, the pool asks the device. If the
/// device has nothing left, the pool frees all unused blocks and asks again. Single-threaded.
class DevicePool {
 public:
  static constexpr std::size_t kGrain = 512;

  explicit DevicePool(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  /// Returns nullopt if there is not enough memory. Errors: the device's. Requires bytes > 0.
  [[nodiscard]] Result<std::optional<DeviceAddress>> take(std::size_t bytes);
  /// Requires that the block is in use.
  void give_back(DeviceAddress block);
  /// Hands the block over to the caller.
  [[nodiscard]] std::shared_ptr<const DeviceBlock> release_to_caller(DeviceAddress block);
  /// Bytes of the blocks in use, of unused blocks, and the largest sum of both.
  [[nodiscard]] std::size_t used() const { return used_; }
  [[nodiscard]] std::size_t kept() const { return kept_; }
  [[nodiscard]] std::size_t peak() const { return peak_; }

 private:
  struct Block {
    std::unique_ptr<DeviceBlock> memory;
    std::size_t bytes = 0;
  };
  std::shared_ptr<Device> device_;
  std::map<DeviceAddress, Block> blocks_;
  std::set<std::pair<std::size_t, DeviceAddress>> free_;
  std::size_t used_ = 0, kept_ = 0, peak_ = 0;
};

}  // namespace lockstep::worker
