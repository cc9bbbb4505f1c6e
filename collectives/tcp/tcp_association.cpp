#include <utility>

#include <lockstep/collectives/tcp/tcp_association.h>

namespace lockstep::collectives {

void Association::open() {
  if (state_ != State::Closed) return;
  state_ = State::Connecting;
  ++attempt_;
  link_ = port_.open();
}

void Association::established(Link link) {
  if (link != link_ || state_ != State::Connecting) return;
  state_ = State::Introduced;
  port_.introduce(link, attempt_, received_);
}

bool Association::broken(Link link) {
  if (link != link_) return false;
  link_ = 0;
  state_ = State::Closed;
  return true;
}

void Association::answered(Link link, std::uint64_t received) {
  if (link == link_ && state_ == State::Introduced) stand(received);
}

// A peer opens a connection only if it has none, so the connection that this side still uses has
// broken. Ignores an introduction that arrives after a later one.
void Association::introduced(Link link, std::uint64_t attempt, std::uint64_t received) {
  const bool crossing = state_ == State::Introduced && !yields_;
  if (attempt <= peer_attempt_ || crossing) return port_.close(link);
  peer_attempt_ = attempt;
  if (link_ != 0) port_.close(link_);
  link_ = link;
  port_.introduce(link, attempt_, received_);
  stand(received);
}

/// Called when both sides know the connection: sends again what the peer has not received.
void Association::stand(std::uint64_t received) {
  if (!acknowledged(received)) {
    port_.close(link_);
    broken(link_);
    return;
  }
  state_ = State::Up;
  told_ = received_;
  untold_bytes_ = 0;
  for (const Bytes& message : kept_) port_.write(link_, message);
}

Association::Stamp Association::next() {
  told_ = received_;
  untold_bytes_ = 0;
  return {sent_, received_};
}

void Association::send(Bytes message) {
  ++sent_;
  kept_bytes_ += message.size();
  kept_.push_back(std::move(message));
  if (up())
    port_.write(link_, kept_.back());
  else
    open();
}

Association::Arrival Association::arrived(Link link, const Stamp& stamp, std::size_t bytes) {
  if (link != link_ || !up()) return Arrival::Stale;
  if (stamp.number > received_ || !acknowledged(stamp.received)) return Arrival::Wrong;
  if (stamp.number < received_) return Arrival::Again;
  ++received_;
  untold_bytes_ += bytes;
  if (received_ - told_ >= kAcknowledgeMessages || untold_bytes_ >= kAcknowledgeBytes)
    port_.acknowledge(link_, next().received);
  return Arrival::Next;
}

bool Association::acknowledged(std::uint64_t count) {
  if (count > sent_) return false;
  while (sent_ - kept_.size() < count) {
    kept_bytes_ -= kept_.front().size();
    kept_.pop_front();
  }
  return true;
}

}  // namespace lockstep::collectives
