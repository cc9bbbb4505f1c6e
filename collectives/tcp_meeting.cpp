#include <algorithm>
#include <set>

#include <boost/asio/ip/tcp.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/collectives/arrivals.h>
#include <lockstep/collectives/base/board.h>
#include <lockstep/collectives/hmac.h>
#include <lockstep/collectives/tcp.h>
#include <lockstep/collectives/tcp_mesh.h>

namespace lockstep::collectives {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Failure = boost::system::error_code;
using LinkPtr = std::shared_ptr<TcpLink>;

/// Between two attempts to connect.
constexpr std::chrono::milliseconds kPause{50};
/// Rank 0 is the one to say who is missing; the others wait so much longer for it.
constexpr std::chrono::seconds kGrace{2};
/// Where the job cannot start, those that come so much later are told why, too.
constexpr std::chrono::seconds kAftermath{2};
/// How long last words may take to go out.
constexpr std::chrono::milliseconds kLastWords{200};
/// Connections that have not proven the secret, beside one for each rank.
constexpr std::size_t kStrangers = 64;

double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

std::string named(const RankSet& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", ranks.text());
}

std::string host_name() {
  std::array<char, 129> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// Not the coordinator's: who speaks to that is not taken for a rank.
Secret secret_of_ranks(const Secret& shared) {
  const Mac mac = hmac_sha256(shared, std::as_bytes(std::span(std::string_view("lockstep ranks"))));
  return {mac.begin(), mac.end()};
}

/// One process at the rendezvous, up to when it is connected with all others.
class Meeting {
 public:
  explicit Meeting(const TcpOptions& options)
      : options_(options),
        acceptor_(made_.loop->io),
        pause_(made_.loop->io),
        until_(clock_.now() + options.patience),
        arrivals_(own_arrival()) {
    made_.self = options.rank;
    made_.loop->secret = secret_of_ranks(options.secret);
    made_.links.resize(static_cast<std::size_t>(options.size));
  }
  ~Meeting();
  [[nodiscard]] Result<TcpMeeting> run();

 private:
  [[nodiscard]] Arrival own_arrival() const;
  [[nodiscard]] bool host() const { return options_.rank.value == 0; }
  [[nodiscard]] bool complete() const;
  [[nodiscard]] Result<void> listen(const Endpoint& at);
  void accept();
  void welcome(tcp::socket socket);
  // As rank 0:
  void came(const LinkPtr& link, const Arrival& arrival);
  void tell_who_is_missing();
  void turn_away_all();
  void hand_out_roster();
  // As another rank:
  void seek();
  void found();
  void host_said(TcpMessage message);
  void host_ended(const Status& why);
  void took(const RosterPart& part);
  void reach(Rank peer);
  void introduced(const LinkPtr& link, const Introduction& word);
  void keep(Rank peer, const LinkPtr& link);
  void fail(Status status);
  [[nodiscard]] Status too_late() const;

  TcpOptions options_;
  SystemClock clock_;
  TcpMeeting made_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  Instant until_;
  Arrivals arrivals_;
  std::deque<LinkPtr> strangers_;           // by age
  std::map<std::int32_t, LinkPtr> guests_;  // of rank 0: who waits for the others
  LinkPtr to_host_;                         // of the others
  std::map<std::int32_t, LinkPtr> reaching_;
  MeetingId meeting_{};
  RankSet missing_;
  RankSet told_;  // by rank 0: that the job cannot start
  std::string last_trouble_;
  bool met_ = false;  // all have come, and it is known where they are
  std::optional<Status> failure_;
};

Meeting::~Meeting() {
  Failure ignored;
  acceptor_.close(ignored);
  for (const LinkPtr& link : strangers_) link->close();
  for (const auto& [rank, link] : guests_) link->close();
  for (const auto& [rank, link] : reaching_) link->close();
  if (to_host_) to_host_->close();
}

Arrival Meeting::own_arrival() const {
  return {.version = kTcpVersion,
          .job = options_.job,
          .rank = options_.rank,
          .size = options_.size,
          .build = options_.build,
          .host = host_name(),
          .host_id = host_id(),
          .pid = ::getpid(),
          .port = 0};
}

void Meeting::fail(Status status) {
  if (!failure_) failure_ = std::move(status);
}

bool Meeting::complete() const {
  std::size_t there = 1;
  for (const LinkPtr& link : made_.links) there += link ? 1 : 0;
  return met_ && there == made_.links.size();
}

Result<void> Meeting::listen(const Endpoint& at) {
  Failure failure;
  const auto address = asio::ip::make_address(at.address, failure);
  const tcp::endpoint where(address, at.port);
  acceptor_.open(where.protocol(), failure);
  if (!failure) acceptor_.set_option(asio::socket_base::reuse_address(true), failure);
  if (!failure) ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
  if (!failure) acceptor_.bind(where, failure);
  if (!failure) acceptor_.listen(asio::socket_base::max_listen_connections, failure);
  if (!failure) return accept(), Result<void>{};
  return Status{Code::Environment,
                fmt::format("Rank {} cannot listen at {}: {}{}.", options_.rank.value, at.text(),
                            failure.message(),
                            host() ? "; the rendezvous is an address of the host of rank 0, with a "
                                     "port that is free"
                                   : ""),
                "",
                {}};
}

void Meeting::accept() {
  acceptor_.async_accept([this](const Failure& failure, tcp::socket socket) {
    if (failure == asio::error::operation_aborted) return;
    if (!failure) {
      welcome(std::move(socket));
      return accept();
    }
    fail({Code::Environment,
          fmt::format("Rank {} cannot take connections: {}; raise the limit of open files "
                      "(ulimit -n).",
                      options_.rank.value, failure.message()),
          "",
          {}});
  });
}

void Meeting::welcome(tcp::socket socket) {
  if (strangers_.size() >= kStrangers + made_.links.size()) {
    strangers_.front()->close();
    strangers_.pop_front();
  }
  const LinkPtr link = TcpLink::accept(*made_.loop, std::move(socket), {});
  strangers_.push_back(link);
  const std::weak_ptr<TcpLink> weak = link;
  const auto forget = [this](const LinkPtr& gone) { std::erase(strangers_, gone); };
  link->on({.message =
                [this, weak, forget](const TcpMessage& message) {
                  const LinkPtr self = weak.lock();
                  forget(self);
                  const auto* arrival = std::get_if<Arrival>(&message);
                  const auto* word = std::get_if<Introduction>(&message);
                  if (host() && arrival != nullptr) return came(self, *arrival);
                  if (!host() && word != nullptr) return introduced(self, *word);
                  self->close();
                },
            .ended = [weak, forget](const Status&) { forget(weak.lock()); }});
}

void Meeting::came(const LinkPtr& link, const Arrival& arrival) {
  Arrivals::Answer answer = arrivals_.come(arrival, link->peer_address());
  if (failure_) answer.refusal = *failure_;
  if (answer.refusal) {
    link->send(TurnedAway{answer.refusal->code, answer.refusal->message});
    link->finish();
    last_trouble_ = answer.refusal->message;
    if (answer.ends_all || failure_) told_.insert(RankSet::of(arrival.rank));
    if (answer.ends_all && !failure_) {
      fail(*answer.refusal);
      turn_away_all();
      until_ = std::min(until_, clock_.now() + kAftermath);
    }
    return;
  }
  const Rank rank = arrival.rank;
  guests_[rank.value] = link;
  link->on({.ended = [this, rank](const Status&) {
    guests_.erase(rank.value);
    arrivals_.gone(rank);
  }});
  if (arrivals_.missing().empty()) hand_out_roster();
}

void Meeting::tell_who_is_missing() {
  const RankSet missing = arrivals_.missing();
  if (missing == missing_) return;
  missing_ = missing;
  for (const auto& [rank, link] : guests_) link->send(Waiting{missing});
}

void Meeting::turn_away_all() {
  for (const auto& [rank, link] : guests_) {
    link->send(TurnedAway{failure_->code, failure_->message});
    link->finish();
    told_.insert(RankSet::of(Rank{rank}));
  }
  guests_.clear();
}

void Meeting::hand_out_roster() {
  made_.roster = arrivals_.roster();
  const Nonce random = random_nonce();
  std::copy_n(random.begin(), meeting_.size(), meeting_.begin());
  for (std::size_t first = 0; first < made_.roster.size(); first += RosterPart::kMostPeers) {
    const std::size_t end = std::min(first + RosterPart::kMostPeers, made_.roster.size());
    RosterPart part{meeting_, static_cast<std::uint32_t>(first), {}};
    for (std::size_t r = first; r < end; ++r) part.peers.push_back(made_.roster[r]);
    for (const auto& [rank, link] : guests_) link->send(part);
  }
  met_ = true;
  for (const auto& [rank, link] : std::exchange(guests_, {})) keep(Rank{rank}, link);
}

/// From now on it is one of the job's.
void Meeting::keep(Rank peer, const LinkPtr& link) {
  made_.links[static_cast<std::size_t>(peer.value)] = link;
  reaching_.erase(peer.value);
  link->on({.message =
                [this, peer](TcpMessage message) {
                  if (const auto* verdict = std::get_if<Verdict>(&message)) fail(verdict->status);
                  made_.early.emplace_back(peer, std::move(message));
                },
            .ended =
                [this, peer](const Status& why) {
                  const Peer& gone = made_.roster[static_cast<std::size_t>(peer.value)];
                  fail({Code::RankLost,
                        fmt::format("Rank {} ended at the start of the job (process {} on {}; {}); "
                                    "its own output says why.",
                                    peer.value, gone.pid, gone.host, why.message),
                        "",
                        {}});
                }});
}

void Meeting::seek() {
  to_host_ = TcpLink::connect(*made_.loop, options_.rendezvous,
                              {.established = [this] { found(); },
                               .message = [this](TcpMessage m) { host_said(std::move(m)); },
                               .ended = [this](const Status& why) { host_ended(why); }});
}

void Meeting::host_ended(const Status& why) {
  last_trouble_ = why.message;
  missing_ = RankSet{};
  if (why.code == Code::Version && why.message != "it does not answer")
    return fail({Code::Version,
                 fmt::format("The rendezvous at {} is not that of rank {}: {}; give all ranks one "
                             "secret (LOCKSTEP_TOKEN or LOCKSTEP_TOKEN_FILE) and one build.",
                             options_.rendezvous.text(), options_.rank.value, why.message),
                 "",
                 {}});
  pause_.expires_after(kPause);
  pause_.async_wait([this](const Failure& stopped) {
    if (!stopped) seek();
  });
}

void Meeting::found() {
  until_ = std::max(until_, clock_.now() + options_.patience + kGrace);
  if (!acceptor_.is_open())
    if (auto open = listen({to_host_->own_address(), 0}); !open) return fail(open.error());
  Failure ignored;
  Arrival arrival = own_arrival();
  arrival.port = acceptor_.local_endpoint(ignored).port();
  to_host_->send(arrival);
}

void Meeting::host_said(TcpMessage message) {
  if (const auto* waiting = std::get_if<Waiting>(&message)) {
    missing_ = waiting->missing;
  } else if (const auto* turned = std::get_if<TurnedAway>(&message)) {
    fail({turned->code, turned->message, "", {}});
  } else if (const auto* part = std::get_if<RosterPart>(&message)) {
    took(*part);
  }
}

void Meeting::took(const RosterPart& part) {
  if (part.first != made_.roster.size() ||
      made_.roster.size() + part.peers.size() > made_.links.size())
    return fail(
        {Code::Internal, "The list of ranks that rank 0 sent is none of this job.", "", {}});
  made_.roster.insert(made_.roster.end(), part.peers.begin(), part.peers.end());
  if (made_.roster.size() < made_.links.size()) return;
  meeting_ = part.meeting;
  met_ = true;
  keep(Rank{0}, std::exchange(to_host_, nullptr));
  for (std::int32_t r = 1; r < options_.rank.value; ++r) reach(Rank{r});
}

void Meeting::reach(Rank peer) {
  const auto at = static_cast<std::size_t>(peer.value);
  auto established = [this, peer] {
    const LinkPtr link = reaching_.at(peer.value);
    link->send(Introduction{meeting_, options_.rank});
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

void Meeting::introduced(const LinkPtr& link, const Introduction& word) {
  const auto at = static_cast<std::size_t>(word.rank.value);
  if (!met_ || word.meeting != meeting_ || word.rank <= options_.rank || at >= made_.links.size() ||
      made_.links[at])
    return link->close();
  keep(word.rank, link);
}

Status Meeting::too_late() const {
  const auto stuck = [](std::string text) { return Status{Code::Stuck, std::move(text), "", {}}; };
  const double waited = seconds(options_.patience);
  const std::string at = options_.rendezvous.text();
  const std::string trouble = last_trouble_.empty() ? "" : fmt::format(" ({})", last_trouble_);
  if (met_) {
    RankSet without;
    for (std::int32_t r = 0; r < options_.size; ++r)
      if (r != options_.rank.value && !made_.links[static_cast<std::size_t>(r)])
        without.insert(RankSet::of(Rank{r}));
    return stuck(
        fmt::format("Rank {} has no connection with {} after {:g} s, though all have "
                    "come to the rendezvous at {}{}; the network between their hosts may "
                    "refuse it.",
                    options_.rank.value, named(without), waited, at, trouble));
  }
  const std::string next =
      "; look at what they say, or give slow ones time with a longer "
      "LOCKSTEP_DEADLINE_SECONDS.";
  if (host())
    return stuck(fmt::format(
        "After {:g} s {} had not come to the rendezvous at {}{}{}", waited,
        named(arrivals_.missing()), at,
        last_trouble_.empty() ? "" : fmt::format(" (turned away: {})", last_trouble_), next));
  if (!missing_.empty())
    return stuck(fmt::format("Rank {} waited {:g} s at the rendezvous at {} for {}{}",
                             options_.rank.value, waited, at, named(missing_), next));
  return stuck(
      fmt::format("Rank {} found nobody at the rendezvous at {} for {:g} s: rank 0, which "
                  "listens there, has not come{}{}",
                  options_.rank.value, at, waited, trouble, next));
}

Result<TcpMeeting> Meeting::run() {
  if (options_.size == 1) {
    made_.roster.resize(1);
    return std::move(made_);
  }
  if (host()) {
    if (auto open = listen(options_.rendezvous); !open) return open.error();
  } else {
    seek();
  }
  const auto over = [this] {  // rank 0 also tells the others
    return failure_ && (!host() || told_.size() >= options_.size - 1);
  };
  while (!complete() && !over() && clock_.now() < until_) {
    made_.loop->io.run_one_for(std::chrono::milliseconds(50));
    if (host() && !met_ && !failure_) tell_who_is_missing();
  }
  if (complete() && !failure_) return std::move(made_);
  fail(too_late());
  const Status& why = *failure_;
  turn_away_all();
  for (const LinkPtr& link : made_.links) {
    if (!link) continue;
    link->send(Verdict{why});
    link->finish();
  }
  made_.loop->io.run_for(kLastWords);
  return why;
}

}  // namespace

Result<std::shared_ptr<TcpMesh>> tcp_meet(const TcpOptions& options) {
  if (options.size < 1 || options.size > static_cast<int>(kMostRanks) || options.rank.value < 0 ||
      options.rank.value >= options.size)
    return Status{
        Code::BadInput,
        fmt::format("Rank {} of {} makes no sense; ranks go from 0 to the world size less "
                    "1, of at most {}.",
                    options.rank.value, options.size, kMostRanks),
        "",
        {}};
  if (options.secret.size() < kSecretBytes)
    return Status{Code::Version, "A job over TCP needs a secret; see LOCKSTEP_TOKEN.", "", {}};
  // The links of the meeting end before its loop does, and those that are kept go with it.
  auto meeting = std::make_unique<Meeting>(options);
  auto made = meeting->run();
  if (!made) return made.error();
  return std::make_shared<TcpMesh>(*std::move(made), options.longest_message);
}

}  // namespace lockstep::collectives
