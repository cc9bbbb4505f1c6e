#include <algorithm>
#include <cstdlib>

#include <lockstep/collectives/lines/carrier.h>
#include <lockstep/collectives/lines/mirror.h>
#include <lockstep/collectives/lines/note_source.h>
#include <lockstep/collectives/lines/posts_memory.h>

namespace lockstep::lines {
namespace {

/// A mirror's line is trimmed each time this many entries, or this many bytes of values, have
/// arrived.
constexpr std::uint64_t kTrimMirrorEvery = 512, kTrimMirrorBytes = 256 << 10;

}  // namespace

std::vector<Rank> ranks_received_by(Rank head, const std::vector<Rank>& unseen, int ranks) {
  std::vector<Rank> out;
  for (const Rank rank : unseen) {
    const int apart = std::abs(rank.value - head.value);
    if (std::min(apart, ranks - apart) <= kMostElsewhere / 2) out.push_back(rank);
  }
  return out;
}

Carrier::Carrier(SharedPosts& posts, int ranks) : posts_(posts), issuer_(posts), ranks_(ranks) {}

Carrier::~Carrier() { stop(); }

Result<std::unique_ptr<Carrier>> Carrier::create(SharedPosts& posts, int ranks) {
  std::unique_ptr<Carrier> made(new Carrier(posts, ranks));
  std::map<Rank, std::string> places;
  for (const Rank rank : ranks_received_by(posts.head(), posts.unseen(), ranks)) {
    auto mirror = Mirror::create(rank, [&posts](Rank of) { return posts.is_here(of); });
    if (!mirror) return mirror.error();
    places[rank] = (*mirror)->place();
    made->mirrors_[rank] = std::move(*mirror);
  }
  posts.publish_mirrors(places);
  for (const Rank rank : posts.seen()) made->carry(rank, true);
  return made;
}

// A rank whose memory this head can read may have another head; then that head carries its posts.
void Carrier::meet(const std::vector<std::int32_t>& heads) {
  heads_ = heads;
  const Rank self = posts_.head();
  std::map<Rank, std::vector<Rank>> hosts;
  for (std::size_t rank = 0; rank < heads.size(); ++rank)
    if (heads[rank] >= 0) hosts[Rank{heads[rank]}].push_back(Rank{static_cast<std::int32_t>(rank)});
  for (const Rank rank : posts_.seen()) {
    if (!posts_.is_here(rank)) continue;
    const bool is_ours = heads[static_cast<std::size_t>(rank.value)] == self.value;
    if (is_ours) here_.push_back(rank);
    carry(rank, is_ours);
  }
  for (const Rank rank : here_)
    sources_.push_back(std::make_unique<NoteSource>(rank, posts_.memory_of(rank)));
  for (const auto& [head, ranks] : hosts) {
    all_heads_.push_back(head);
    Other other;
    for (const Rank rank : ranks)
      if (mirrors_.contains(rank)) other.ranks.push_back(rank);
    if (head == self || (other.ranks.empty() && ranks_received_by(head, here_, ranks_).empty()))
      continue;
    others_.push_back(head);
    heard_.push_back(std::move(other));
  }
  for (const auto& [rank, mirror] : mirrors_)  // ranks that take no part post nothing
    if (heads_[static_cast<std::size_t>(rank.value)] < 0) mirror->end(PeerState::Unseen);
}

std::optional<Bytes> Carrier::next(Instant now) {
  mark_ = posts_.next_mark();
  Note note;
  for (std::size_t i = 0; i < here_.size(); ++i) {
    auto of = sources_[i]->next(posts_.state(here_[i]), now);
    if (!of) continue;
    note.ranks.push_back(*std::move(of));
  }
  for (auto& [key, said] : posts_.refusals(refusals_told_)) {
    said.message.resize(std::min(said.message.size(), kTextStep));
    note.refused.push_back({key, std::move(said)});
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
  for (const Rank rank : from.ranks)
    if (std::find(from.behind.begin(), from.behind.end(), rank) == from.behind.end())
      mirrors_.at(rank)->heard(read->marks.heard, now);
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
      trim(of.rank, group, issued);
    };
    if (!mirror->second->write(of, now, came)) return false;
  }
  for (const Note::Refused& refused : note.refused)
    posts_.refused_elsewhere(refused.key, refused.said);
  return true;
}

void Carrier::trim(Rank rank, const Group& group, const Issued& issued) {
  Mirror& mirror = *mirrors_.at(rank);
  std::uint64_t& trimmed_at = trimmed_at_[{rank, group.key}];
  const std::uint64_t bytes = mirror.value_bytes(issued.line);
  if (issued.number % kTrimMirrorEvery != kTrimMirrorEvery - 1 &&
      bytes < trimmed_at + kTrimMirrorBytes)
    return;
  trimmed_at = bytes;
  std::uint64_t passed = issued.number;
  for (const int member : *group.compared) {
    const Rank here = group.members[static_cast<std::size_t>(member)];
    if (posts_.state(here) == PeerState::Running)
      passed = std::min(passed, posts_.count(here, group.key));
  }
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
  for (const Rank rank : heard_[other].ranks)
    mirrors_.at(rank)->end(lost && rank == others_[other] ? PeerState::Lost : PeerState::Unseen);
}

void Carrier::stop() {
  for (const Rank rank : posts_.seen())
    if (posts_.is_here(rank)) carry(rank, false);
  sources_.clear();
  here_.clear();
}

/// While notes carry its posts, a rank of this host frees only entries that notes have carried.
void Carrier::carry(Rank rank, bool notes_are_sent) {
  posts_.memory_of(rank).header().notes_are_sent.store(notes_are_sent ? 1 : 0);
}

}  // namespace lockstep::lines
