#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>
#include <unordered_map>

#include <fmt/format.h>

#include <lockstep/collectives/lines/posts_memory.h>
#include <lockstep/collectives/lines/shared_posts.h>

namespace lockstep::lines {
namespace {

static_assert(kMostLines == kTableLines && kMostWaits == kWaitSlots);
static_assert(kMostLead * sizeof(Posted) < kRing);

constexpr std::uint64_t kReserveStep = 16 << 10, kTextStep = 64 << 10;
constexpr auto kClaimPatience = std::chrono::milliseconds(100);

constexpr std::uint64_t entries_of(std::uint32_t line) { return kLines + line * kLine; }
constexpr std::uint64_t values_of(std::uint32_t line) { return entries_of(line) + kLine / 2; }

Status no_memory() {
  return Status{Code::Environment,
                "There is no memory left in which this process could post its operations; free memory on this host."};
}

}  // namespace

/// What this process writes of one line.
struct OwnLine {
  Window entries, values;
  std::uint64_t values_end = 0;                        // numbers, from the line's beginning
  std::uint64_t entries_reserved = 0, values_reserved = 0;  // bytes
  std::uint64_t entries_kept = 0, values_kept = 0;     // bytes; windows before them are given back
};

struct SharedPosts::Own {
  explicit Own(PostsMemory made) : memory(std::move(made)) {}
  PostsMemory memory;
  std::mutex opening;  // guards what follows
  std::map<LineKey, std::uint32_t> numbers;
  std::unordered_map<std::string, TextId> texts;
  std::uint64_t texts_reserved = kTextStep;
  std::unique_ptr<OwnLine> lines[kTableLines];  // set once; then of the thread that posts on it

  bool write(std::uint32_t line, const Entry& entry);
  bool reserve(std::uint64_t ring, std::uint64_t end, std::uint64_t& reserved) const;
};

struct SharedPosts::Memory {
  explicit Memory(PostsMemory opened) : memory(std::move(opened)) {}
  PostsMemory memory;
  std::mutex reading;  // guards what follows
  struct Line {
    std::uint32_t number = 0;
    Window entries, values;
  };
  std::map<LineKey, Line> lines;
  std::uint32_t looked_at = 0;  // lines of its table

  /// null: it has not opened it. Requires the lock.
  Line* find(LineKey key);
};

SharedPosts::Memory::Line* SharedPosts::Memory::find(LineKey key) {
  auto found = lines.find(key);
  if (found != lines.end()) return &found->second;
  const PostsHeader& header = memory.header();
  const std::uint32_t opened = std::min(header.lines.load(std::memory_order_acquire), kTableLines);
  for (; looked_at < opened; ++looked_at) {
    const LineSlot& slot = header.table[looked_at];
    lines[LineKey{slot.high, slot.low}].number = looked_at;
  }
  found = lines.find(key);
  return found == lines.end() ? nullptr : &found->second;
}

SharedPosts::SharedPosts(Rank self) : self_(self) {}
SharedPosts::~SharedPosts() = default;

Result<std::unique_ptr<SharedPosts>> SharedPosts::create(Rank self) {
  auto memory = PostsMemory::create();
  if (!memory) return memory.error();
  std::unique_ptr<SharedPosts> made(new SharedPosts(self));
  made->own_ = std::make_unique<Own>(std::move(*memory));
  made->own_->memory.header().state.store(static_cast<std::uint32_t>(PeerState::Running));
  return made;
}

std::string SharedPosts::place() const { return own_->memory.place(); }

void SharedPosts::join(const std::vector<std::string>& places) {
  peers_.resize(places.size());
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    if (static_cast<std::int32_t>(rank) == self_.value) continue;
    if (auto opened = PostsMemory::open(places[rank]))
      peers_[rank] = std::make_unique<Memory>(std::move(*opened));
  }
}

std::vector<Rank> SharedPosts::seen() const {
  std::vector<Rank> out;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank)
    if (peers_[rank] != nullptr || static_cast<std::int32_t>(rank) == self_.value)
      out.push_back(Rank{static_cast<std::int32_t>(rank)});
  return out;
}

SharedPosts::Memory* SharedPosts::peer(Rank rank) const {
  const auto at = static_cast<std::size_t>(rank.value);
  return at < peers_.size() ? peers_[at].get() : nullptr;
}

