#include <algorithm>
#include <chrono>
#include <set>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include <lockstep/collectives/lines/own_posts.h>
#include <lockstep/collectives/lines/peer_posts.h>
#include <lockstep/collectives/lines/shared_posts.h>

namespace lockstep::lines {
namespace {

constexpr auto kClaimPatience = std::chrono::milliseconds(100);

}  // namespace

SharedPosts::SharedPosts(Rank self) : self_(self), head_(self) {}
SharedPosts::~SharedPosts() = default;

Result<std::unique_ptr<SharedPosts>> SharedPosts::create(Rank self) {
  auto memory = PostsMemory::create();
  if (!memory) return memory.error();
  std::unique_ptr<SharedPosts> made(new SharedPosts(self));
  made->own_ = std::make_unique<OwnPosts>(std::move(*memory));
  made->own_->memory().header().state.store(static_cast<std::uint32_t>(PeerState::Running));
  return made;
}

std::string SharedPosts::place() const { return own_->memory().place(); }

void SharedPosts::join(const std::vector<std::string>& places) {
  peers_.resize(places.size());
  mirrored_.assign(places.size(), false);
  unseen_.clear();
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    if (static_cast<std::int32_t>(rank) == self_.value) continue;
    if (auto opened = PostsMemory::open(places[rank]))
      peers_[rank] = std::make_unique<PeerPosts>(std::move(*opened));
    else if (!places[rank].empty())
      unseen_.push_back(Rank{static_cast<std::int32_t>(rank)});
  }
  head_ = seen().front();
}

std::vector<Rank> SharedPosts::unseen() const { return unseen_; }

std::vector<Rank> SharedPosts::seen() const {
  std::vector<Rank> out;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank)
    if (peers_[rank] != nullptr || static_cast<std::int32_t>(rank) == self_.value)
      out.push_back(Rank{static_cast<std::int32_t>(rank)});
  return out;
}

bool SharedPosts::is_here(Rank rank) const {
  return rank == self_ ||
         (peer(rank) != nullptr && !mirrored_[static_cast<std::size_t>(rank.value)]);
}

void SharedPosts::publish_mirrors(const std::map<Rank, std::string>& places) {
  std::string listed;
  for (const auto& [rank, place] : places) listed += fmt::format("{} {}\n", rank.value, place);
  own_->memory().header().mirrors.store(text(listed), std::memory_order_release);
}

Result<void> SharedPosts::open_mirrors() {
  const PostsMemory& memory = memory_of(head());
  std::istringstream listed(memory.text(memory.header().mirrors.load(std::memory_order_acquire)));
  std::string place;
  for (std::size_t rank = 0; listed >> rank >> place;) {
    if (rank >= peers_.size() || peers_[rank] != nullptr) continue;
    auto opened = PostsMemory::open(place, false);
    if (!opened)
      return environment_error(
          fmt::format("This process cannot open what is known of rank {}, of another host; "
                      "let it open more files (ulimit -n).",
                      rank));
    peers_[rank] = std::make_unique<PeerPosts>(std::move(*opened));
    mirrored_[rank] = true;
  }
  return {};
}

std::uint64_t SharedPosts::marks() const { return host_header().marks.load(); }

