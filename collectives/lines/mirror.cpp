#include <algorithm>
#include <sstream>

#include <lockstep/collectives/lines/mirror.h>

namespace lockstep::lines {

Result<std::unique_ptr<Mirror>> Mirror::create(Rank rank, IsHere is_here) {
  auto memory = PostsMemory::create();
  if (!memory) return memory.error();
  memory->header().state.store(static_cast<std::uint32_t>(PeerState::Running));
  return std::unique_ptr<Mirror>(new Mirror(rank, std::move(is_here), std::move(*memory)));
}

bool Mirror::write(const RankNote& note, Instant now, const Came& came) {
  if (!posts_.copy_texts(note.texts_begin, note.texts) || !open(note)) return false;
  for (const RankNote::Came& each : note.came)
    if (!post(each, came)) return false;
  if (note.standing) stand(*note.standing, now);
  return true;
}

bool Mirror::open(const RankNote& note) {
  for (std::uint32_t i = 0; i < note.opened.size(); ++i) {
    const RankNote::Opened& line = note.opened[i];
    if (!posts_.copy_line(note.first_line + i, line.key, line.members, line.name)) return false;
    Group group{line.key, {}, -1, posts_.memory().text(line.name)};
    auto& here = group.compared.emplace();
    std::istringstream listed(posts_.memory().text(line.members));
    for (std::int32_t member = 0; listed >> member;) {
      const auto number = static_cast<int>(group.members.size());
      if (member == rank_.value) group.self = number;
      if (is_here_(Rank{member})) here.push_back(number);
      group.members.push_back(Rank{member});
    }
    if (group.self < 0) return false;
    groups_.push_back(std::move(group));
  }
  return true;
}

bool Mirror::post(const RankNote::Came& came, const Came& then) {
  const LineId line{came.line};
  if (came.line >= groups_.size() || came.first != posts_.count(line)) return false;
  for (const Entry& entry : came.entries) {
    const std::uint64_t number = posts_.count(line);
    if (!posts_.post(line, entry)) return false;
    then(groups_[came.line], {line, number, entry});
  }
  if (came.handed > posts_.count(line)) return false;
  posts_.memory().header().table[came.line].handed.store(came.handed, std::memory_order_release);
  return true;
}

// Writes moves and state last: a reader that sees their new values sees everything written before
// them.
void Mirror::stand(const RankNote::Standing& now, Instant at) {
  PostsHeader& header = posts_.memory().header();
  std::vector<RankWaits::Wait> waits;
  for (const auto& wait : now.waits) {
    Instant since = at - wait.age;
    for (const WaitSlot& slot : header.waits)  // a wait that is already known keeps its start
      if (const auto known = read_wait(slot); known && known->in == wait.in) since = known->since;
    waits.push_back({wait.in, {}, since});
  }
  write_waits(header, waits);
  header.issuing.store(now.issuing);
  header.beside.store(now.has_threads_beside ? 1 : 0);
  header.takes_from_any.store(now.takes_from_any ? 1 : 0);
  header.alive_until.store((at + now.alive).count());
  header.moves.store(now.moves, std::memory_order_release);
  header.gone_text.store(now.gone);
  header.state.store(static_cast<std::uint32_t>(now.state), std::memory_order_release);
}

void Mirror::heard(std::uint64_t mark, Instant now) {
  PostsHeader& header = posts_.memory().header();
  header.heard_at.store(now.count(), std::memory_order_relaxed);
  header.heard.store(mark, std::memory_order_release);
}

void Mirror::end(PeerState state) {
  PostsHeader& header = posts_.memory().header();
  auto running = static_cast<std::uint32_t>(PeerState::Running);
  header.state.compare_exchange_strong(running, static_cast<std::uint32_t>(state));
}

}  // namespace lockstep::lines