const PostsMemory& SharedPosts::memory_of(Rank rank) const {
  const Memory* there = rank == self_ ? nullptr : peer(rank);
  return there == nullptr ? own_->memory : there->memory;
}

// Refusals are in the memory of the lowest rank that can be read.
PostsHeader& SharedPosts::host_header() const {
  for (std::size_t rank = 0; rank < peers_.size() && static_cast<std::int32_t>(rank) < self_.value; ++rank)
    if (peers_[rank] != nullptr) return peers_[rank]->memory.header();
  return own_->memory.header();
}

Result<LineId> SharedPosts::open(const Group& group) {
  const LineKey key = group.key;
  {
    const std::lock_guard lock(own_->opening);
    const auto found = own_->numbers.find(key);
    if (found != own_->numbers.end()) return LineId{found->second};
  }
  std::string listed;
  for (const Rank member : group.members) listed += fmt::format("{} ", member.value);
  const TextId told = text(listed), name = text(group.name);
  const std::lock_guard lock(own_->opening);
  PostsHeader& header = own_->memory.header();
  const std::uint32_t number = header.lines.load(std::memory_order_relaxed);
  if (number == kTableLines)
    return Status{Code::Environment,
                  fmt::format("This process has issued operations on {} groups, and pairs with tags of their own; more "
                              "are not compared.", kTableLines)};
  own_->lines[number] = std::make_unique<OwnLine>();
  header.table[number].high = key.high;
  header.table[number].low = key.low;
  header.table[number].members = told;
  header.table[number].name = name;
  own_->numbers[key] = number;
  header.lines.store(number + 1, std::memory_order_release);
  return LineId{number};
}

std::uint64_t SharedPosts::count(LineId line) const {
  return own_->memory.header().table[line.value].count.load(std::memory_order_relaxed);
}

bool SharedPosts::Own::reserve(std::uint64_t ring, std::uint64_t end, std::uint64_t& reserved) const {
  while (reserved < end) {
    if (!memory.reserve(ring + reserved % kRing, kReserveStep)) return false;
    reserved += kReserveStep;
  }
  return true;
}

bool SharedPosts::Own::write(std::uint32_t number, const Entry& entry) {
  OwnLine& line = *lines[number];
  Posted posted = entry.posted;
  if (!entry.values.empty()) {
    const std::uint64_t bytes = entry.values.size() * 8;
    std::uint64_t begin = line.values_end * 8;
    if (begin % kWindow + bytes > kWindow) begin += kWindow - begin % kWindow;
    if (bytes > kWindow || !reserve(values_of(number), begin + bytes, line.values_reserved)) return false;
    std::byte* to = line.values.at(memory.file(), values_of(number), begin, true);
    if (to == nullptr) return false;
    std::memcpy(to, entry.values.data(), bytes);
    posted.values = begin / 8;
    line.values_end = (begin + bytes) / 8;
  } else {
    posted.values = line.values_end;
  }
  const std::uint64_t at =
      memory.header().table[number].count.load(std::memory_order_relaxed) * sizeof posted;
  if (!reserve(entries_of(number), at + sizeof posted, line.entries_reserved)) return false;
  std::byte* to = line.entries.at(memory.file(), entries_of(number), at, true);
  if (to == nullptr) return false;
  std::memcpy(to, &posted, sizeof posted);
  return true;
}

