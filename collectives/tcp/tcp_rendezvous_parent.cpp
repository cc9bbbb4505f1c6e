#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/tcp/tcp_rendezvous.h>

namespace lockstep::collectives {
namespace {

/// Time for which ranks that join after the job has failed to start still get the reason.
constexpr std::chrono::seconds kAftermath{4};
/// Period at which children are sent the missing ranks.
constexpr std::chrono::seconds kEvery{1};
/// A rank whose connection broke still counts as present for this long.
constexpr std::chrono::seconds kReturn{1};
/// A child counts as gone if its system leaves sent bytes unacknowledged for this long.
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
  if (at.empty()) return;  // the connection is closed already; its event `ended` follows
  RendezvousMembers::Answer answer = members_.join(request, at);
  if (failure_) answer.refusal = *failure_;
  if (answer.refusal) return refuse_join(link, request.rank, answer);
  keep(link, request.rank, answer.wait_at.has_value());
  if (answer.wait_at) return link->send(WaitAt{*answer.wait_at});
  if (is_root()) return;
  tell_parent(request.rank, true);
  if (!missing_.empty()) link->send(Waiting{missing_});
}

void TcpRendezvous::refuse_join(const TcpLinkPtr& link, Rank rank,
                                const RendezvousMembers::Answer& answer) {
  link->send(JoinRefused{answer.refusal->code, answer.refusal->message});
  link->finish();
  last_trouble_ = answer.refusal->message;
  const bool of_the_job = rank.value > 0 && rank.value < options_.size;
  if (of_the_job && (answer.ends_all || failure_)) told_.insert(rank);
  if (!answer.ends_all || failure_) return;
  fail(*answer.refusal);
  end_for_all();
}

void TcpRendezvous::end_for_all() {
  refuse_all();
  until_ = std::min(until_, clock_.now() + kAftermath);
}

/// Keeps the connection of a rank as a child. A rank that is sent on stays a child until its
/// arrival is reported: so the end of its process is noticed, and the rank can come back over this
/// connection.
void TcpRendezvous::keep(const TcpLinkPtr& link, Rank rank, bool sent_on) {
  if (const auto earlier = children_.find(rank.value); earlier != children_.end()) {
    // The earlier connection broke without this side noticing. The ranks that waited with the child
    // have lost it, too.
    if (earlier->second.link != link) earlier->second.link->close();
    const RankSet below = std::exchange(earlier->second.below, {});
    forget(below);
  }
  no_longer_below(rank);
  children_[rank.value] = {link, {}, sent_on};
  link->give_up_after(kGone);
  link->on({.message =
                [this, rank, weak = std::weak_ptr(link)](const TcpMessage& said) {
                  if (const auto* told = std::get_if<Presence>(&said)) on_presence(rank, *told);
                  if (const auto* request = std::get_if<JoinRequest>(&said);
                      request != nullptr && request->rank == rank)
                    came(weak.lock(), *request);
                },
            .ended =
                [this, rank](const Status&) {
                  RankSet gone = children_.at(rank.value).below;
                  gone.insert(rank);
                  children_.erase(rank.value);
                  forget(gone);
                }});
}

/// Marks ranks as gone, here and at the parent. They may join again.
void TcpRendezvous::forget(const RankSet& gone) {
  for (const Rank rank : gone) {
    members_.left(rank, clock_.now());
    tell_parent(rank, false);
  }
}

/// Handles a child's report of a rank that waits with it or below it.
void TcpRendezvous::on_presence(Rank child, const Presence& told) {
  if (told.rank == child || told.rank == options_.rank) return;
  const RankSet one = RankSet::of(told.rank);
  RankSet& below = children_.at(child.value).below;
  if (!told.here) {
    if (!below.contains(told.rank)) return;  // the rank waits elsewhere by now
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

/// Called when `rank` has joined in another way: removes it from the ranks below each child.
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
  if (is_root() && members_.complete()) return on_complete();
  if (clock_.now() - told_at_ < kEvery) return;
  told_at_ = clock_.now();
  if (is_root()) missing_ = members_.missing();
  for (const auto& [rank, child] : children_)
    if (!child.sent_on) child.link->send(Waiting{missing_});
}

void TcpRendezvous::refuse_all() {
  for (auto& [rank, child] : std::exchange(children_, {})) {
    child.link->send(JoinRefused{failure_->code, failure_->message});
    child.link->finish();
    told_.insert(Rank{rank});
    told_.insert(child.below);
  }
}

/// Closes the connections of all children, which then go back to rank 0.
void TcpRendezvous::drop_children() {
  for (auto& [rank, child] : std::exchange(children_, {})) {
    child.link->close();
    child.below.insert(Rank{rank});
    forget(child.below);
  }
}

/// Called on rank 0, whose own address stays empty in the roster: the others know it.
void TcpRendezvous::on_complete() {
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
    below.insert(Rank{rank});
    below.insert(child.below);
  }
  // Ranks that are gone are on the list, too. They get it from rank 0, and no other process may
  // take their place.
  const RankSet gone = members_.gone();
  for (const Rank rank : gone) members_.arrived(rank);
  made_.list = std::make_unique<TcpRoster>(*made_.loop, std::move(door), std::move(members_),
                                           made_.id, made_.roster, std::move(below));
  if (is_root()) made_.list->expect(gone);
  for (const auto& [rank, child] : std::exchange(children_, {}))
    made_.list->give(Rank{rank}, child.link);
  met_ = clock_.now();
}

}  // namespace lockstep::collectives
