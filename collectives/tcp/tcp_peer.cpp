#include <utility>

#include <lockstep/collectives/tcp/tcp_peer.h>

namespace lockstep::collectives {
namespace {

/// Wire type of a Part, the only numbered message.
const std::uint8_t kPartType = type_of(Part{});

}  // namespace

TcpPeer::TcpPeer(Mesh& mesh, TcpLoop& loop, Introduction self, Rank with, Endpoint address)
    : rank(with),
      pause(loop.io),
      association(self.rank < with, *this),
      mesh_(mesh),
      loop_(loop),
      self_(self),
      address_(std::move(address)) {}

void TcpPeer::close_all() {
  for (const auto& [number, link] : std::exchange(links_, {})) link->close();
}

TcpPeer::Link TcpPeer::take(const TcpLinkPtr& link) {
  links_[++last_] = link;
  link->on(events(last_));
  return last_;
}

TcpLink::Events TcpPeer::events(Link link) {
  return {.established = [this, link] { association.established(link); },
          .message = [this, link](TcpMessage m) { mesh_.on_message(*this, link, std::move(m)); },
          .ended =
              [this, link](const Status& why) {
                const TcpLinkPtr of = std::move(links_.at(link));
                links_.erase(link);
                mesh_.on_ended(*this, link, *of, why);
              }};
}

TcpLink* TcpPeer::up() const {
  if (!association.up()) return nullptr;
  const auto found = links_.find(association.link());
  return found == links_.end() || found->second->broken() ? nullptr : found->second.get();
}

void TcpPeer::acknowledge() {
  if (TcpLink* link = up()) link->send(Acknowledgement{association.received()});
}

TcpPeer::Link TcpPeer::open() {
  const Link link = ++last_;
  links_[link] = TcpLink::connect(loop_, address_, events(link), true);
  return link;
}

void TcpPeer::introduce(Link link, std::uint64_t attempt, std::uint64_t received) {
  links_.at(link)->send(Introduction{self_.id, self_.rank, attempt, received});
}

void TcpPeer::write(Link link, std::span<const std::byte> message) {
  links_.at(link)->send(kPartType, message);
}

void TcpPeer::acknowledge(Link link, std::uint64_t received) {
  links_.at(link)->send(Acknowledgement{received});
}

void TcpPeer::close(Link link) {
  const TcpLinkPtr closed = std::move(links_.at(link));
  links_.erase(link);
  closed->close();
}

}  // namespace lockstep::collectives
