#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/tcp/tcp_rendezvous.h>

namespace lockstep::collectives {
namespace {

/// Where the job cannot start, those that come so much later are told why, too.
constexpr std::chrono::seconds kAftermath{2};
/// How often all are told who is missing.
constexpr std::chrono::milliseconds kEvery{500};

}  // namespace

TcpDoor::Events TcpRendezvous::at_the_door() {
  return {.word =
              [this](const TcpLinkPtr& link, const TcpMessage& message) {
                const auto* request = std::get_if<JoinRequest>(&message);
                request != nullptr ? came(link, *request) : link->close();
              },
          .failed =
              [this](const std::string& why) {
                fail({Code::Environment,
                      fmt::format("Rank {} cannot take connections: {}; raise the limit of open "
                                  "files (ulimit -n).",
                                  options_.rank.value, why),
                      "",
                      {}});
              }};
}

void TcpRendezvous::came(const TcpLinkPtr& link, const JoinRequest& request) {
  if (made_.list) return made_.list->came(link, request);
  RendezvousMembers::Answer answer = members_.join(request, link->peer_address());
  if (failure_) answer.refusal = *failure_;
  if (answer.refusal) return turn_away(link, request.rank, answer);
  if (answer.wait_at) {
    link->send(WaitAt{*answer.wait_at});
    return link->finish();
  }
  keep(link, request.rank);
}

void TcpRendezvous::turn_away(const TcpLinkPtr& link, Rank rank,
                              const RendezvousMembers::Answer& answer) {
  link->send(TurnedAway{answer.refusal->code, answer.refusal->message});
  link->finish();
  last_trouble_ = answer.refusal->message;
  if (answer.ends_all || failure_) told_.insert(RankSet::of(rank));
  if (!answer.ends_all || failure_) return;
  fail(*answer.refusal);
  turn_away_all();
  until_ = std::min(until_, clock_.now() + kAftermath);
}

void TcpRendezvous::keep(const TcpLinkPtr& link, Rank rank) {
  // In place of an earlier connection, of which this side has not noticed that it broke.
  if (const TcpLinkPtr earlier = std::exchange(waiting_[rank.value], link)) earlier->close();
  link->on({.message =
                [this](const TcpMessage& said) {
                  if (const auto* told = std::get_if<Presence>(&said)) heard_of(*told);
                },
            .ended =
                [this, rank](const Status&) {
                  waiting_.erase(rank.value);
                  heard_of({rank, false});
                }});
  if (is_root()) return;
  heard_of({rank, true});
  if (!missing_.empty()) link->send(Waiting{missing_});
}

/// Who waits here meanwhile is not gone.
void TcpRendezvous::heard_of(const Presence& told) {
  if (!told.here && waiting_.contains(told.rank.value)) return;
  told.here ? members_.arrived(told.rank) : members_.left(told.rank);
  const RankSet one = RankSet::of(told.rank);
  told.here ? below_.insert(one) : void(below_ = below_.minus(one));
  if (to_parent_ && to_parent_->established()) to_parent_->send(told);
}

void TcpRendezvous::look_who_is_missing() {
  if (members_.complete()) return all_have_come();
  if (clock_.now() - looked_ < kEvery) return;
  looked_ = clock_.now();
  RankSet missing = members_.missing();
  if (missing == missing_) return;
  missing_ = std::move(missing);
  tell_who_is_missing();
}

void TcpRendezvous::tell_who_is_missing() {
  for (const auto& [rank, link] : waiting_) link->send(Waiting{missing_});
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
void TcpRendezvous::all_have_come() {
  made_.roster = members_.roster();
  made_.roster.front().listens.port = made_.door->port();
  const Nonce random = random_nonce();
  std::copy_n(random.begin(), made_.id.size(), made_.id.begin());
  hand_out_roster(std::move(here_));
}

/// Also to children that are still on their way here.
void TcpRendezvous::hand_out_roster(std::unique_ptr<TcpDoor> door) {
  made_.list = std::make_unique<TcpRoster>(*made_.loop, std::move(door), std::move(members_),
                                           made_.id, made_.roster);
  for (const auto& [rank, link] : std::exchange(waiting_, {})) made_.list->give(Rank{rank}, link);
  met_ = clock_.now();
}

}  // namespace lockstep::collectives
