#include <array>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/tcp/host_rings.h>

namespace lockstep::collectives {
namespace {

constexpr std::uint64_t kMagic = 0x31'474E4952'534B4C;  // "LKSRING1"
constexpr std::size_t kPage = 4096;

/// Header of each piece.
struct PieceHead {
  std::uint64_t group = 0, total = 0, kind = 0;
};

std::size_t pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

/// Layout of the segment: the magic number; a flag per rank (it sleeps); a flag per pair (it has a
/// ring); the rings, whose pages are allocated when a ring is made.
struct HostRings::Layout {
  struct alignas(64) Rank {
    std::atomic<std::uint32_t> sleeps{0};
  };
  using Flag = std::atomic<std::uint8_t>;
  static_assert(Flag::is_always_lock_free);

  std::byte* base;
  std::size_t ranks;

  [[nodiscard]] std::uint64_t* magic() const { return reinterpret_cast<std::uint64_t*>(base); }
  [[nodiscard]] Rank& rank(int r) const {
    return reinterpret_cast<Rank*>(base + sizeof(Rank))[static_cast<std::size_t>(r)];
  }
  [[nodiscard]] Flag& opened(int reader, int writer) const {
    return reinterpret_cast<Flag*>(base + (1 + ranks) * sizeof(Rank))[pair(reader, writer)];
  }
  [[nodiscard]] std::size_t ring_at(int reader, int writer) const {
    return head_bytes() + pair(reader, writer) * pages(sizeof(SharedRing));
  }
  [[nodiscard]] SharedRing& ring(int reader, int writer) const {
    return *reinterpret_cast<SharedRing*>(base + ring_at(reader, writer));
  }
  [[nodiscard]] std::size_t pair(int reader, int writer) const {
    return static_cast<std::size_t>(reader) * ranks + static_cast<std::size_t>(writer);
  }
  [[nodiscard]] std::size_t head_bytes() const {
    return pages((1 + ranks) * sizeof(Rank) + ranks * ranks * sizeof(Flag));
  }
  [[nodiscard]] std::size_t bytes() const {
    return head_bytes() + ranks * ranks * pages(sizeof(SharedRing));
  }
};

HostRings::HostRings(SharedMemory memory, int ranks, int self)
    : memory_(std::move(memory)),
      ranks_(ranks),
      self_(self),
      lines_(static_cast<std::size_t>(ranks)),
      sources_(static_cast<std::size_t>(ranks)) {}

HostRings::Layout HostRings::layout() const {
  return {memory_.data(), static_cast<std::size_t>(ranks_)};
}

Result<std::unique_ptr<HostRings>> HostRings::create(int ranks, int self, std::string& name) {
  const Layout shape{nullptr, static_cast<std::size_t>(ranks)};
  auto memory = SharedMemory::create("rings", shape.bytes(), shape.head_bytes());
  if (!memory) return memory.error();
  name = memory->name();
  std::unique_ptr<HostRings> made(new HostRings(*std::move(memory), ranks, self));
  *made->layout().magic() = kMagic;
  return made;
}

Result<std::unique_ptr<HostRings>> HostRings::open(const std::string& name, int ranks, int self) {
  const Layout shape{nullptr, static_cast<std::size_t>(ranks)};
  auto memory = SharedMemory::open(name, shape.bytes());
  if (!memory) return memory.error();
  std::unique_ptr<HostRings> found(new HostRings(*std::move(memory), ranks, self));
  if (*found->layout().magic() == kMagic) return found;
  return environment_error(fmt::format("The shared memory {} is not of this job.", name));
}

bool HostRings::reaches(int reader) {
  Line& line = lines_[static_cast<std::size_t>(reader)];
  if (line.state != Line::State::Unknown) return line.state == Line::State::Open;
  const Layout at = layout();
  if (!memory_.reserve(at.ring_at(reader, self_), sizeof(SharedRing))) {
    line.state = Line::State::None;
    return false;
  }
  line.state = Line::State::Open;
  line.ring = RingWriter(at.ring(reader, self_));
  at.opened(reader, self_).store(1);
  return true;
}

bool HostRings::send(int reader, std::uint64_t group, Part::Kind kind, std::uint64_t total,
                     std::span<const std::byte> piece) {
  Line& line = lines_[static_cast<std::size_t>(reader)];
  do {
    const auto bytes =
        piece.first(std::min(piece.size(), SharedRing::kMostBytes - sizeof(PieceHead)));
    piece = piece.subspan(bytes.size());
    const PieceHead head{group, total, static_cast<std::uint64_t>(kind)};
    const auto first = std::as_bytes(std::span(&head, 1));
    if (line.waiting.empty() && line.ring.write(first, bytes)) continue;
    Bytes whole(first.begin(), first.end());
    whole.insert(whole.end(), bytes.begin(), bytes.end());
    line.bytes += whole.size();
    if (line.waiting.empty()) ++full_;
    line.waiting.push_back(std::move(whole));
  } while (!piece.empty());
  auto& sleeps = layout().rank(reader).sleeps;
  return sleeps.load() != 0 && sleeps.exchange(0) != 0;
}

std::size_t HostRings::waiting(int reader) const {
  return lines_[static_cast<std::size_t>(reader)].bytes;
}

void HostRings::flush(const std::function<void(int reader)>& wake) {
  if (full_ == 0) return;
  for (int reader = 0; reader < ranks_; ++reader) {
    Line& line = lines_[static_cast<std::size_t>(reader)];
    if (line.waiting.empty()) continue;
    bool wrote = false;
    while (!line.waiting.empty() && line.ring.write(line.waiting.front(), {})) {
      line.bytes -= line.waiting.front().size();
      line.waiting.pop_front();
      wrote = true;
    }
    if (line.waiting.empty()) --full_;
    if (wrote && layout().rank(reader).sleeps.exchange(0) != 0) wake(reader);
  }
}

/// The ring that `writer` has made, or null.
RingReader* HostRings::source(int writer) {
  Source& found = sources_[static_cast<std::size_t>(writer)];
  if (!found.open && layout().opened(self_, writer).load() != 0) {
    found.open = true;
    found.ring = RingReader(layout().ring(self_, writer));
  }
  return found.open ? &found.ring : nullptr;
}

bool HostRings::written(int writer) {
  const RingReader* ring = source(writer);
  return ring != nullptr && !ring->empty();
}

bool HostRings::receive(int writer, const Sink& sink) {
  RingReader* ring = source(writer);
  while (ring != nullptr) {
    const auto next = ring->next();
    if (!next) return false;
    if (next->data() == nullptr) break;
    PieceHead head;
    if (next->size() < sizeof head) return false;
    std::memcpy(&head, next->data(), sizeof head);
    if (head.kind > static_cast<std::uint64_t>(Part::Kind::Farewell)) return false;
    const auto bytes = next->subspan(sizeof head);
    Part part{head.group, static_cast<Part::Kind>(head.kind), head.total, 0,
              0,          Bytes(bytes.begin(), bytes.end())};
    ring->took();
    sink(std::move(part));
  }
  return true;
}

// A writer first writes, then reads whether the reader sleeps. The reader first sets this flag,
// then looks at the rings. All four accesses are sequentially consistent, so the writer sees the
// flag or the reader sees the message.
bool HostRings::sleeps() {
  layout().rank(self_).sleeps.store(1);
  for (int writer = 0; writer < ranks_; ++writer) {
    if (!written(writer)) continue;
    wakes();
    return false;
  }
  return true;
}

void HostRings::wakes() { layout().rank(self_).sleeps.store(0, std::memory_order_relaxed); }

}  // namespace lockstep::collectives
