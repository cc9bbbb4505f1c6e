#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <lockstep/collectives/base/board.h>
#include <lockstep/collectives/lines/posts_memory.h>

namespace lockstep::lines {
namespace {

Status failed(std::string_view what, int error) {
  return environment_error(
      fmt::format("Cannot {} the memory in which this process posts its operations: {}. Free "
                  "memory, or raise the limits of this process (ulimit -f, ulimit -v).",
                  what, std::strerror(error)));
}

Status unseen(std::string_view place) {
  return environment_error(fmt::format("The posts at {} cannot be read from here.", place));
}

struct Place {
  std::uint64_t host = 0, nonce = 0;
  int pid = 0, file = 0;
};

std::optional<Place> read_place(std::string_view text) {
  Place place;
  unsigned long long host = 0, nonce = 0;
  int end = 0;
  const std::string copy(text);
  if (std::sscanf(copy.c_str(), "%llx-%llx-%d-%d%n", &host, &nonce, &place.pid, &place.file,
                  &end) != 4 ||
      static_cast<std::size_t>(end) != copy.size())
    return std::nullopt;
  place.host = host;
  place.nonce = nonce;
  return place;
}

}  // namespace

std::optional<RankWaits::Wait> read_wait(const WaitSlot& slot) {
  const std::uint64_t before = slot.change.load(std::memory_order_acquire);
  const RankWaits::Wait wait{{LineKey{slot.high.load(), slot.low.load()}, slot.number.load()},
                             {},
                             Instant(slot.since.load())};
  const bool waits = slot.waits.load() == 1;
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!waits || before % 2 == 1 || slot.change.load() != before) return std::nullopt;
  return wait;
}

// One thread at a time writes the waits of a mirror.
void write_waits(PostsHeader& header, std::span<const RankWaits::Wait> waits) {
  for (std::size_t i = 0; i < kWaitSlots; ++i) {
    WaitSlot& slot = header.waits[i];
    const bool is_there = i < waits.size();
    if (!is_there && slot.waits.load() == 0) continue;
    slot.change.fetch_add(1, std::memory_order_acq_rel);
    if (is_there) {
      slot.high.store(waits[i].in.key.high);
      slot.low.store(waits[i].in.key.low);
      slot.number.store(waits[i].in.number);
      slot.since.store(waits[i].since.count());
    }
    slot.waits.store(is_there ? 1 : 0);
    slot.change.fetch_add(1, std::memory_order_acq_rel);
  }
}

Window::~Window() {
  if (pages_ != nullptr) ::munmap(pages_, kWindow);
}

Window::Window(Window&& other) noexcept
    : pages_(std::exchange(other.pages_, nullptr)), index_(other.index_) {}

std::byte* Window::at(int file, std::uint64_t ring, std::uint64_t at, bool writes) {
  const std::uint64_t begin = ring + at % kRing, index = begin / kWindow;
  if (pages_ == nullptr || index != index_) {
    if (pages_ != nullptr) ::munmap(pages_, kWindow);
    void* pages = ::mmap(nullptr, kWindow, writes ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED,
                         file, static_cast<off_t>(index * kWindow));
    pages_ = pages == MAP_FAILED ? nullptr : static_cast<std::byte*>(pages);
    if (pages_ == nullptr) return nullptr;
    index_ = index;
    ::madvise(pages_, kWindow, MADV_DONTFORK);
  }
  return pages_ + begin % kWindow;
}

Result<PostsMemory> PostsMemory::create() {
  PostsMemory made(::memfd_create("lockstep-posts", MFD_CLOEXEC), -1);
  if (made.file_ < 0) return failed("make", errno);
  if (::ftruncate(made.file_, static_cast<off_t>(kFileBytes)) != 0) return failed("make", errno);
  if (!made.reserve(0, sizeof(PostsHeader)) || !made.reserve(kTexts, kTextStep))
    return failed("make", ENOMEM);
  if (auto mapped = made.map(); !mapped) return mapped.error();
  std::random_device random;
  made.header().nonce = std::uint64_t{random()} << 32 | random();
  made.header().texts_end.store(1);  // 0 is no text
  made.header().magic = kPostsMagic;
  return made;
}

