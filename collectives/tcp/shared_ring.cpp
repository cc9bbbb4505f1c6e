#include <cstring>
#include <utility>

#include <lockstep/collectives/tcp/shared_ring.h>

namespace lockstep::collectives {
namespace {

constexpr std::size_t kLength = sizeof(std::uint64_t);
/// Stands in place of a length: the rest of the ring up to its end is unused.
constexpr std::uint64_t kGap = ~std::uint64_t{0};

std::size_t place_of(std::uint64_t position) { return position % SharedRing::kBytes; }
std::size_t whole(std::size_t bytes) { return (kLength + bytes + 7) / 8 * 8; }

}  // namespace

bool RingWriter::write(std::span<const std::byte> head, std::span<const std::byte> body) {
  const std::uint64_t length = head.size() + body.size();
  const std::size_t needed = whole(length), to_end = SharedRing::kBytes - place_of(written_);
  const std::size_t gap = needed > to_end ? to_end : 0;
  const auto room = [&] { return written_ + gap + needed - read_ <= SharedRing::kBytes; };
  if (!room()) read_ = ring_->read.load(std::memory_order_acquire);
  if (!room()) return false;
  if (gap > 0) std::memcpy(ring_->bytes.data() + place_of(written_), &kGap, kLength);
  std::byte* at = ring_->bytes.data() + place_of(written_ + gap);
  std::memcpy(at, &length, kLength);
  if (!head.empty()) std::memcpy(at + kLength, head.data(), head.size());
  if (!body.empty()) std::memcpy(at + kLength + head.size(), body.data(), body.size());
  written_ += gap + needed;
  // Stores sequentially consistently, because of readers that go to sleep: see HostRings::sleeps().
  ring_->written.store(written_);
  return true;
}

bool RingReader::empty() const { return ring_->written.load() == read_; }

Result<std::span<const std::byte>> RingReader::next() {
  const auto wrong = [] { return internal_error("no message"); };
  const std::uint64_t written = ring_->written.load(std::memory_order_acquire);
  if (written == read_) return std::span<const std::byte>();
  if (written - read_ > SharedRing::kBytes || written % 8 != 0) return wrong();
  std::uint64_t at = read_, length = 0;
  std::memcpy(&length, ring_->bytes.data() + place_of(at), kLength);
  if (length == kGap) {
    at += SharedRing::kBytes - place_of(at);
    if (at >= written) return wrong();
    std::memcpy(&length, ring_->bytes.data(), kLength);
  }
  if (length > SharedRing::kMostBytes || whole(length) > written - at ||
      whole(length) > SharedRing::kBytes - place_of(at))
    return wrong();
  next_ = at + whole(length);
  return std::span(std::as_const(ring_->bytes)).subspan(place_of(at) + kLength, length);
}

void RingReader::took() {
  read_ = next_;
  ring_->read.store(read_, std::memory_order_release);
}

}  // namespace lockstep::collectives