Result<void> SharedPosts::post(LineId line, const Entry& entry) {
  PostsHeader& header = own_->memory.header();
  std::atomic<std::uint64_t>& count = header.table[line.value].count;
  const std::uint64_t number = count.load(std::memory_order_relaxed);
  if (number - own_->lines[line.value]->entries_kept / sizeof(Posted) > kMostLead)
    return Status{Code::Environment, fmt::format("This process is {} operations ahead of others of their group; no "
                                                 "more can be kept.", kMostLead)};
  if (!own_->write(line.value, entry)) return no_memory();
  header.moves.fetch_add(1, std::memory_order_relaxed);
  count.store(number + 1, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return {};
}

void SharedPosts::handed(LineId line) {
  LineSlot& slot = own_->memory.header().table[line.value];
  slot.handed.store(slot.count.load(std::memory_order_relaxed), std::memory_order_release);
}

void SharedPosts::trim(LineId id, std::uint64_t number) {
  OwnLine& line = *own_->lines[id.value];
  const auto give_back = [&](std::uint64_t ring, std::uint64_t end, std::uint64_t& kept) {
    for (; kept + kWindow <= end; kept += kWindow) own_->memory.give_back(ring + kept % kRing, kWindow);
  };
  const auto first_kept = this->entry(self_, LineKey{own_->memory.header().table[id.value].high,
                                                     own_->memory.header().table[id.value].low}, number);
  give_back(entries_of(id.value), number * sizeof(Posted), line.entries_kept);
  if (first_kept) give_back(values_of(id.value), first_kept->posted.values * 8, line.values_kept);
}

TextId SharedPosts::text(std::string_view text) {
  if (text.empty()) return 0;
  const std::lock_guard lock(own_->opening);
  const auto found = own_->texts.find(std::string(text));
  if (found != own_->texts.end()) return found->second;
  PostsHeader& header = own_->memory.header();
  const std::uint32_t begin = header.texts_end.load(std::memory_order_relaxed);
  const std::uint64_t end = begin + text.size() + 1;
  if (end > kFixed - kTexts) return 0;
  while (own_->texts_reserved < end) {
    if (!own_->memory.reserve(kTexts + own_->texts_reserved, kTextStep)) return 0;
    own_->texts_reserved += kTextStep;
  }
  std::memcpy(own_->memory.texts() + begin, text.data(), text.size());
  own_->memory.texts()[begin + text.size()] = '\0';
  header.texts_end.store(static_cast<std::uint32_t>(end), std::memory_order_release);
  own_->texts.emplace(text, begin);
  return begin;
}

namespace {

std::string text_in(const PostsMemory& memory, TextId id) {
  const std::uint32_t end = memory.header().texts_end.load(std::memory_order_acquire);
  if (id == 0 || id >= end || end > kFixed - kTexts) return {};
  const char* begin = memory.texts() + id;
  return std::string(begin, ::strnlen(begin, end - id));
}

}  // namespace

PeerState SharedPosts::state(Rank rank) const {
  if (rank != self_ && peer(rank) == nullptr) return PeerState::Unseen;
  const PostsMemory& memory = memory_of(rank);
  const auto said = static_cast<PeerState>(memory.header().state.load(std::memory_order_acquire));
  if (said != PeerState::Running || rank == self_ || !memory.has_ended()) return said;
  // It may have said so after it was read and before it ended.
  const auto last = static_cast<PeerState>(memory.header().state.load(std::memory_order_acquire));
  return last == PeerState::Running ? PeerState::Lost : last;
}

std::string SharedPosts::gone_text(Rank rank) const {
  const PostsMemory& memory = memory_of(rank);
  return text_in(memory, memory.header().gone_text.load());
}

std::uint64_t SharedPosts::count(Rank rank, LineKey key) const { return counts_of(rank, key).posted; }

WaitMoment::Counts SharedPosts::counts_of(Rank rank, LineKey key) const {
  const auto read = [](const PostsMemory& memory, std::uint32_t line) {
    const LineSlot& slot = memory.header().table[line];
    const std::uint64_t handed = slot.handed.load(std::memory_order_acquire);
    return WaitMoment::Counts{slot.count.load(std::memory_order_acquire), handed};
  };
  if (rank == self_) {
    const std::lock_guard lock(own_->opening);
    const auto found = own_->numbers.find(key);
    return found == own_->numbers.end() ? WaitMoment::Counts{} : read(own_->memory, found->second);
  }
  Memory* there = peer(rank);
  if (there == nullptr) return {};
  const std::lock_guard lock(there->reading);
  const Memory::Line* line = there->find(key);
  return line == nullptr ? WaitMoment::Counts{} : read(there->memory, line->number);
}

std::optional<Entry> SharedPosts::entry(Rank rank, LineKey key, std::uint64_t number) const {
  const auto read = [&](const PostsMemory& memory, std::uint32_t line, Window& entries,
                        Window& values) -> std::optional<Entry> {
    Entry out;
    const std::byte* from = entries.at(memory.file(), entries_of(line), number * sizeof(Posted), false);
    if (from == nullptr) return std::nullopt;
    std::memcpy(&out.posted, from, sizeof(Posted));
    const std::size_t count = std::size_t{out.posted.to} + out.posted.from;
    if (count == 0) return out;
    if (count * 8 > kWindow) return std::nullopt;
    from = values.at(memory.file(), values_of(line), out.posted.values * 8, false);
    if (from == nullptr) return std::nullopt;
    out.values.resize(count);
    std::memcpy(out.values.data(), from, count * 8);
    return out;
  };
  if (rank == self_) {
    const std::lock_guard lock(own_->opening);
    const auto found = own_->numbers.find(key);
    if (found == own_->numbers.end()) return std::nullopt;
    Window entries, values;
    return read(own_->memory, found->second, entries, values);
  }
  Memory* there = peer(rank);
  if (there == nullptr) return std::nullopt;
  const std::lock_guard lock(there->reading);
  Memory::Line* line = there->find(key);
  if (line == nullptr) return std::nullopt;
  return read(there->memory, line->number, line->entries, line->values);
}

EntryTexts SharedPosts::texts(Rank rank, const Posted& posted) const {
  const PostsMemory& memory = memory_of(rank);
  return {text_in(memory, posted.kind), text_in(memory, posted.dtype),
          text_in(memory, posted.reduction), text_in(memory, posted.place)};
}

namespace {

bool is_of(const RefusalSlot& slot, LineKey key) {
  return slot.high.load(std::memory_order_relaxed) == key.high &&
         slot.low.load(std::memory_order_relaxed) == key.low;
}

}  // namespace

std::optional<Status> SharedPosts::refusal(LineKey key) const {
  const PostsHeader& header = host_header();
  const std::uint32_t claimed = header.refusals.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < claimed && i < kRefusals; ++i) {
    const RefusalSlot& slot = header.refused[i];
    if (slot.state.load(std::memory_order_acquire) != 2 || !is_of(slot, key)) continue;
    return Status{static_cast<Code>(slot.code.load()),
                  text_in(memory_of(Rank{slot.rank.load()}), slot.text.load())};
  }
  return std::nullopt;
}

