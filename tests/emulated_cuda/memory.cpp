#include "memory.h"

#include <algorithm>
#include <cstring>

namespace lockstep::emulated_cuda {
namespace {

constexpr std::size_t kZone = 256;
constexpr int kUnwritten = 0xff, kBeside = 0xa5;

std::byte* pointer(std::uint64_t at) { return reinterpret_cast<std::byte*>(at); }

bool untouched(const std::byte* zone) {
  return std::all_of(zone, zone + kZone, [](std::byte b) { return b == std::byte{kBeside}; });
}

}  // namespace

void Memory::set_capacity(std::size_t capacity) {
  const std::lock_guard lock(mutex_);
  capacity_ = capacity;
}

std::optional<std::uint64_t> Memory::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (live_ + bytes > capacity_) return std::nullopt;
  auto all = std::make_unique<std::byte[]>(bytes + 3 * kZone);
  const auto start = reinterpret_cast<std::uint64_t>(all.get());
  const std::uint64_t at = (start + kZone - 1) / kZone * kZone + kZone;
  std::memset(pointer(at) - kZone, kBeside, kZone);
  std::memset(pointer(at), kUnwritten, bytes);
  std::memset(pointer(at) + bytes, kBeside, kZone);
  blocks_.emplace(at, Block{std::move(all), bytes});
  live_ += bytes;
  freed_ -= std::min(freed_, bytes);
  return at;
}

bool Memory::give_back(std::uint64_t block) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(block);
  if (found == blocks_.end()) return false;
  const std::size_t bytes = found->second.bytes;
  const bool sound = untouched(pointer(block) - kZone) && untouched(pointer(block) + bytes);
  live_ -= bytes;
  freed_ += bytes;
  blocks_.erase(found);
  return sound;
}

bool Memory::within(std::uint64_t at, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  auto after = blocks_.upper_bound(at);
  if (after == blocks_.begin()) return false;
  const auto& [start, block] = *--after;
  return at - start <= block.bytes && bytes <= block.bytes - (at - start);
}

void Memory::keep(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  keep_ = bytes;
}

void Memory::release() {
  const std::lock_guard lock(mutex_);
  if (freed_ > keep_) freed_ = 0;
}

std::size_t Memory::kept() const {
  const std::lock_guard lock(mutex_);
  return freed_;
}

std::size_t Memory::live() const {
  const std::lock_guard lock(mutex_);
  return live_;
}

}  // namespace lockstep::emulated_cuda