// The note with the present mark may have been begun before the last post, so this waits for the
// next note.
void SharedPosts::wait_until_told(Duration patience) const {
  const PostsHeader& header = host_header();
  const std::uint64_t mark = header.marks.load() + 1;
  const auto until = std::chrono::steady_clock::now() + patience;
  while (own_->memory().header().notes_are_sent.load() != 0 &&
         header.all_have.load(std::memory_order_acquire) < mark && !memory_of(head_).has_ended() &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void SharedPosts::all_have(std::uint64_t mark) {
  host_header().all_have.store(mark, std::memory_order_release);
}

PeerPosts* SharedPosts::peer(Rank rank) const {
  const auto at = static_cast<std::size_t>(rank.value);
  return at < peers_.size() ? peers_[at].get() : nullptr;
}

const PostsMemory& SharedPosts::memory_of(Rank rank) const {
  const PeerPosts* there = rank == self_ ? nullptr : peer(rank);
  return there == nullptr ? own_->memory() : there->memory();
}

// Refusals and the marks of notes are in the memory of the head.
PostsHeader& SharedPosts::host_header() const { return memory_of(head_).header(); }

PeerState SharedPosts::state(Rank rank) const {
  if (rank != self_ && peer(rank) == nullptr) return PeerState::Unseen;
  const PostsMemory& memory = memory_of(rank);
  const auto said = static_cast<PeerState>(memory.header().state.load(std::memory_order_acquire));
  if (said == PeerState::Running && !is_here(rank))
    return memory_of(head()).has_ended() ? PeerState::Unseen : said;
  if (said != PeerState::Running || rank == self_ || !memory.has_ended()) return said;
  // The process may have written the state after the read above, before it ended.
  const auto last = static_cast<PeerState>(memory.header().state.load(std::memory_order_acquire));
  return last == PeerState::Running ? PeerState::Lost : last;
}

std::string SharedPosts::gone_text(Rank rank) const {
  const PostsMemory& memory = memory_of(rank);
  return memory.text(memory.header().gone_text.load());
}

std::uint64_t SharedPosts::count(Rank rank, LineKey key) const {
  return counts_of(rank, key).posted;
}

EntryTexts SharedPosts::texts(Rank rank, const Posted& posted) const {
  const PostsMemory& memory = memory_of(rank);
  return {memory.text(posted.kind), memory.text(posted.dtype), memory.text(posted.reduction),
          memory.text(posted.place)};
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
    return said_in(slot);
  }
  return std::nullopt;
}

std::vector<std::pair<LineKey, Status>> SharedPosts::refusals(std::set<std::size_t>& told) const {
  const PostsHeader& header = host_header();
  std::vector<std::pair<LineKey, Status>> out;
  const std::size_t claimed = header.refusals.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < claimed && i < kRefusals; ++i) {
    const RefusalSlot& slot = header.refused[i];
    if (slot.state.load(std::memory_order_acquire) != 2 || !told.insert(i).second) continue;
    if (slot.elsewhere.load() == 0)
      out.emplace_back(LineKey{slot.high.load(), slot.low.load()}, said_in(slot));
  }
  return out;
}

std::uint64_t SharedPosts::next_mark() { return host_header().marks.fetch_add(1) + 1; }

Status SharedPosts::said_in(const RefusalSlot& slot) const {
  return Status{static_cast<Code>(slot.code.load()),
                memory_of(Rank{slot.rank.load()}).text(slot.text.load())};
}

Status SharedPosts::refuse(LineKey key, const Status& status) { return claim(key, status, false); }

void SharedPosts::refused_elsewhere(LineKey key, const Status& status) {
  static_cast<void>(claim(key, status, true));
}

Status SharedPosts::claim(LineKey key, const Status& status, bool elsewhere) {
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
      slot.elsewhere.store(elsewhere ? 1 : 0);
      slot.state.store(2, std::memory_order_release);
      std::uint32_t known = header.refusals.load();
      while (known < i + 1 && !header.refusals.compare_exchange_weak(known, i + 1)) {
      }
      return status;
    }
    // The rank that claimed the slot may have been killed before it filled the slot.
    const auto until = std::chrono::steady_clock::now() + kClaimPatience;
    while (slot.state.load(std::memory_order_acquire) == 1 &&
           std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    if (slot.state.load(std::memory_order_acquire) == 2 && is_of(slot, key)) return said_in(slot);
  }
  return status;
}

