#include <algorithm>

#include <lockstep/worker/compile/device/device_pool.h>

namespace lockstep::worker {

Result<std::optional<DeviceAddress>> DevicePool::take(std::size_t bytes) {
  bytes = (bytes + kGrain - 1) / kGrain * kGrain;
  const auto fit = free_.lower_bound({bytes, DeviceAddress{}});
  if (fit != free_.end() && fit->first - bytes <= fit->first / 5) {
    const auto [size, address] = *fit;
    free_.erase(fit);
    kept_ -= size;
    used_ += size;
    return std::optional(address);
  }
  auto made = device_->allocate(bytes);
  if (made && !*made && !free_.empty()) {
    for (const auto& [size, address] : free_) blocks_.erase(address);
    free_.clear();
    kept_ = 0;
    made = device_->allocate(bytes);
  }
  if (!made || !*made) return made;
  blocks_.emplace(**made, Block{std::make_unique<DeviceBlock>(device_, **made), bytes});
  used_ += bytes;
  peak_ = std::max(peak_, used_ + kept_);
  return made;
}

void DevicePool::give_back(DeviceAddress block) {
  const std::size_t bytes = blocks_.at(block).bytes;
  free_.emplace(bytes, block);
  used_ -= bytes;
  kept_ += bytes;
}

std::shared_ptr<const DeviceBlock> DevicePool::release_to_caller(DeviceAddress block) {
  auto found = blocks_.extract(block);
  used_ -= found.mapped().bytes;
  return std::move(found.mapped().memory);
}

}  // namespace lockstep::worker
