#include <algorithm>
#include <utility>

#include <lockstep/collectives/tcp/tcp_roster.h>

namespace lockstep::collectives {

TcpRoster::TcpRoster(TcpLoop& loop, std::unique_ptr<TcpDoor> door, RendezvousMembers members,
                     const RendezvousId& id, const std::vector<Peer>& peers, RankSet below)
    : door_(std::move(door)),
      members_(std::move(members)),
      without_(std::move(below)),
      limit_(loop.io) {
  for (std::size_t first = 0; first < peers.size(); first += RosterPart::kMostPeers) {
    const auto from = peers.begin() + static_cast<std::ptrdiff_t>(first);
    const std::size_t count = std::min(RosterPart::kMostPeers, peers.size() - first);
    parts_.push_back(
        {id, static_cast<std::uint32_t>(first), {from, from + static_cast<std::ptrdiff_t>(count)}});
  }
  if (door_)
    door_->on({.word =
                   [this](const TcpLinkPtr& link, const TcpMessage& message) {
                     const auto* request = std::get_if<JoinRequest>(&message);
                     request != nullptr ? came(link, *request) : link->close();
                   },
               .failed = {}});
  without_.empty() ? stop() : stop_later();
}

void TcpRoster::stop_later() {
  limit_.expires_after(kPatience);
  limit_.async_wait([this](const boost::system::error_code& stopped) {
    if (stopped) return;
    ++times_ < kMostTimes && !done() ? stop_later() : stop();
  });
}

TcpRoster::~TcpRoster() { stop(); }

void TcpRoster::stop() {
  over_ = true;
  limit_.cancel();
  if (door_) door_->close();
  parts_.clear();
  for (const auto& [rank, link] : std::exchange(reading_, {})) link->close();
}

void TcpRoster::came(const TcpLinkPtr& link, const JoinRequest& request) {
  if (over_) return link->close();
  std::optional<Status> refusal = members_.join(request, link->peer_address()).refusal;
  if (ended_) refusal = ended_;
  if (!refusal) return give(request.rank, link);
  link->send(JoinRefused{refusal->code, refusal->message});
  link->finish();
}

void TcpRoster::give(Rank rank, const TcpLinkPtr& link) {
  // This connection replaces an earlier one that broke without this side noticing.
  if (const TcpLinkPtr earlier = std::exchange(reading_[rank.value], link)) earlier->close();
  link->on({.message =
                [this, rank](const TcpMessage& said) {
                  if (std::holds_alternative<Acknowledgement>(said)) has(rank);
                },
            .ended = [this, rank](const Status&) { reading_.erase(rank.value); }});
  expect(RankSet::of(rank));
  for (const RosterPart& part : parts_) link->send(part);
}

void TcpRoster::has(Rank rank) {
  if (const auto found = reading_.find(rank.value); found != reading_.end()) {
    found->second->finish();
    reading_.erase(found);
  }
  without_ = without_.minus(RankSet::of(rank));
  expected_ = expected_.minus(RankSet::of(rank));
  if (without_.empty()) stop();
}

}  // namespace lockstep::collectives