Result<LineId> SharedPosts::open(const Group& group) { return own_->open(group); }
std::uint64_t SharedPosts::count(LineId line) const { return own_->count(line); }
Result<void> SharedPosts::post(LineId line, const Entry& entry) { return own_->post(line, entry); }
void SharedPosts::handed(LineId line) { own_->handed(line); }
void SharedPosts::trim(LineId line, std::uint64_t number) {
  if (head_ != self_ && memory_of(head_).has_ended())  // notes have ended
    own_->memory().header().notes_are_sent.store(0);
  own_->trim(line, number);
}
TextId SharedPosts::text(std::string_view text) { return own_->text(text); }

WaitMoment::Counts SharedPosts::counts_of(Rank rank, LineKey key) const {
  if (rank == self_) return own_->counts_of(key);
  PeerPosts* there = peer(rank);
  return there == nullptr ? WaitMoment::Counts{} : there->counts_of(key);
}

std::optional<Entry> SharedPosts::entry(Rank rank, LineKey key, std::uint64_t number) const {
  if (rank == self_) return own_->entry(key, number);
  PeerPosts* there = peer(rank);
  return there == nullptr ? std::nullopt : there->entry(key, number);
}

void SharedPosts::finish() {
  own_->memory().header().state.store(static_cast<std::uint32_t>(PeerState::Finished),
                                      std::memory_order_release);
}

void SharedPosts::gone(std::string_view said) {
  PostsHeader& header = own_->memory().header();
  auto running = static_cast<std::uint32_t>(PeerState::Running);
  std::uint32_t none = 0;
  header.gone_text.compare_exchange_strong(none, text(said));
  header.state.compare_exchange_strong(running, static_cast<std::uint32_t>(PeerState::Gone),
                                       std::memory_order_acq_rel);
}

int SharedPosts::begin_wait(const Waiting& wait, Instant now) {
  PostsHeader& header = own_->memory().header();
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
    slot.since.store(now.count());
    slot.waits.store(1);
    slot.change.store(change + 2, std::memory_order_release);
    header.moves.fetch_add(1, std::memory_order_acq_rel);
    return static_cast<int>(i);
  }
  return -1;
}

void SharedPosts::end_wait(int number) {
  if (number < 0) return;
  PostsHeader& header = own_->memory().header();
  WaitSlot& slot = header.waits[number];
  slot.change.fetch_add(1, std::memory_order_acq_rel);
  slot.waits.store(0);
  slot.change.fetch_add(1, std::memory_order_acq_rel);
  header.moves.fetch_add(1, std::memory_order_acq_rel);
}

void SharedPosts::issuing_threads(int change) { own_->memory().header().issuing.fetch_add(change); }

void SharedPosts::has_other_threads(bool are_there) {
  own_->memory().header().beside.store(are_there ? 1 : 0);
}

void SharedPosts::take_from_any() { own_->memory().header().takes_from_any.store(1); }

bool SharedPosts::takes_from_any(Rank rank) const {
  return is_seen(rank) && memory_of(rank).header().takes_from_any.load() != 0;
}

void SharedPosts::alive_until(Instant until) {
  std::atomic<std::int64_t>& known = own_->memory().header().alive_until;
  std::int64_t before = known.load(std::memory_order_relaxed);
  while (before < until.count() && !known.compare_exchange_weak(before, until.count())) {
  }
}

std::vector<Rank> SharedPosts::ahead_of(Rank rank) const {
  std::set<Rank> out;
  const PostsHeader& header = memory_of(rank).header();
  const std::uint32_t opened = std::min(header.lines.load(std::memory_order_acquire), kTableLines);
  for (std::uint32_t i = 0; i < opened; ++i) {
    const LineSlot& slot = header.table[i];
    const LineKey key{slot.high, slot.low};
    for (const Rank member : *members_of(rank, key))
      if (member != rank && is_seen(member) &&
          counts_of(member, key).posted < slot.count.load(std::memory_order_acquire))
        out.insert(member);
  }
  return {out.begin(), out.end()};
}