Result<PostsMemory> PostsMemory::open(std::string_view text, bool whose_end_is_seen) {
  const auto place = read_place(text);
  if (!place || place->host != host_id()) return unseen(text);
  const int process =
      whose_end_is_seen ? static_cast<int>(::syscall(SYS_pidfd_open, place->pid, 0)) : -1;
  const std::string path = fmt::format("/proc/{}/fd/{}", place->pid, place->file);
  PostsMemory found(::open(path.c_str(), O_RDWR | O_CLOEXEC), process);
  if (found.file_ < 0) return unseen(text);
  struct stat about {};
  if (::fstat(found.file_, &about) != 0 || static_cast<std::uint64_t>(about.st_size) != kFileBytes)
    return unseen(text);
  if (!found.map()) return unseen(text);
  if (found.header().magic != kPostsMagic || found.header().nonce != place->nonce)
    return unseen(text);
  return found;
}

Result<void> PostsMemory::map() {
  void* pages = ::mmap(nullptr, kFixed, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (pages == MAP_FAILED) return failed("map", errno);
  fixed_ = static_cast<std::byte*>(pages);
  return {};
}

PostsMemory::~PostsMemory() {
  if (fixed_ != nullptr) ::munmap(fixed_, kFixed);
  if (file_ >= 0) ::close(file_);
  if (process_ >= 0) ::close(process_);
}

PostsMemory::PostsMemory(PostsMemory&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      process_(std::exchange(other.process_, -1)),
      fixed_(std::exchange(other.fixed_, nullptr)) {}

std::string PostsMemory::place() const {
  return fmt::format("{:x}-{:x}-{}-{}", host_id(), header().nonce, ::getpid(), file_);
}

WaitMoment::Counts PostsMemory::counts_of(std::uint32_t line) const {
  const LineSlot& slot = header().table[line];
  const std::uint64_t handed = slot.handed.load(std::memory_order_acquire);
  return {slot.count.load(std::memory_order_acquire), handed};
}

std::optional<Entry> PostsMemory::entry(std::uint32_t line, std::uint64_t number, Window& entries,
                                        Window& values) const {
  Entry out;
  const std::byte* from = entries.at(file_, entries_of(line), number * sizeof(Posted), false);
  if (from == nullptr) return std::nullopt;
  std::memcpy(&out.posted, from, sizeof(Posted));
  if (out.posted.equal == 0) return std::nullopt;  // freed
  const std::size_t count = std::size_t{out.posted.to} + out.posted.from;
  if (count == 0) return out;
  if (count * 8 > kWindow) return std::nullopt;
  from = values.at(file_, values_of(line), out.posted.values * 8, false);
  if (from == nullptr) return std::nullopt;
  out.values.resize(count);
  std::memcpy(out.values.data(), from, count * 8);
  return out;
}

std::string PostsMemory::text(TextId id) const {
  const std::uint32_t end = header().texts_end.load(std::memory_order_acquire);
  if (id == 0 || id >= end || end > kFixed - kTexts) return {};
  return std::string(texts() + id, ::strnlen(texts() + id, end - id));
}

// Without this call a page of a file in memory is allocated when it is first touched; if no memory
// is left then, the process gets a bus error.
bool PostsMemory::reserve(std::uint64_t at, std::uint64_t bytes) const {
  return ::posix_fallocate(file_, static_cast<off_t>(at), static_cast<off_t>(bytes)) == 0;
}

void PostsMemory::give_back(std::uint64_t at, std::uint64_t bytes) const {
  ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
              static_cast<off_t>(bytes));
}

std::uint64_t PostsMemory::held_bytes() const {
  struct stat about {};
  return ::fstat(file_, &about) == 0 ? static_cast<std::uint64_t>(about.st_blocks) * 512 : 0;
}

bool PostsMemory::has_ended() const {
  if (process_ < 0) return false;
  pollfd polled{process_, POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

}  // namespace lockstep::lines
