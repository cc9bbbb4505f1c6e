#include <algorithm>
#include <utility>

#include <lockstep/collectives/tcp/tcp_departure.h>

namespace lockstep::collectives {
namespace {

/// Time limit for sending last messages.
constexpr std::chrono::milliseconds kLastWords{200};
/// kStays: time for which a process with a verdict stays for peers that are about to connect.
/// kConnected, kReopens: time limits for the acknowledgement of last messages over an open
/// connection, and for opening one again.
constexpr std::chrono::milliseconds kStays{400}, kConnected{2000}, kReopens{5000};

/// True if there is time left for `peer` to receive the messages that were sent at `since`.
bool may_still_receive(const TcpPeer& peer, Instant since, Instant now) {
  if (peer.up() == nullptr) return now < since + kReopens;
  return now < std::clamp(peer.connected_at, since, since + kReopens) + kConnected;
}

}  // namespace

void TcpDeparture::set(const Status& verdict, Instant now) {
  if (!verdict_) verdict_at_ = now;
  verdict_ = verdict;
}

bool TcpDeparture::stays(Instant now) const { return verdict_ && now < verdict_at_ + kStays; }

bool TcpDeparture::flushes(const TcpPeer& peer, std::size_t in_ring, Instant since,
                           Instant now) const {
  if (verdict_)
    return !peer.has_verdict && !peer.gone &&
           (peer.association.state() != Association::State::Closed || peer.out_of_reach) &&
           may_still_receive(peer, verdict_at_, now);
  if (now >= since + kLastWords) return false;
  const TcpLink* link = peer.up();
  return in_ring > 0 || (link != nullptr && link->queued() > 0);
}

bool TcpDeparture::lingers(const TcpPeer& peer, std::size_t unacknowledged, bool to_the_last,
                           Instant since, Instant now) const {
  return !verdict_ && !peer.gone && (to_the_last || !peer.finished) && unacknowledged > 0 &&
         may_still_receive(peer, since, now);
}

}  // namespace lockstep::collectives