Status SharedPosts::refuse(LineKey key, const Status& status) {
  PostsHeader& header = host_header();
  const TextId mine = text(status.message);
  for (std::uint32_t i = 0; i < kRefusals; ++i) {
    RefusalSlot& slot = header.refused[i];
    std::uint32_t free = 0;
    if (slot.state.compare_exchange_strong(free, 1, std::memory_order_acq_rel)) {
      slot.high.store(key.high);
      slot.low.store(key.low);
      slot.rank.store(self_.value);
      slot.text.store(mine);
      slot.code.store(static_cast<std::uint32_t>(status.code));
      slot.state.store(2, std::memory_order_release);
      std::uint32_t known = header.refusals.load();
      while (known < i + 1 && !header.refusals.compare_exchange_weak(known, i + 1)) {
      }
      return status;
    }
    // Whoever claimed it may have been killed before it was ready.
    const auto until = std::chrono::steady_clock::now() + kClaimPatience;
    while (slot.state.load(std::memory_order_acquire) == 1 && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    if (slot.state.load(std::memory_order_acquire) == 2 && is_of(slot, key)) break;
  }
  return refusal(key).value_or(status);
}

void SharedPosts::finish() {
  own_->memory.header().state.store(static_cast<std::uint32_t>(PeerState::Finished),
                                    std::memory_order_release);
}

void SharedPosts::gone(std::string_view said) {
  PostsHeader& header = own_->memory.header();
  auto running = static_cast<std::uint32_t>(PeerState::Running);
  std::uint32_t none = 0;
  header.gone_text.compare_exchange_strong(none, text(said));
  header.state.compare_exchange_strong(running, static_cast<std::uint32_t>(PeerState::Gone),
                                       std::memory_order_acq_rel);
}

int SharedPosts::begin_wait(const Waiting& wait) {
  PostsHeader& header = own_->memory.header();
  for (std::size_t i = 0; i < kWaitSlots; ++i) {
    WaitSlot& slot = header.waits[i];
    std::uint64_t change = slot.change.load(std::memory_order_relaxed);
    if (change % 2 == 1 || slot.waits.load(std::memory_order_relaxed) == 1 ||
        !slot.change.compare_exchange_strong(change, change + 1, std::memory_order_acq_rel))
      continue;
    if (slot.waits.load() == 1) {  // another thread was faster
      slot.change.store(change + 2, std::memory_order_release);
      continue;
    }
    slot.high.store(wait.key.high);
    slot.low.store(wait.key.low);
    slot.number.store(wait.number);
    slot.waits.store(1);
    slot.change.store(change + 2, std::memory_order_release);
    header.moves.fetch_add(1, std::memory_order_acq_rel);
    return static_cast<int>(i);
  }
  return -1;
}

void SharedPosts::end_wait(int number) {
  if (number < 0) return;
  PostsHeader& header = own_->memory.header();
  WaitSlot& slot = header.waits[number];
  slot.change.fetch_add(1, std::memory_order_acq_rel);
  slot.waits.store(0);
  slot.change.fetch_add(1, std::memory_order_acq_rel);
  header.moves.fetch_add(1, std::memory_order_acq_rel);
}

void SharedPosts::issuing_threads(int change) { own_->memory.header().issuing.fetch_add(change); }

void SharedPosts::threads_beside(bool are_there) {
  own_->memory.header().beside.store(are_there ? 1 : 0);
}

const LineSlot* SharedPosts::slot_of(Rank rank, LineKey key) const {
  const PostsHeader& header = memory_of(rank).header();
  const std::uint32_t opened = std::min(header.lines.load(std::memory_order_acquire), kTableLines);
  const auto* end = header.table + opened;
  const auto* found = std::find_if(header.table, end, [&](const LineSlot& slot) {
    return slot.high == key.high && slot.low == key.low;
  });
  return found == end ? nullptr : found;
}

std::string SharedPosts::name_of(Rank rank, LineKey key) const {
  const LineSlot* slot = slot_of(rank, key);
  return slot == nullptr ? std::string() : text_in(memory_of(rank), slot->name);
}

std::vector<Rank> SharedPosts::members_of(Rank rank, LineKey key) const {
  std::vector<Rank> out;
  const LineSlot* slot = slot_of(rank, key);
  if (slot == nullptr) return out;
  std::istringstream listed(text_in(memory_of(rank), slot->members));
  for (std::int32_t member = 0; listed >> member;) out.push_back(Rank{member});
  return out;
}

namespace {

/// nullopt: nobody waits there, or it is being written.
std::optional<Waiting> read_wait(const WaitSlot& slot) {
  const std::uint64_t before = slot.change.load(std::memory_order_acquire);
  const Waiting wait{LineKey{slot.high.load(), slot.low.load()}, slot.number.load()};
  const bool waits = slot.waits.load() == 1;
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!waits || before % 2 == 1 || slot.change.load() != before) return std::nullopt;
  return wait;
}

}  // namespace

