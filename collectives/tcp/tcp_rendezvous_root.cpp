#include <utility>

#include <lockstep/collectives/tcp/tcp_rendezvous.h>

namespace lockstep::collectives {
namespace {

/// Where the job cannot start, those that come so much later are told why, too.
constexpr std::chrono::seconds kAftermath{2};

}  // namespace

void TcpRendezvous::came(const TcpLinkPtr& link, const JoinRequest& request) {
  RendezvousMembers::Answer answer = members_.join(request, link->peer_address());
  if (failure_) answer.refusal = *failure_;
  if (answer.refusal) {
    link->send(TurnedAway{answer.refusal->code, answer.refusal->message});
    link->finish();
    last_trouble_ = answer.refusal->message;
    if (answer.ends_all || failure_) told_.insert(RankSet::of(request.rank));
    if (answer.ends_all && !failure_) {
      fail(*answer.refusal);
      turn_away_all();
      until_ = std::min(until_, clock_.now() + kAftermath);
    }
    return;
  }
  const Rank rank = request.rank;
  waiting_[rank.value] = link;
  link->on({.ended = [this, rank](const Status&) {
    waiting_.erase(rank.value);
    members_.left(rank);
  }});
  if (members_.missing().empty()) hand_out_roster();
}

void TcpRendezvous::tell_who_is_missing() {
  const RankSet missing = members_.missing();
  if (missing == missing_) return;
  missing_ = missing;
  for (const auto& [rank, link] : waiting_) link->send(Waiting{missing});
}

void TcpRendezvous::turn_away_all() {
  for (const auto& [rank, link] : waiting_) {
    link->send(TurnedAway{failure_->code, failure_->message});
    link->finish();
    told_.insert(RankSet::of(Rank{rank}));
  }
  waiting_.clear();
}

/// Rank 0 listens at the address of the rendezvous, which the others know.
void TcpRendezvous::hand_out_roster() {
  made_.roster = members_.roster();
  made_.roster.front().listens.port = made_.door->port();
  const Nonce random = random_nonce();
  std::copy_n(random.begin(), made_.id.size(), made_.id.begin());
  for (std::size_t first = 0; first < made_.roster.size(); first += RosterPart::kMostPeers) {
    const std::size_t end = std::min(first + RosterPart::kMostPeers, made_.roster.size());
    RosterPart part{made_.id, static_cast<std::uint32_t>(first), {}};
    for (std::size_t r = first; r < end; ++r) part.peers.push_back(made_.roster[r]);
    for (const auto& [rank, link] : waiting_) link->send(part);
  }
  met_ = true;
  for (const auto& [number, link] : waiting_)
    link->on({.ended = [this, rank = number](const Status&) { waiting_.erase(rank); }});
}

}  // namespace lockstep::collectives
