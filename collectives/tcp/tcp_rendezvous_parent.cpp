#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/tcp/tcp_rendezvous.h>

namespace lockstep::collectives {
namespace {

/// Where the job cannot start, those that come so much later are told why, too.
constexpr std::chrono::seconds kAftermath{4};
/// How often children are told who is missing.
constexpr std::chrono::seconds kEvery{1};
/// One whose connection has broken counts as here for so long.
constexpr std::chrono::seconds kReturn{1};
/// After so long without an answer of its system a child is gone.
constexpr std::chrono::seconds kGone{10};

}  // namespace

TcpDoor::Events TcpRendezvous::at_the_door() {
  return {.word =
              [this](const TcpLinkPtr& link, const TcpMessage& message) {
                const auto* request = std::get_if<JoinRequest>(&message);
                request != nullptr ? came(link, *request) : link->close();
              },
          .failed =
              [this](const std::string& why) {
                fail(environment_error(
                    fmt::format("Rank {} cannot take connections: {}; raise the limit of open "
                                "files (ulimit -n).",
                                options_.rank.value, why)));
                if (is_root()) end_for_all();
              }};
}

void TcpRendezvous::came(const TcpLinkPtr& link, const JoinRequest& request) {
  if (made_.list) return made_.list->came(link, request);
  const std::string at = link->peer_address();
  if (at.empty()) return;  // it is gone again; that is about to be heard
  RendezvousMembers::Answer answer = members_.join(request, at);
  if (failure_) answer.refusal = *failure_;
  if (answer.refusal) return turn_away(link, request.rank, answer);
  keep(link, request.rank, answer.wait_at.has_value());
  if (answer.wait_at) return link->send(WaitAt{*answer.wait_at});
  if (is_root()) return;
  tell_parent(request.rank, true);
  if (!missing_.empty()) link->send(Waiting{missing_});
}

void TcpRendezvous::turn_away(const TcpLinkPtr& link, Rank rank,
                              const RendezvousMembers::Answer& answer) {
  link->send(TurnedAway{answer.refusal->code, answer.refusal->message});
  link->finish();
  last_trouble_ = answer.refusal->message;
  const bool of_the_job = rank.value > 0 && rank.value < options_.size;
  if (of_the_job && (answer.ends_all || failure_)) told_.insert(RankSet::of(rank));
  if (!answer.ends_all || failure_) return;
  fail(*answer.refusal);
  end_for_all();
}

void TcpRendezvous::end_for_all() {
  turn_away_all();
  until_ = std::min(until_, clock_.now() + kAftermath);
}

/// One that is sent on is kept until it is heard of from where it was sent to, so that its end is
/// noticed; it also comes back by this connection.
void TcpRendezvous::keep(const TcpLinkPtr& link, Rank rank, bool sent_on) {
  if (const auto earlier = children_.find(rank.value); earlier != children_.end()) {
    // Of a connection of which this side has not noticed that it broke. Whoever waited with that
    // rank has lost it, too.
    if (earlier->second.link != link) earlier->second.link->close();
    const RankSet below = std::exchange(earlier->second.below, {});
    forget(below);
  }
  no_longer_below(rank);
  children_[rank.value] = {link, {}, sent_on};
  link->give_up_after(kGone);
  link->on({.message =
                [this, rank, weak = std::weak_ptr(link)](const TcpMessage& said) {
                  if (const auto* told = std::get_if<Presence>(&said)) heard_of(rank, *told);
                  if (const auto* request = std::get_if<JoinRequest>(&said);
                      request != nullptr && request->rank == rank)
                    came(weak.lock(), *request);
                },
            .ended =
                [this, rank](const Status&) {
                  RankSet gone = children_.at(rank.value).below;
                  gone.insert(RankSet::of(rank));
                  children_.erase(rank.value);
                  forget(gone);
                }});
}

/// They may come again.
void TcpRendezvous::forget(const RankSet& gone) {
  for (const RankSet::Run& run : gone.runs())
    for (std::int32_t r = run.first; r <= run.last; ++r) {
      members_.left(Rank{r}, clock_.now());
      tell_parent(Rank{r}, false);
    }
}

/// From a child, of one that waits with it or below.
void TcpRendezvous::heard_of(Rank child, const Presence& told) {
  if (told.rank == child || told.rank == options_.rank) return;
  const RankSet one = RankSet::of(told.rank);
  RankSet& below = children_.at(child.value).below;
  if (!told.here) {
    if (!below.contains(told.rank)) return;  // it has come another way since
    below = below.minus(one);
    return forget(one);
  }
  if (const auto own = children_.find(told.rank.value); own != children_.end()) {
    if (!own->second.sent_on) return;
    own->second.link->finish();
    children_.erase(own);
  }
  no_longer_below(told.rank);
  below.insert(one);
  members_.arrived(told.rank);
  tell_parent(told.rank, true);
}

/// It comes another way.
void TcpRendezvous::no_longer_below(Rank rank) {
  for (auto& [number, child] : children_)
    if (child.below.contains(rank)) child.below = child.below.minus(RankSet::of(rank));
}

void TcpRendezvous::tell_parent(Rank rank, bool here) {
  TcpLink* link = to_parent_ ? to_parent_.get() : to_root_.get();
  if (link != nullptr && link->established()) link->send(Presence{rank, here});
}

void TcpRendezvous::look_at_children() {
  members_.forget_gone(clock_.now() - kReturn);
  if (is_root() && members_.complete()) return all_have_come();
  if (clock_.now() - told_at_ < kEvery) return;
  told_at_ = clock_.now();
  if (is_root()) missing_ = members_.missing();
  for (const auto& [rank, child] : children_)
    if (!child.sent_on) child.link->send(Waiting{missing_});
}

void TcpRendezvous::turn_away_all() {
  for (auto& [rank, child] : std::exchange(children_, {})) {
    child.link->send(TurnedAway{failure_->code, failure_->message});
    child.link->finish();
    told_.insert(RankSet::of(Rank{rank}));
    told_.insert(child.below);
  }
}

/// They go back to rank 0.
void TcpRendezvous::drop_children() {
  for (auto& [rank, child] : std::exchange(children_, {})) {
    child.link->close();
    child.below.insert(RankSet::of(Rank{rank}));
    forget(child.below);
  }
}

/// Rank 0 listens at the address of the rendezvous, which the others know.
void TcpRendezvous::all_have_come() {
  made_.roster = members_.roster();
  made_.roster.front().listens.port = made_.door->port();
  const Nonce random = random_nonce();
  std::copy_n(random.begin(), made_.id.size(), made_.id.begin());
  hand_out_roster(std::move(here_));
}

void TcpRendezvous::hand_out_roster(std::unique_ptr<TcpDoor> door) {
  RankSet below;
  if (is_root()) below.insert(RankSet::range(Rank{1}, Rank{options_.size - 1}));
  for (const auto& [rank, child] : children_) {
    below.insert(RankSet::of(Rank{rank}));
    below.insert(child.below);
  }
  // They are of the list now, and come to rank 0 for it; no other process comes in their place.
  const RankSet gone = members_.gone();
  for (const RankSet::Run& run : gone.runs())
    for (std::int32_t r = run.first; r <= run.last; ++r) members_.arrived(Rank{r});
  made_.list = std::make_unique<TcpRoster>(*made_.loop, std::move(door), std::move(members_),
                                           made_.id, made_.roster, std::move(below));
  if (is_root()) made_.list->expect(gone);
  for (const auto& [rank, child] : std::exchange(children_, {}))
    made_.list->give(Rank{rank}, child.link);
  met_ = clock_.now();
}

}  // namespace lockstep::collectives