WaitMoment SharedPosts::moment() const {
  WaitMoment out;
  for (const Rank rank : seen()) {
    const PostsHeader& header = memory_of(rank).header();
    RankWaits& waits = out.ranks[rank];
    waits.state = state(rank);
    waits.moves = header.moves.load(std::memory_order_acquire);
    for (const WaitSlot& slot : header.waits) {
      const auto wait = read_wait(slot);
      if (!wait) continue;
      waits.waits.push_back({*wait, needed_by(rank, *wait)});
    }
    waits.has_free_thread = header.issuing.load() > static_cast<std::int32_t>(waits.waits.size());
    waits.has_threads_beside = header.beside.load() != 0;
  }
  for (const auto& [rank, waits] : out.ranks)
    for (const RankWaits::Wait& wait : waits.waits)
      for (const Rank member : wait.needed)
        out.counts[{wait.in.key, member}] = counts_of(member, wait.in.key);
  return out;
}

std::vector<Rank> SharedPosts::needed_by(Rank rank, const Waiting& wait) const {
  const std::vector<Rank> members = members_of(rank, wait.key);
  const auto self = std::find(members.begin(), members.end(), rank) - members.begin();
  std::vector<Rank> out;
  if (wait.number >= count(rank, wait.key)) return out;
  if (const auto there = entry(rank, wait.key, wait.number))
    for (const int member : needed_of(*there, static_cast<int>(self), static_cast<int>(members.size())))
      out.push_back(members[static_cast<std::size_t>(member)]);
  return out;
}

std::uint64_t SharedPosts::held_bytes() const { return own_->memory.held_bytes(); }

}  // namespace lockstep::lines
