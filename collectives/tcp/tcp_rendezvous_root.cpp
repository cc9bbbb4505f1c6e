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
  // In place of an earlier connection, of which this side has not noticed that it broke.
  const Rank rank = request.rank;
  if (const TcpLinkPtr earlier = std::exchange(waiting_[rank.value], link)) earlier->close();
  link->on({.ended = [this, rank](const Status&) {
    waiting_.erase(rank.value);
    members_.left(rank);
  }});
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
  made_.list = std::make_unique<TcpRoster>(*made_.loop, std::move(here_), std::move(members_),
                                           made_.id, made_.roster);
  for (const auto& [rank, link] : std::exchange(waiting_, {})) made_.list->give(Rank{rank}, link);
  met_ = clock_.now();
}

}  // namespace lockstep::collectives
