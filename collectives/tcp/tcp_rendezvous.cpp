#include <algorithm>

#include <boost/asio/ip/tcp.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/collectives/base/board.h>
#include <lockstep/collectives/tcp/rendezvous_file.h>
#include <lockstep/collectives/tcp/tcp_rendezvous.h>
#include <lockstep/collectives/wire/hmac.h>

namespace lockstep::collectives {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Failure = boost::system::error_code;

/// How long last words may take to go out.
constexpr std::chrono::milliseconds kFarewell{200};
/// Connections that have not proven the secret, beside one for each rank.
constexpr std::size_t kStrangers = 64;

double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

std::string host_name() {
  std::array<char, 129> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace

/// Not the coordinator's: who speaks to that is not taken for a rank.
Secret secret_of_ranks(const Secret& shared) {
  const Mac mac = hmac_sha256(shared, std::as_bytes(std::span(std::string_view("lockstep ranks"))));
  return {mac.begin(), mac.end()};
}

TcpRendezvous::TcpRendezvous(const TcpOptions& options)
    : options_(options),
      acceptor_(made_.loop->io),
      pause_(made_.loop->io),
      until_(clock_.now() + options.patience),
      members_(own_request()) {
  made_.self = options.rank;
  made_.loop->secret = secret_of_ranks(options.secret);
  made_.links.resize(static_cast<std::size_t>(options.size));
}

TcpRendezvous::~TcpRendezvous() {
  Failure ignored;
  if (published_) ::unlink(options_.file.c_str());
  acceptor_.close(ignored);
  for (const TcpLinkPtr& link : strangers_) link->close();
  for (const auto& [rank, link] : waiting_) link->close();
  for (const auto& [rank, link] : reaching_) link->close();
  if (to_root_) to_root_->close();
}

JoinRequest TcpRendezvous::own_request() const {
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

void TcpRendezvous::fail(Status status) {
  if (!failure_) failure_ = std::move(status);
}

bool TcpRendezvous::complete() const {
  std::size_t there = 1;
  for (const TcpLinkPtr& link : made_.links) there += link ? 1 : 0;
  return met_ && there == made_.links.size();
}

Result<void> TcpRendezvous::listen(const Endpoint& at) {
  Failure failure;
  const auto address = asio::ip::make_address(at.address, failure);
  const tcp::endpoint where(address, at.port);
  acceptor_.open(where.protocol(), failure);
  if (!failure) acceptor_.set_option(asio::socket_base::reuse_address(true), failure);
  if (!failure) ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
  if (!failure) acceptor_.bind(where, failure);
  if (!failure) acceptor_.listen(asio::socket_base::max_listen_connections, failure);
  if (!failure) return accept(), Result<void>{};
  return Status{
      Code::Environment,
      fmt::format("Rank {} cannot listen at {}: {}{}.", options_.rank.value, at.text(),
                  failure.message(),
                  is_root() ? "; the rendezvous is an address of the host of rank 0, with a "
                              "port that is free"
                            : ""),
      "",
      {}};
}

/// Where the ranks meet, for messages.
std::string TcpRendezvous::place() const {
  return options_.rendezvous.port == 0 ? options_.file : options_.rendezvous.text();
}

Result<void> TcpRendezvous::open() {
  if (options_.file.empty()) return listen(options_.rendezvous);
  if (auto open = listen({"127.0.0.1", 0}); !open) return open;
  Failure ignored;
  options_.rendezvous = {"127.0.0.1", acceptor_.local_endpoint(ignored).port()};
  const Secret secret = random_secret();
  made_.loop->secret = secret_of_ranks(secret);
  auto said = write_rendezvous(options_.file, {options_.rendezvous, secret});
  published_ = said.has_value();
  return said;
}

void TcpRendezvous::accept() {
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

void TcpRendezvous::welcome(tcp::socket socket) {
  if (strangers_.size() >= kStrangers + made_.links.size()) {
    strangers_.front()->close();
    strangers_.pop_front();
  }
  const TcpLinkPtr link = TcpLink::accept(*made_.loop, std::move(socket), {});
  strangers_.push_back(link);
  const std::weak_ptr<TcpLink> weak = link;
  const auto forget = [this](const TcpLinkPtr& gone) { std::erase(strangers_, gone); };
  link->on({.message =
                [this, weak, forget](const TcpMessage& message) {
                  const TcpLinkPtr self = weak.lock();
                  forget(self);
                  const auto* request = std::get_if<JoinRequest>(&message);
                  const auto* word = std::get_if<Introduction>(&message);
                  if (is_root() && request != nullptr) return came(self, *request);
                  if (!is_root() && word != nullptr) return introduced(self, *word);
                  self->close();
                },
            .ended = [weak, forget](const Status&) { forget(weak.lock()); }});
}

/// From now on it is one of the job's.
void TcpRendezvous::keep(Rank peer, const TcpLinkPtr& link) {
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

Status TcpRendezvous::too_late() const {
  const auto stuck = [](std::string text) { return Status{Code::Stuck, std::move(text), "", {}}; };
  const double waited = seconds(options_.patience);
  const std::string at = place();
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
                    options_.rank.value, without.phrase(), waited, at, trouble));
  }
  const std::string next =
      "; look at what they say, or give slow ones time with a longer "
      "LOCKSTEP_DEADLINE_SECONDS.";
  if (is_root())
    return stuck(fmt::format(
        "After {:g} s {} had not come to the rendezvous at {}{}{}", waited,
        members_.missing().phrase(), at,
        last_trouble_.empty() ? "" : fmt::format(" (turned away: {})", last_trouble_), next));
  if (!missing_.empty())
    return stuck(fmt::format("Rank {} waited {:g} s at the rendezvous at {} for {}{}",
                             options_.rank.value, waited, at, missing_.phrase(), next));
  return stuck(
      fmt::format("Rank {} found nobody at the rendezvous at {} for {:g} s: rank 0, which "
                  "listens there, has not come{}{}",
                  options_.rank.value, at, waited, trouble, next));
}

Result<TcpMeshParts> TcpRendezvous::run() {
  if (options_.size == 1) {
    made_.roster.resize(1);
    return std::move(made_);
  }
  if (is_root()) {
    if (auto opened = open(); !opened) return opened.error();
  } else {
    seek();
  }
  const auto over = [this] {  // rank 0 also tells the others
    return failure_ && (!is_root() || told_.size() >= options_.size - 1);
  };
  while (!complete() && !over() && clock_.now() < until_) {
    made_.loop->io.run_one_for(std::chrono::milliseconds(50));
    if (is_root() && !met_ && !failure_) tell_who_is_missing();
  }
  if (complete() && !failure_) return std::move(made_);
  fail(too_late());
  const Status& why = *failure_;
  turn_away_all();
  for (const TcpLinkPtr& link : made_.links) {
    if (!link) continue;
    link->send(Verdict{why});
    link->finish();
  }
  made_.loop->io.run_for(kFarewell);
  return why;
}

Result<std::shared_ptr<TcpMesh>> tcp_rendezvous(const TcpOptions& options) {
  if (options.size < 1 || options.size > static_cast<int>(kMostRanks) || options.rank.value < 0 ||
      options.rank.value >= options.size)
    return Status{
        Code::BadInput,
        fmt::format("Rank {} of {} makes no sense; ranks go from 0 to the world size less "
                    "1, of at most {}.",
                    options.rank.value, options.size, kMostRanks),
        "",
        {}};
  if (options.file.empty() && options.secret.size() < kSecretBytes)
    return Status{Code::Version, "A job over TCP needs a secret; see LOCKSTEP_TOKEN.", "", {}};
  // The links of the rendezvous end before its loop does, and those that are kept go with it.
  auto rendezvous = std::make_unique<TcpRendezvous>(options);
  auto made = rendezvous->run();
  if (!made) return made.error();
  return std::make_shared<TcpMesh>(*std::move(made), options.longest_message);
}

}  // namespace lockstep::collectives
