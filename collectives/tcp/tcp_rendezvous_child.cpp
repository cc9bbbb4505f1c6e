#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/tcp/rendezvous_file.h>
#include <lockstep/collectives/tcp/tcp_rendezvous.h>

namespace lockstep::collectives {
namespace {

namespace asio = boost::asio;
using Failure = boost::system::error_code;

/// Pause between two attempts to connect.
constexpr std::chrono::milliseconds kPause{50};
/// Time for which other ranks wait longer than rank 0, so that rank 0 names the missing ranks.
constexpr std::chrono::seconds kGrace{5};
/// Time after which a silent parent counts as suspended or out of reach.
constexpr std::chrono::seconds kSilence{5};
/// Added to kSilence for each rank of the job.
constexpr std::chrono::milliseconds kLonger{1};
/// Time after a rank's request for which the parent may still report the rank as missing.
constexpr std::chrono::seconds kUncounted{10};

}  // namespace

/// Reads the rendezvous file. False: rank 0 has not written it yet, or it cannot be used.
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
                              {.established = [this] { found_root(); },
                               .message = [this](TcpMessage m) { said(std::move(m)); },
                               .ended = [this](const Status& why) { root_ended(why); }});
}

/// Called when the connection to rank 0 has ended. A process that waits elsewhere does not need it.
void TcpRendezvous::root_ended(const Status& why) {
  to_root_.reset();
  if (to_parent_) return;
  drop_children();
  last_trouble_ = why.message;
  missing_ = RankSet{};
  // A file left by an earlier job may name a port that is now another process's.
  const bool left = !options_.file.empty();
  if (why.code == Code::Version && !left && why.message != "it does not answer")
    return fail({Code::Version,
                 fmt::format("The rendezvous at {} is not that of rank {}: {}; give all ranks one "
                             "secret (LOCKSTEP_TOKEN or LOCKSTEP_TOKEN_FILE) and one build.",
                             options_.rendezvous.text(), options_.rank.value, why.message)});
  seek_later();
}

void TcpRendezvous::seek_later() {
  pause_.expires_after(kPause);
  pause_.async_wait([this](const Failure& stopped) {
    if (!stopped) seek();
  });
}

void TcpRendezvous::found_root() {
  if (!made_.door->listens()) {
    made_.door->on(at_the_door());
    if (auto open = listen(*made_.door, {to_root_->own_address(), 0}); !open)
      return fail(open.error());
  }
  ask(*to_root_);
}

/// Asks the process at the other end to let this rank wait with it, and reports all ranks that wait
/// with this rank.
void TcpRendezvous::ask(TcpLink& link) {
  until_ = std::max(until_, clock_.now() + options_.patience + kGrace);
  asked_ = clock_.now();
  made_.roster.clear();  // may be incomplete, if the connection broke on the way
  JoinRequest request = own_request();
  request.port = made_.door->port();
  link.send(request);
  for (const auto& [rank, child] : children_) {
    RankSet here = child.below;
    here.insert(Rank{rank});
    for (const Rank there : here) link.send(Presence{there, true});
  }
}

void TcpRendezvous::go_to(const Endpoint& parent) {
  heard_ = clock_.now();
  to_parent_ = TcpLink::connect(*made_.loop, parent,
                                {.established =
                                     [this] {
                                       heard_ = clock_.now();
                                       ask(*to_parent_);
                                     },
                                 .message = [this](TcpMessage m) { said(std::move(m)); },
                                 .ended = [this](const Status&) { lost_parent(); }});
}

/// Goes back to rank 0, which then keeps this rank. The ranks that waited with this rank go back,
/// too.
void TcpRendezvous::lost_parent() {
  to_parent_.reset();
  drop_children();
  to_root_ && to_root_->established() ? ask(*to_root_) : seek_later();
}

/// Leaves a parent that is silent (parents send something every second), or that still reports this
/// rank as missing. Then rank 0 may not know where this rank waits, because a connection broke on
/// the way.
void TcpRendezvous::look_at_parent() {
  if (!to_parent_) return;
  const Instant now = clock_.now();
  const bool silent = now - heard_ > kSilence + options_.size * kLonger;
  const bool uncounted =
      to_parent_->established() && now - asked_ > kUncounted && missing_.contains(options_.rank);
  if (!silent && !uncounted) return;
  to_parent_->close();
  lost_parent();
}

void TcpRendezvous::said(TcpMessage message) {
  heard_ = clock_.now();
  if (const auto* waiting = std::get_if<Waiting>(&message)) {
    missing_ = waiting->missing;
  } else if (const auto* elsewhere = std::get_if<WaitAt>(&message); elsewhere && !to_parent_) {
    drop_children();  // reports to rank 0 that the children are gone
    go_to(elsewhere->parent);
  } else if (const auto* turned = std::get_if<JoinRefused>(&message)) {
    fail({turned->code, turned->message, "", {}});
    refuse_all();
  } else if (const auto* part = std::get_if<RosterPart>(&message)) {
    took(*part);
  }
}

void TcpRendezvous::took(const RosterPart& part) {
  const auto size = static_cast<std::size_t>(options_.size);
  if (part.first != made_.roster.size() || made_.roster.size() + part.peers.size() > size)
    return fail(internal_error("The list of ranks that rank 0 sent is none of this job."));
  made_.roster.insert(made_.roster.end(), part.peers.begin(), part.peers.end());
  if (made_.roster.size() < size) return;
  made_.id = part.id;
  made_.roster.front().listens.address = options_.rendezvous.address;
  giver_ = to_parent_ ? to_parent_ : to_root_;
  giver_->on({});
  hand_out_roster(nullptr);
}

}  // namespace lockstep::collectives
