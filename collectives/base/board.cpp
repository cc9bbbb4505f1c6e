#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <new>
#include <thread>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/collectives/base/board.h>

namespace lockstep {
namespace detail {

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free, "the board is shared between processes");

/// One rank's slot. The first cache line holds what its main thread writes at every operation.
struct alignas(64) BoardSlot {
  Word begun{0}, operation{0}, ordinal{0}, group_entry{0};
  std::atomic<std::int64_t> progress{0};
  std::atomic<std::uint32_t> waiting{0}, phase{0};
  std::atomic<std::int64_t> lease{0};
  alignas(64) std::atomic<std::int32_t> pid{0};
  std::atomic<std::uint32_t> finished{0}, carried{0};
  std::atomic<std::int64_t> beat{0};
  Word host{0};
  Word version{0};  // of the event: odd while it is being written
  std::array<Word, kEventBytes / 8> event{};
};

struct BoardGroup {
  Word id{0};                                    // group + 1; 0: the entry is free
  std::array<Word, kGroupNameBytes / 8> name{};  // every member writes the same name
};

/// The slots follow in memory, then one counter per group and rank: 0 if the rank is no member,
/// else 1 + the number of operations begun.
struct BoardMemory {
  static constexpr std::uint64_t kMagic = 0x35'44524F'42534B4C;  // "LKSBORD5"
  std::uint64_t magic = kMagic;
  std::uint64_t size = 0;
  std::atomic<std::uint32_t> reporter{0}, reported{0};
  std::array<BoardGroup, kBoardGroups> groups{};

  [[nodiscard]] BoardSlot& slot(std::size_t rank) { return slots()[rank]; }
  [[nodiscard]] Word& begun(std::size_t group, std::size_t rank) {
    return reinterpret_cast<Word*>(slots() + size)[group * size + rank];
  }
  [[nodiscard]] static std::size_t bytes(std::size_t size) {
    return slots_at() + size * sizeof(BoardSlot) + kBoardGroups * size * sizeof(Word);
  }

 private:
  [[nodiscard]] static constexpr std::size_t slots_at() {
    return (sizeof(BoardMemory) + 63) / 64 * 64;
  }
  [[nodiscard]] BoardSlot* slots() {
    return reinterpret_cast<BoardSlot*>(reinterpret_cast<std::byte*>(this) + slots_at());
  }
};

}  // namespace detail

namespace {

using detail::BoardMemory;
using detail::BoardSlot;
using detail::Word;

/// Fresh pages are zero, and zero is the initial value of every slot and counter.
BoardMemory* lay_out(void* pages, int size) {
  auto* memory = new (pages) BoardMemory;
  memory->size = static_cast<std::uint64_t>(size);
  return memory;
}

std::string read_event(const BoardSlot& slot) {
  std::array<std::uint64_t, kEventBytes / 8> words{};
  for (int tries = 0; tries < 100; ++tries) {
    const std::uint64_t before = slot.version.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = slot.event[i].load(std::memory_order_acquire);
    if (before % 2 == 0 && slot.version.load(std::memory_order_relaxed) == before) {
      const auto* text = reinterpret_cast<const char*>(words.data());
      return {text, ::strnlen(text, kEventBytes)};
    }
  }
  return "(being written)";
}

/// Writes the event of a slot. Requires that the slot's version is already `version` + 1. Stores
/// every word with release order, so a reader that sees a new word also sees the odd version.
void write_event(BoardSlot& slot, std::string_view event, std::uint64_t version) {
  std::array<std::uint64_t, kEventBytes / 8> words{};
  std::memcpy(words.data(), event.data(), std::min(event.size(), kEventBytes));
  for (std::size_t i = 0; i < words.size(); ++i)
    slot.event[i].store(words[i], std::memory_order_release);
  slot.version.store(version + 2, std::memory_order_release);
}

std::string read_name(const detail::BoardGroup& group) {
  std::array<std::uint64_t, kGroupNameBytes / 8> words{};
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = group.name[i].load(std::memory_order_relaxed);
  const auto* text = reinterpret_cast<const char*>(words.data());
  return {text, ::strnlen(text, kGroupNameBytes)};
}

RankState read_slot(const BoardMemory& board, std::size_t rank) {
  auto& memory = const_cast<BoardMemory&>(board);
  const BoardSlot& slot = memory.slot(rank);
  RankState state;
  state.pid = slot.pid.load(std::memory_order_acquire);
  state.known = state.pid != 0;
  state.carried = slot.carried.load(std::memory_order_relaxed) != 0;
  state.finished = slot.finished.load(std::memory_order_acquire) != 0;
  state.waiting = slot.waiting.load(std::memory_order_acquire) != 0;
  state.host = slot.host.load(std::memory_order_relaxed);
  state.begun = slot.begun.load(std::memory_order_acquire);
  state.operation = static_cast<OperationKind>(slot.operation.load(std::memory_order_relaxed));
  state.ordinal = slot.ordinal.load(std::memory_order_relaxed);
  const std::uint64_t entry = slot.group_entry.load(std::memory_order_relaxed);
  state.group = entry < kBoardGroups ? memory.groups[entry].id.load(std::memory_order_relaxed) - 1
                                     : ~std::uint64_t{0};
  if (entry < kBoardGroups) state.group_name = read_name(memory.groups[entry]);
  state.phase = static_cast<Phase>(slot.phase.load(std::memory_order_relaxed));
  state.event = read_event(slot);
  state.progress = Instant(slot.progress.load(std::memory_order_relaxed));
  state.lease = Instant(slot.lease.load(std::memory_order_relaxed));
  state.beat = Instant(slot.beat.load(std::memory_order_relaxed));
  return state;
}

}  // namespace

