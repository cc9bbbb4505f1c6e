#include <algorithm>
#include <cstdlib>
#include <set>

#include <lockstep/collectives/lines/carrier.h>
#include <lockstep/collectives/lines/mirror.h>
#include <lockstep/collectives/lines/note_source.h>
#include <lockstep/collectives/lines/posts_memory.h>

namespace lockstep::lines {

std::vector<Rank> heard_by(Rank head, const std::vector<Rank>& unseen, int ranks) {
  std::vector<Rank> out;
  for (const Rank rank : unseen) {
    const int apart = std::abs(rank.value - head.value);
    if (std::min(apart, ranks - apart) <= kMostElsewhere / 2) out.push_back(rank);
  }
  return out;
}

Carrier::Carrier(SharedPosts& posts) : posts_(posts), issuer_(posts), here_(posts.seen()) {}

Carrier::~Carrier() = default;

Result<std::unique_ptr<Carrier>> Carrier::create(SharedPosts& posts, int ranks) {
  std::unique_ptr<Carrier> made(new Carrier(posts));
  std::map<Rank, std::string> places;
  for (const Rank rank : heard_by(posts.head(), posts.unseen(), ranks)) {
    auto mirror = Mirror::create(rank);
    if (!mirror) return mirror.error();
    places[rank] = (*mirror)->place();
    made->mirrors_[rank] = std::move(*mirror);
  }
  for (const Rank rank : made->here_)
    made->sources_.push_back(std::make_unique<NoteSource>(rank, posts.memory_of(rank)));
  posts.publish_mirrors(places);
  return made;
}

void Carrier::meet(const std::vector<std::int32_t>& heads) {
  heads_ = heads;
  std::set<Rank> all;
  for (const std::int32_t head : heads)
    if (head >= 0 && Rank{head} != posts_.head()) all.insert(Rank{head});
  others_.assign(all.begin(), all.end());
  heard_.resize(others_.size());
  for (const auto& [rank, mirror] : mirrors_)  // who takes no part posts nothing
    if (heads_[static_cast<std::size_t>(rank.value)] < 0) mirror->end(PeerState::Unseen);
}

std::optional<Bytes> Carrier::next(Instant now) {
  mark_ = posts_.next_mark();
  Note note;
  more_follows_ = false;
  for (std::size_t i = 0; i < here_.size(); ++i) {
    auto of = sources_[i]->next(posts_.state(here_[i]), now);
    if (!of) continue;
    more_follows_ = more_follows_ || !of->is_whole;
    note.ranks.push_back(*std::move(of));
  }
  for (auto& [key, said] : posts_.refusals(refusals_told_)) {
    said.message.resize(std::min(said.message.size(), kTextStep));
    note.refused.push_back({key, std::move(said)});
    ++refusals_told_;
  }
  if (note.ranks.empty() && note.refused.empty() && now - told_at_ < kAtLeastEvery)
    return std::nullopt;
  told_at_ = now;
  return writer_.encode(note);
}

Bytes Carrier::to(std::size_t other, std::span<const std::byte> note) const {
  return NoteWriter::with_marks({mark_, heard_[other].heard}, note);
}

bool Carrier::came(std::size_t other, std::span<const std::byte> bytes, Instant now) {
  Other& from = heard_[other];
  if (from.is_over) return true;
  const auto read = from.reader.decode(bytes);
  if (!read || !write(other, read->note, now)) {
    end(other, false);
    return false;
  }
  from.heard = read->marks.mark;
  from.has = read->marks.heard;
  for (const auto& [rank, mirror] : mirrors_)
    if (Rank{heads_[static_cast<std::size_t>(rank.value)]} == others_[other] &&
        std::find(from.behind.begin(), from.behind.end(), rank) == from.behind.end())
      mirror->heard(read->marks.heard, now);
  return true;
}

bool Carrier::write(std::size_t other, const Note& note, Instant now) {
  heard_[other].behind.clear();
  for (const RankNote& of : note.ranks) {
    const auto at = static_cast<std::size_t>(of.rank.value);
    if (at >= heads_.size() || Rank{heads_[at]} != others_[other]) return false;
    if (!of.is_whole) heard_[other].behind.push_back(of.rank);
    const auto mirror = mirrors_.find(of.rank);
    if (mirror == mirrors_.end()) continue;
    const auto came = [&](const Group& group, const Issued& issued) {
      issuer_.arrived(group, issued);
      if (issued.number % kTrimEvery == kTrimEvery - 1) trim(*mirror->second, group, issued);
    };
    if (!mirror->second->write(of, now, came)) return false;
  }
  for (const Note::Refused& refused : note.refused)
    static_cast<void>(posts_.refuse(refused.key, refused.said));
  return true;
}

void Carrier::trim(Mirror& mirror, const Group& group, const Issued& issued) {
  std::uint64_t passed = issued.number;
  for (const Rank member : group.members)
    if (posts_.is_here(member) && posts_.state(member) == PeerState::Running)
      passed = std::min(passed, posts_.count(member, group.key));
  if (passed > 0) mirror.trim(issued.line, passed - 1);
}

std::uint64_t Carrier::all_have() const {
  std::uint64_t out = mark_;
  for (const Other& other : heard_)
    if (!other.is_over) out = std::min(out, other.has);
  return out;
}

void Carrier::end(std::size_t other, bool lost) {
  heard_[other].is_over = true;
  for (const auto& [rank, mirror] : mirrors_)
    if (Rank{heads_[static_cast<std::size_t>(rank.value)]} == others_[other])
      mirror->end(lost && rank == others_[other] ? PeerState::Lost : PeerState::Unseen);
}

}  // namespace lockstep::lines
