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
  sent_on_ = false;
  if (!options_.file.empty() && !read_place()) return seek_later();
  ask(options_.rendezvous);
}

void TcpRendezvous::ask(const Endpoint& parent) {
  to_parent_ = TcpLink::connect(*made_.loop, parent,
                                {.established = [this] { found(); },
                                 .message = [this](TcpMessage m) { parent_said(std::move(m)); },
                                 .ended = [this](const Status& why) { parent_ended(why); }});
}

void TcpRendezvous::parent_ended(const Status& why) {
  if (sent_on_) return seek_later();  // rank 0 knows of another
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
  if (!made_.door->listens()) {
    made_.door->on(at_the_door());
    if (auto open = listen(*made_.door, {to_parent_->own_address(), 0}); !open)
      return fail(open.error());
  }
  made_.roster.clear();  // of a connection that broke while it came
  JoinRequest request = own_request();
  request.port = made_.door->port();
  to_parent_->send(request);
  for (const RankSet::Run& run : below_.runs())
    for (std::int32_t r = run.first; r <= run.last; ++r) to_parent_->send(Presence{Rank{r}, true});
}

void TcpRendezvous::parent_said(TcpMessage message) {
  if (const auto* waiting = std::get_if<Waiting>(&message)) {
    missing_ = waiting->missing;
    tell_who_is_missing();
  } else if (const auto* elsewhere = std::get_if<WaitAt>(&message); elsewhere && !sent_on_) {
    sent_on_ = true;
    to_parent_->close();
    ask(elsewhere->parent);
  } else if (const auto* turned = std::get_if<TurnedAway>(&message)) {
    fail({turned->code, turned->message, "", {}});
  } else if (const auto* part = std::get_if<RosterPart>(&message)) {
    took(*part);
  }
}

void TcpRendezvous::took(const RosterPart& part) {
  const auto size = static_cast<std::size_t>(options_.size);
  if (part.first != made_.roster.size() || made_.roster.size() + part.peers.size() > size)
    return fail(
        {Code::Internal, "The list of ranks that rank 0 sent is none of this job.", "", {}});
  made_.roster.insert(made_.roster.end(), part.peers.begin(), part.peers.end());
  if (made_.roster.size() < size) return;
  made_.id = part.id;
  made_.roster.front().listens.address = options_.rendezvous.address;
  to_parent_->send(Acknowledgement{});
  to_parent_->finish();
  hand_out_roster(nullptr);
}

}  // namespace lockstep::collectives
