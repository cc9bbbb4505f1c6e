#include <algorithm>
#include <bit>

#include <lockstep/collectives/tcp/tcp_carrier.h>
#include <lockstep/collectives/tcp/tcp_mesh.h>
#include <lockstep/collectives/tree.h>

namespace lockstep::collectives {
namespace {

std::vector<std::uint64_t> hosts_of(const TcpMesh& mesh) {
  std::vector<std::uint64_t> hosts;
  for (std::int32_t r = 0; r < mesh.size(); ++r) hosts.push_back(mesh.peer(Rank{r}).host_id);
  return hosts;
}

}  // namespace

TcpCarrier::TcpCarrier(TcpMesh& mesh, Board& board, Duration deadline)
    : TcpCarrier(mesh, board, deadline, hosts_of(mesh)) {}

TcpCarrier::TcpCarrier(TcpMesh& mesh, Board& board, Duration deadline,
                       std::vector<std::uint64_t> hosts)
    : mesh_(mesh),
      board_(board),
      ids_(std::move(hosts)),
      every_(every(mesh.size())),
      deadline_(deadline) {
  std::map<std::uint64_t, int> numbers;
  for (std::int32_t r = 0; r < mesh.size(); ++r) {
    const auto [found, is_new] =
        numbers.try_emplace(ids_[static_cast<std::size_t>(r)], static_cast<int>(hosts_.size()));
    if (is_new) hosts_.emplace_back();
    hosts_[static_cast<std::size_t>(found->second)].push_back(Rank{r});
    host_of_.push_back(found->second);
  }
  own_ = host_of_[static_cast<std::size_t>(mesh.rank().value)];
  // In the ordered tree the hosts reached through a neighbour are a range, or all but a range.
  const auto count = static_cast<int>(hosts_.size());
  const TreePlace place = TreePlace::of(Rank{own_}, count);
  int low = 0, high = count - 1;  // hosts of the subtree of this host
  for (int head = low + (high - low) / 2; head != own_; head = low + (high - low) / 2)
    (own_ < head ? high : low) = own_ < head ? head - 1 : head + 1;
  if (place.left) neighbours_.push_back({place.left->value, low, own_ - 1, true});
  if (place.right) neighbours_.push_back({place.right->value, own_ + 1, high, true});
  if (place.parent) neighbours_.push_back({place.parent->value, low, high, false});
  const auto log = static_cast<int>(std::bit_width(static_cast<unsigned>(count)));
  const int between = std::max(0, 2 * (log - 1) - 1);
  silence_ += 2 * between * every_ + 4 * (every_ - kEvery);
}

Duration TcpCarrier::every(int ranks) {
  return std::max<Duration>(kEvery, ranks * std::chrono::microseconds(100));
}

void TcpCarrier::look(Instant now) {
  if (neighbours_.empty() || (looked_ && now - *looked_ < kEvery)) return;
  const bool lowest = hosts_[static_cast<std::size_t>(own_)].front() == mesh_.rank();
  if (!looked_)
    not_before_ = lowest ? now : now + kTakesOver;
  else if (now - *looked_ > kTakesOver)  // suspended: another rank may speak by now
    not_before_ = now + 2 * kEvery;
  looked_ = now;
  board_.seat(mesh_.rank()).beat(now);
  hear(now);
  if (!speaks(now) || (spoke_ && now - *spoke_ < every_)) return;
  spoke_ = now;
  for (const Neighbour& each : neighbours_) tell(now, each);
}

/// True if this rank is the speaker: no lower rank of its host has lately noted that it runs.
bool TcpCarrier::speaks(Instant now) {
  for (const Rank rank : hosts_[static_cast<std::size_t>(own_)]) {
    if (rank == mesh_.rank()) return now >= not_before_;
    if (now - board_.state(rank).beat < kTakesOver) return false;
  }
  return false;
}

/// Starts from the board, on which the previous speaker has written what it received.
void TcpCarrier::take_turn() {
  heard_.clear();
  for (std::int32_t r = 0; r < mesh_.size(); ++r)
    if (RankState state = board_.state(Rank{r}); state.carried)
      heard_[r] = {Rank{r}, std::move(state), board_.begun(Rank{r})};
}

void TcpCarrier::hear(Instant now) {
  const bool own_turn = speaks(now);
  if (own_turn && !turn_) take_turn();
  turn_ = own_turn;
  for (auto& [rank, told] : mesh_.take_progress()) {
    if (!own_turn || host_of_[static_cast<std::size_t>(rank)] == own_) continue;
    RankState& state = told.state;
    state.progress = now - state.progress;
    state.beat = now - state.beat;
    state.lease += state.lease > Instant{0} ? now : Instant{0};
    heard_[rank] = std::move(told);
  }
  if (!own_turn) return told_.clear();
  for (const auto& [rank, told] : heard_) {
    RankState shown = told.state;
    // The rank is suspended or out of reach: an earlier wait no longer excuses it.
    if (!shown.finished && now - shown.beat > silence_) {
      shown.waiting = false;
      shown.lease = std::min(shown.lease, shown.beat + silence_ + deadline_);
    }
    board_.carry(Rank{rank}, shown, told.begun, ids_[static_cast<std::size_t>(rank)]);
  }
}

/// The lowest rank of `host` that is known to run.
std::optional<Rank> TcpCarrier::running(int host, Instant now) const {
  for (const Rank rank : hosts_[static_cast<std::size_t>(host)]) {
    const auto heard = heard_.find(rank.value);
    if (heard != heard_.end() && now - heard->second.state.beat < kTakesOver + 2 * every_)
      return rank;
  }
  return std::nullopt;
}

/// The hosts to send to in order to reach `host`: `host` itself and, if it has not been known to
/// run for a while, the hosts beyond it.
std::set<int> TcpCarrier::reached_by(int host, Instant now) {
  std::set<int> out, seen{own_};
  std::vector<int> left{host};
  while (!left.empty()) {
    const int next = left.back();
    left.pop_back();
    if (!seen.insert(next).second) continue;
    const Instant since = told_.try_emplace(next, now).first->second;
    if (running(next, now)) {
      told_[next] = now;
      out.insert(next);
      continue;
    }
    out.insert(next);  // the host may run again
    if (now - since < kTakesOver + 2 * every_) continue;
    const TreePlace place = TreePlace::of(Rank{next}, static_cast<int>(hosts_.size()));
    for (const auto& beyond : {place.parent, place.left, place.right})
      if (beyond) left.push_back(beyond->value);
  }
  return out;
}

/// Reads the counts after the slot: a rank whose slot shows a wait has already counted its
/// operation.
std::optional<RankProgress> TcpCarrier::known(Rank rank) const {
  if (host_of_[static_cast<std::size_t>(rank.value)] == own_) {
    RankProgress own{rank, board_.state(rank), {}};
    if (!own.state.known) return std::nullopt;
    own.begun = board_.begun(rank);
    return own;
  }
  const auto heard = heard_.find(rank.value);
  return heard == heard_.end() ? std::nullopt : std::optional(heard->second);
}

void TcpCarrier::tell(Instant now, const Neighbour& to) {
  std::vector<RankProgress> words;
  for (std::int32_t r = 0; r < mesh_.size(); ++r) {
    const int host = host_of_[static_cast<std::size_t>(r)];
    if ((host >= to.low && host <= to.high) == to.within) continue;  // on the neighbour's side
    auto word = known(Rank{r});
    if (!word) continue;
    word->state.progress = now - word->state.progress;
    word->state.beat = now - word->state.beat;
    word->state.lease = std::max(Instant{0}, word->state.lease - now);
    words.push_back(*std::move(word));
  }
  for (const int host : reached_by(to.host, now))
    mesh_.send_progress(running(host, now).value_or(hosts_[static_cast<std::size_t>(host)].front()),
                        words);
}

}  // namespace lockstep::collectives
