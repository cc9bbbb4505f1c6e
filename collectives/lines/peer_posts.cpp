#include <algorithm>

#include <lockstep/collectives/lines/peer_posts.h>

namespace lockstep::lines {

PeerPosts::Line* PeerPosts::find(LineKey key) {
  auto found = lines_.find(key);
  if (found != lines_.end()) return &found->second;
  const PostsHeader& header = memory_.header();
  const std::uint32_t opened = std::min(header.lines.load(std::memory_order_acquire), kTableLines);
  for (; looked_at_ < opened; ++looked_at_) {
    const LineSlot& slot = header.table[looked_at_];
    lines_[LineKey{slot.high, slot.low}].number = looked_at_;
  }
  found = lines_.find(key);
  return found == lines_.end() ? nullptr : &found->second;
}

WaitMoment::Counts PeerPosts::counts_of(LineKey key) {
  const std::lock_guard lock(reading_);
  const Line* line = find(key);
  return line == nullptr ? WaitMoment::Counts{} : memory_.counts_of(line->number);
}

std::optional<std::uint32_t> PeerPosts::line(LineKey key) {
  const std::lock_guard lock(reading_);
  const Line* found = find(key);
  return found == nullptr ? std::nullopt : std::optional(found->number);
}

std::optional<Entry> PeerPosts::entry(LineKey key, std::uint64_t number) {
  const std::lock_guard lock(reading_);
  Line* line = find(key);
  if (line == nullptr) return std::nullopt;
  return memory_.entry(line->number, number, line->entries, line->values);
}

}  // namespace lockstep::lines