const LineSlot* SharedPosts::slot_of(Rank rank, LineKey key) const {
  if (!is_seen(rank)) return nullptr;
  const auto line = rank == self_ ? own_->find(key) : peer(rank)->line(key);
  return line ? &memory_of(rank).header().table[*line] : nullptr;
}

std::string SharedPosts::name_of(Rank rank, LineKey key) const {
  const LineSlot* slot = slot_of(rank, key);
  return slot == nullptr ? std::string() : memory_of(rank).text(slot->name);
}

SharedPosts::Members SharedPosts::members_of(Rank rank, LineKey key) const {
  {
    const std::lock_guard lock(listing_);
    const auto found = members_.find(key);
    if (found != members_.end()) return found->second;
  }
  auto out = std::make_shared<std::vector<Rank>>();
  const LineSlot* slot = slot_of(rank, key);
  if (slot == nullptr) return out;
  std::istringstream listed(memory_of(rank).text(slot->members));
  for (std::int32_t member = 0; listed >> member;) out->push_back(Rank{member});
  if (out->size() == 1) return out;  // tell(): each rank has its own line with this key
  const std::lock_guard lock(listing_);
  return members_.try_emplace(key, std::move(out)).first->second;
}

RankWaits SharedPosts::waits_of(Rank rank) const {
  const PostsHeader& header = memory_of(rank).header();
  RankWaits waits;
  if (!is_here(rank)) waits.heard = header.heard.load(std::memory_order_acquire);
  waits.state = state(rank);
  waits.moves = header.moves.load(std::memory_order_acquire);
  for (const WaitSlot& slot : header.waits)
    if (auto wait = read_wait(slot)) waits.waits.push_back(*std::move(wait));
  waits.has_free_thread = header.issuing.load() > static_cast<std::int32_t>(waits.waits.size());
  waits.has_threads_beside = header.beside.load() != 0;
  waits.alive_until = Instant(header.alive_until.load(std::memory_order_relaxed));
  return waits;
}

// Reads the counts again after all waits: a rank that has not issued an entry by then had not
// issued it when the waits were read.
WaitMoment SharedPosts::moment(Instant now, std::vector<Rank> open, bool in_full) const {
  WaitMoment out;
  while (!open.empty()) {
    const Rank rank = open.back();
    open.pop_back();
    if (!is_seen(rank) || out.ranks.contains(rank)) continue;
    if (!is_here(rank) && now - Instant(memory_of(rank).header().heard_at.load()) > kSilence)
      continue;
    RankWaits& waits = out.ranks[rank] = waits_of(rank);
    for (RankWaits::Wait& wait : waits.waits)
      for (const Rank member : needed_by(rank, wait.in)) {
        const auto counts = counts_of(member, wait.in.key);
        if (counts.handed > wait.in.number) continue;
        wait.needed.push_back(member);
        out.counts[{wait.in.key, member}] = counts;
        open.push_back(member);
      }
    if (in_full) waits.ahead_of = ahead_of(rank);
    open.insert(open.end(), waits.ahead_of.begin(), waits.ahead_of.end());
  }
  for (auto& [of, counts] : out.counts) counts = counts_of(of.second, of.first);
  return out;
}

std::vector<Rank> SharedPosts::needed_by(Rank rank, const Waiting& wait) const {
  const Members listed = members_of(rank, wait.key);
  const std::vector<Rank>& members = *listed;
  const auto self = std::find(members.begin(), members.end(), rank) - members.begin();
  std::vector<Rank> out;
  if (wait.number >= count(rank, wait.key)) return out;
  const auto there = entry(rank, wait.key, wait.number);
  if (!there) return out;
  for (const int number :
       needed_of(*there, static_cast<int>(self), static_cast<int>(members.size()))) {
    const Rank member = members[static_cast<std::size_t>(number)];
    if (there->posted.needs != Needs::Receiver || !takes_from_any(member)) out.push_back(member);
  }
  return out;
}

std::uint64_t SharedPosts::held_bytes() const { return own_->memory().held_bytes(); }

}  // namespace lockstep::lines
