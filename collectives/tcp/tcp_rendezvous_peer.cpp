#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/tcp/rendezvous_file.h>
#include <lockstep/collectives/tcp/tcp_rendezvous.h>

namespace lockstep::collectives {
namespace {

namespace asio = boost::asio;
using Failure = boost::system::error_code;

/// Between two attempts to connect.
constexpr std::chrono::milliseconds kPause{50};
/// Rank 0 is the one to say who is missing; the others wait so much longer for it.
constexpr std::chrono::seconds kGrace{2};

}  // namespace

/// False: rank 0 has not said yet where it listens, or has said nothing that can be believed.
bool TcpRendezvous::read_place() {
  const auto word = read_rendezvous(options_.file);
  if (!word) {
    if (word.error().code != Code::Environment) fail(word.error());
    return false;
  }
  options_.rendezvous = word->at;
  made_.loop->secret = secret_of_ranks(word->secret);
  return true;
}

void TcpRendezvous::seek() {
  if (!options_.file.empty() && !read_place()) return seek_later();
  to_root_ = TcpLink::connect(*made_.loop, options_.rendezvous,
                              {.established = [this] { found(); },
                               .message = [this](TcpMessage m) { root_said(std::move(m)); },
                               .ended = [this](const Status& why) { root_ended(why); }});
}

void TcpRendezvous::root_ended(const Status& why) {
  last_trouble_ = why.message;
  missing_ = RankSet{};
  // A file that an earlier job has left may name a port that is another's by now.
  const bool left = !options_.file.empty();
  if (why.code == Code::Version && !left && why.message != "it does not answer")
    return fail({Code::Version,
                 fmt::format("The rendezvous at {} is not that of rank {}: {}; give all ranks one "
                             "secret (LOCKSTEP_TOKEN or LOCKSTEP_TOKEN_FILE) and one build.",
                             options_.rendezvous.text(), options_.rank.value, why.message),
                 "",
                 {}});
  seek_later();
}

void TcpRendezvous::seek_later() {
  pause_.expires_after(kPause);
  pause_.async_wait([this](const Failure& stopped) {
    if (!stopped) seek();
  });
}

void TcpRendezvous::found() {
  until_ = std::max(until_, clock_.now() + options_.patience + kGrace);
  if (!acceptor_.is_open())
    if (auto open = listen({to_root_->own_address(), 0}); !open) return fail(open.error());
  Failure ignored;
  JoinRequest request = own_request();
  request.port = acceptor_.local_endpoint(ignored).port();
  to_root_->send(request);
}

void TcpRendezvous::root_said(TcpMessage message) {
  if (const auto* waiting = std::get_if<Waiting>(&message)) {
    missing_ = waiting->missing;
  } else if (const auto* turned = std::get_if<TurnedAway>(&message)) {
    fail({turned->code, turned->message, "", {}});
  } else if (const auto* part = std::get_if<RosterPart>(&message)) {
    took(*part);
  }
}

void TcpRendezvous::took(const RosterPart& part) {
  if (part.first != made_.roster.size() ||
      made_.roster.size() + part.peers.size() > made_.links.size())
    return fail(
        {Code::Internal, "The list of ranks that rank 0 sent is none of this job.", "", {}});
  made_.roster.insert(made_.roster.end(), part.peers.begin(), part.peers.end());
  if (made_.roster.size() < made_.links.size()) return;
  id_ = part.id;
  met_ = true;
  keep(Rank{0}, std::exchange(to_root_, nullptr));
  for (std::int32_t r = 1; r < options_.rank.value; ++r) reach(Rank{r});
}

void TcpRendezvous::reach(Rank peer) {
  const auto at = static_cast<std::size_t>(peer.value);
  auto established = [this, peer] {
    const TcpLinkPtr link = reaching_.at(peer.value);
    link->send(Introduction{id_, options_.rank});
    keep(peer, link);
  };
  // Tried again until time is up: rank 0 says if the peer is gone.
  auto ended = [this, peer](const Status& why) {
    last_trouble_ = fmt::format("rank {}: {}", peer.value, why.message);
    reaching_.erase(peer.value);
    auto pause = std::make_shared<asio::steady_timer>(made_.loop->io, kPause);
    pause->async_wait([this, peer, pause](const Failure& stopped) {
      if (!stopped) reach(peer);
    });
  };
  reaching_[peer.value] =
      TcpLink::connect(*made_.loop, made_.roster[at].listens,
                       {.established = std::move(established), .ended = std::move(ended)});
}

void TcpRendezvous::introduced(const TcpLinkPtr& link, const Introduction& word) {
  const auto at = static_cast<std::size_t>(word.rank.value);
  if (!met_ || word.id != id_ || word.rank <= options_.rank || at >= made_.links.size() ||
      made_.links[at])
    return link->close();
  keep(word.rank, link);
}

}  // namespace lockstep::collectives
