#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <lockstep/collectives/lines/own_posts.h>
#include <lockstep/collectives/lines/shared_posts.h>

namespace lockstep::lines {
namespace {

static_assert(kMostLines == kTableLines && kMostWaits == kWaitSlots);
static_assert(kMostLead * sizeof(Posted) < kRing);

constexpr std::uint64_t kReserveStep = 16 << 10, kGiveBackStep = 64 << 10;

Status no_memory() {
  return environment_error(
      "There is no memory left in which this process could post its operations; free "
      "memory on this host.");
}

}  // namespace

Result<LineId> OwnPosts::open(const Group& group) {
  const LineKey key = group.key;
  {
    const std::lock_guard lock(opening_);
    const auto found = numbers_.find(key);
    if (found != numbers_.end()) return LineId{found->second};
  }
  std::string listed;
  for (const Rank member : group.members) listed += fmt::format("{} ", member.value);
  const TextId told = text(listed), name = text(group.name);
  const std::lock_guard lock(opening_);
  PostsHeader& header = memory_.header();
  const std::uint32_t number = header.lines.load(std::memory_order_relaxed);
  if (number == kTableLines)
    return environment_error(
        fmt::format("This process has issued operations on {} groups, "
                    "and pairs with tags of their own; more "
                    "are not compared.",
                    kTableLines));
  add_line(number, key, told, name);
  return LineId{number};
}

// Requires the lock.
void OwnPosts::add_line(std::uint32_t number, LineKey key, TextId members, TextId name) {
  PostsHeader& header = memory_.header();
  lines_[number] = std::make_unique<Line>();
  header.table[number].high = key.high;
  header.table[number].low = key.low;
  header.table[number].members = members;
  header.table[number].name = name;
  numbers_[key] = number;
  header.lines.store(number + 1, std::memory_order_release);
}

bool OwnPosts::copy_line(std::uint32_t number, LineKey key, TextId members, TextId name) {
  const std::lock_guard lock(opening_);
  if (number != memory_.header().lines.load() || number == kTableLines || numbers_.contains(key))
    return false;
  add_line(number, key, members, name);
  return true;
}

std::uint64_t OwnPosts::count(LineId line) const {
  return memory_.header().table[line.value].count.load(std::memory_order_relaxed);
}

bool OwnPosts::reserve(std::uint64_t ring, std::uint64_t end, std::uint64_t& reserved) const {
  while (reserved < end) {
    if (!memory_.reserve(ring + reserved % kRing, kReserveStep)) return false;
    reserved += kReserveStep;
  }
  return true;
}

bool OwnPosts::write(std::uint32_t number, const Entry& entry) {
  Line& line = *lines_[number];
  Posted posted = entry.posted;
  if (!entry.values.empty()) {
    const std::uint64_t bytes = entry.values.size() * 8;
    std::uint64_t begin = line.values_end * 8;
    if (begin % kWindow + bytes > kWindow) begin += kWindow - begin % kWindow;
    if (bytes > kWindow || !reserve(values_of(number), begin + bytes, line.values_reserved))
      return false;
    std::byte* to = line.values.at(memory_.file(), values_of(number), begin, true);
    if (to == nullptr) return false;
    std::memcpy(to, entry.values.data(), bytes);
    posted.values = begin / 8;
    line.values_end = (begin + bytes) / 8;
  } else {
    posted.values = line.values_end;
  }
  const std::uint64_t at =
      memory_.header().table[number].count.load(std::memory_order_relaxed) * sizeof posted;
  if (!reserve(entries_of(number), at + sizeof posted, line.entries_reserved)) return false;
  std::byte* to = line.entries.at(memory_.file(), entries_of(number), at, true);
  if (to == nullptr) return false;
  std::memcpy(to, &posted, sizeof posted);
  return true;
}

Result<void> OwnPosts::post(LineId line, const Entry& entry) {
  PostsHeader& header = memory_.header();
  std::atomic<std::uint64_t>& count = header.table[line.value].count;
  const std::uint64_t number = count.load(std::memory_order_relaxed);
  if (number - lines_[line.value]->entries_kept / sizeof(Posted) > kMostLead)
    return environment_error(
        fmt::format("This process is {} operations ahead of others of their group; no "
                    "more can be kept.",
                    kMostLead));
  if (!write(line.value, entry)) return no_memory();
  header.moves.fetch_add(1, std::memory_order_relaxed);
  count.store(number + 1, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return {};
}

void OwnPosts::handed(LineId line) {
  LineSlot& slot = memory_.header().table[line.value];
  slot.handed.store(slot.count.load(std::memory_order_relaxed), std::memory_order_release);
}

void OwnPosts::trim(LineId id, std::uint64_t number) {
  Line& line = *lines_[id.value];
  const PostsHeader& header = memory_.header();
  if (header.notes_are_sent.load(std::memory_order_relaxed) != 0)
    number = std::min(number, header.table[id.value].carried.load(std::memory_order_acquire));
  if (number == 0) return;
  const auto give_back = [&](std::uint64_t ring, std::uint64_t end, std::uint64_t& kept) {
    for (; kept + kGiveBackStep <= end; kept += kGiveBackStep)
      memory_.give_back(ring + kept % kRing, kGiveBackStep);
  };
  Window entries, values;
  const auto first_kept = memory_.entry(id.value, number, entries, values);
  give_back(entries_of(id.value), number * sizeof(Posted), line.entries_kept);
  if (first_kept) give_back(values_of(id.value), first_kept->posted.values * 8, line.values_kept);
}

TextId OwnPosts::text(std::string_view text) {
  if (text.empty()) return 0;
  const std::lock_guard lock(opening_);
  const auto found = texts_.find(text);
  if (found != texts_.end()) return found->second;
  PostsHeader& header = memory_.header();
  const std::uint32_t begin = header.texts_end.load(std::memory_order_relaxed);
  const std::uint64_t end = begin + text.size() + 1;
  if (!reserve_texts(end)) return 0;
  std::memcpy(memory_.texts() + begin, text.data(), text.size());
  memory_.texts()[begin + text.size()] = '\0';
  header.texts_end.store(static_cast<std::uint32_t>(end), std::memory_order_release);
  texts_.emplace(text, begin);
  return begin;
}

// Requires the lock.
bool OwnPosts::reserve_texts(std::uint64_t end) {
  if (end > kFixed - kTexts) return false;
  while (texts_reserved_ < end) {
    if (!memory_.reserve(kTexts + texts_reserved_, kTextStep)) return false;
    texts_reserved_ += kTextStep;
  }
  return true;
}

bool OwnPosts::copy_texts(std::uint32_t begin, std::string_view texts) {
  const std::lock_guard lock(opening_);
  PostsHeader& header = memory_.header();
  if (begin != header.texts_end.load(std::memory_order_relaxed)) return false;
  if (texts.empty()) return true;
  if (texts.back() != '\0' || !reserve_texts(begin + texts.size())) return false;
  std::memcpy(memory_.texts() + begin, texts.data(), texts.size());
  header.texts_end.store(static_cast<std::uint32_t>(begin + texts.size()),
                         std::memory_order_release);
  return true;
}

std::optional<std::uint32_t> OwnPosts::find(LineKey key) {
  const std::lock_guard lock(opening_);
  const auto found = numbers_.find(key);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

WaitMoment::Counts OwnPosts::counts_of(LineKey key) {
  const auto line = find(key);
  return line ? memory_.counts_of(*line) : WaitMoment::Counts{};
}

std::optional<Entry> OwnPosts::entry(LineKey key, std::uint64_t number) {
  const auto line = find(key);
  if (!line) return std::nullopt;
  const std::lock_guard lock(reading_);
  Line& of = *lines_[*line];
  return memory_.entry(*line, number, of.read_entries, of.read_values);
}

std::uint64_t OwnPosts::value_bytes(LineId line) const {
  return lines_[line.value]->values_end * 8;
}

}  // namespace lockstep::lines