void Seat::register_process(std::int32_t pid, std::uint64_t host, Instant now) {
  slot_->host.store(host, std::memory_order_relaxed);
  slot_->progress.store(now.count(), std::memory_order_relaxed);
  slot_->pid.store(pid, std::memory_order_release);
}

void Seat::resume(OperationKind kind, int group_entry, std::uint64_t ordinal) {
  slot_->operation.store(static_cast<std::uint64_t>(kind), std::memory_order_relaxed);
  slot_->group_entry.store(static_cast<std::uint64_t>(group_entry), std::memory_order_relaxed);
  slot_->ordinal.store(ordinal, std::memory_order_relaxed);
}

void Seat::begin(OperationKind kind, int group_entry, std::uint64_t ordinal, Instant now) {
  const auto entry = static_cast<std::uint64_t>(group_entry);
  resume(kind, group_entry, ordinal);
  slot_->progress.store(now.count(), std::memory_order_relaxed);
  slot_->begun.store(slot_->begun.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  if (entry < kBoardGroups)
    memory_->begun(entry, static_cast<std::size_t>(rank_))
        .store(ordinal + 1, std::memory_order_release);
}

void Seat::note(std::string_view event, Instant now) {
  const std::uint64_t version = slot_->version.load(std::memory_order_relaxed);
  slot_->version.store(version + 1, std::memory_order_relaxed);
  write_event(*slot_, event, version);
  slot_->progress.store(now.count(), std::memory_order_relaxed);
}

void Seat::phase(Phase phase) {
  slot_->phase.store(static_cast<std::uint32_t>(phase), std::memory_order_relaxed);
}
void Seat::renew(Instant until) { slot_->lease.store(until.count(), std::memory_order_relaxed); }
void Seat::beat(Instant now) { slot_->beat.store(now.count(), std::memory_order_relaxed); }
void Seat::wait(bool waiting) { slot_->waiting.store(waiting, std::memory_order_release); }
// Stores the progress first: a reader that sees the end of the wait also sees when it ended.
void Seat::wait_over(Instant now) {
  slot_->progress.store(now.count(), std::memory_order_relaxed);
  wait(false);
}
void Seat::finish() { slot_->finished.store(1, std::memory_order_release); }

std::unique_ptr<Board> Board::in_process(int size) {
  const std::size_t bytes = BoardMemory::bytes(static_cast<std::size_t>(size));
  void* pages = ::operator new (bytes, std::align_val_t{64});
  std::memset(pages, 0, bytes);
  return std::unique_ptr<Board>(new Board(lay_out(pages, size), std::nullopt));
}

Result<std::unique_ptr<Board>> Board::create(int size, std::string& name) {
  const std::size_t bytes = BoardMemory::bytes(static_cast<std::size_t>(size));
  auto shared = SharedMemory::create("board", bytes, bytes);
  if (!shared) return shared.error();
  name = shared->name();
  BoardMemory* memory = lay_out(shared->data(), size);
  return std::unique_ptr<Board>(new Board(memory, *std::move(shared)));
}

Result<std::unique_ptr<Board>> Board::open(const std::string& name, int size) {
  const std::size_t bytes = BoardMemory::bytes(static_cast<std::size_t>(size));
  auto shared = SharedMemory::open(name, bytes);
  if (!shared) return shared.error();
  auto* memory = reinterpret_cast<BoardMemory*>(shared->data());
  if (memory->magic == BoardMemory::kMagic && memory->size == static_cast<std::uint64_t>(size))
    return std::unique_ptr<Board>(new Board(memory, *std::move(shared)));
  return environment_error(
      fmt::format("The shared memory {} is not the progress board of this job.", name));
}

Board::~Board() {
  if (!shared_) ::operator delete (memory_, std::align_val_t{64});
}

void Board::unlink(const std::string& name) { SharedMemory::unlink(name); }

int Board::size() const { return static_cast<int>(memory_->size); }

Seat Board::seat(Rank rank) {
  Seat seat(memory_, rank.value);
  seat.slot_ = &memory_->slot(static_cast<std::size_t>(rank.value));
  return seat;
}

int Board::entry(std::uint64_t group, const RankSet& members, std::string_view name) {
  std::array<std::uint64_t, kGroupNameBytes / 8> words{};
  if (!name.empty()) std::memcpy(words.data(), name.data(), std::min(name.size(), kGroupNameBytes));
  for (std::size_t i = 0; i < kBoardGroups; ++i) {
    std::uint64_t found = 0;
    const bool mine = memory_->groups[i].id.compare_exchange_strong(found, group + 1);
    if (!mine && found != group + 1) continue;
    for (std::size_t w = 0; w < words.size(); ++w)
      memory_->groups[i].name[w].store(words[w], std::memory_order_relaxed);
    for (const Rank rank : members) {
      std::uint64_t absent = 0;
      memory_->begun(i, static_cast<std::size_t>(rank.value)).compare_exchange_strong(absent, 1);
    }
    return static_cast<int>(i);
  }
  return -1;
}

RankState Board::state(Rank rank) const {
  return read_slot(*memory_, static_cast<std::size_t>(rank.value));
}

std::vector<Board::Begun> Board::begun(Rank rank) const {
  std::vector<Begun> out;
  for (std::size_t i = 0; i < kBoardGroups; ++i) {
    const std::uint64_t id = memory_->groups[i].id.load(std::memory_order_acquire);
    if (id == 0) break;
    const std::uint64_t count = memory_->begun(i, static_cast<std::size_t>(rank.value)).load();
    if (count > 0) out.push_back({id - 1, count - 1});
  }
  return out;
}

void Board::carry(Rank rank, const RankState& told, const std::vector<Begun>& begun,
                  std::uint64_t host) {
  BoardSlot& slot = memory_->slot(static_cast<std::size_t>(rank.value));
  Seat seat = this->seat(rank);
  std::uint64_t entry = kBoardGroups;
  // Stores the counts before the slot: a rank shown as waiting has already counted its own
  // operation.
  for (std::size_t i = 0; i < kBoardGroups; ++i) {
    const std::uint64_t id = memory_->groups[i].id.load(std::memory_order_acquire);
    if (id == 0) break;
    if (id == told.group + 1) entry = i;
    for (const Begun& count : begun)
      if (id == count.group + 1)
        memory_->begun(i, static_cast<std::size_t>(rank.value))
            .store(count.operations + 1, std::memory_order_release);
  }
  slot.carried.store(1, std::memory_order_relaxed);
  slot.lease.store(told.lease.count(), std::memory_order_relaxed);
  slot.begun.store(told.begun, std::memory_order_relaxed);
  slot.beat.store(told.beat.count(), std::memory_order_relaxed);
  // If two processes carry at once (one was paused), only one of them writes the event.
  if (std::uint64_t version = slot.version.load();
      version % 2 == 0 && told.event != read_event(slot) &&
      slot.version.compare_exchange_strong(version, version + 1))
    write_event(slot, told.event, version);
  slot.progress.store(told.progress.count(), std::memory_order_relaxed);
  seat.resume(told.operation, static_cast<int>(entry), told.ordinal);
  seat.phase(told.phase);
  seat.wait(told.waiting);
  if (told.finished) seat.finish();
  slot.host.store(host, std::memory_order_relaxed);
  slot.pid.store(told.pid, std::memory_order_release);
}

bool Board::finished(Rank rank) const {
  return memory_->slot(static_cast<std::size_t>(rank.value)).finished.load() != 0;
}

Board::Process Board::process(Rank rank) const {
  const BoardSlot& slot = memory_->slot(static_cast<std::size_t>(rank.value));
  const std::int32_t pid = slot.pid.load(std::memory_order_acquire);
  return {pid, slot.host.load(std::memory_order_relaxed)};
}

BoardSnapshot Board::snapshot() const {
  BoardSnapshot out;
  const auto size = static_cast<std::size_t>(memory_->size);
  // Reads the slots before the counters: a rank shown as waiting has already counted its own
  // operation.
  for (std::size_t r = 0; r < size; ++r) out.ranks.push_back(read_slot(*memory_, r));
  for (std::size_t i = 0; i < kBoardGroups; ++i) {
    const std::uint64_t id = memory_->groups[i].id.load(std::memory_order_acquire);
    if (id == 0) break;
    GroupState group;
    group.id = id - 1;
    group.begun.resize(size);
    for (std::size_t r = 0; r < size; ++r) {
      const std::uint64_t count = memory_->begun(i, r).load(std::memory_order_acquire);
      if (count == 0) continue;
      group.members.insert(Rank{static_cast<std::int32_t>(r)});
      group.begun[r] = count - 1;
    }
    out.groups.push_back(std::move(group));
  }
  return out;
}

std::optional<int> Board::claim_report(int exit_code) {
  std::uint32_t earlier = 0;
  if (memory_->reporter.compare_exchange_strong(earlier, static_cast<std::uint32_t>(exit_code) + 1))
    return std::nullopt;
  return static_cast<int>(earlier) - 1;
}

void Board::end_report() { memory_->reported.store(1, std::memory_order_release); }

void Board::await_report() const {
  const SystemClock clock;
  const Instant until = clock.now() + std::chrono::seconds(3);
  while (memory_->reported.load(std::memory_order_acquire) == 0 && clock.now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

std::uint64_t host_id() {
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  struct stat found {};
  if (::stat("/dev/shm", &found) == 0) text += fmt::format(" shm {}", found.st_dev);
  if (::stat("/proc/self/ns/pid", &found) == 0) text += fmt::format(" pid {}", found.st_ino);
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace lockstep
