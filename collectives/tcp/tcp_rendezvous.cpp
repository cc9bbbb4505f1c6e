#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/collectives/base/board.h>
#include <lockstep/collectives/tcp/rendezvous_file.h>
#include <lockstep/collectives/tcp/tcp_rendezvous.h>
#include <lockstep/collectives/wire/hmac.h>

namespace lockstep::collectives {
namespace {

/// Time limit for sending last messages.
constexpr std::chrono::milliseconds kFarewell{200};
/// Longest stay in the rendezvous until the children have the list. They can get the list later,
/// too.
constexpr std::chrono::seconds kHandsOut{2};
/// Longest wait of the loop for one event.
constexpr std::chrono::milliseconds kTurn{50};
/// Time added to the limit of a handshake for each rank: rank 0 does a handshake with every rank.
constexpr std::chrono::milliseconds kHandshake{1};
/// Number of connections that may be open without a proof of the secret, in addition to one per
/// rank.
constexpr std::size_t kStrangers = 64;

std::size_t most_strangers(const TcpOptions& options) {
  return kStrangers + static_cast<std::size_t>(options.size);
}

double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

std::string host_name() {
  std::array<char, 129> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace

/// This key differs from the coordinator's, so a peer of the coordinator cannot pass for a rank.
Secret secret_of_ranks(const Secret& shared) {
  const Mac mac = hmac_sha256(shared, std::as_bytes(std::span(std::string_view("lockstep ranks"))));
  return {mac.begin(), mac.end()};
}

TcpRendezvous::TcpRendezvous(const TcpOptions& options)
    : options_(options),
      pause_(made_.loop->io),
      until_(clock_.now() + options.patience),
      latest_(until_ + options.patience),
      members_(own_request()) {
  made_.self = options.rank;
  if (options.file.empty()) made_.loop->secret = secret_of_ranks(options.secret);
  made_.loop->encryption = options.encryption;
  made_.loop->handshake += options.size * kHandshake;
  made_.door = std::make_unique<TcpDoor>(*made_.loop, most_strangers(options));
}

TcpRendezvous::~TcpRendezvous() {
  if (published_) ::unlink(options_.file.c_str());
  here_.reset();
  for (auto& [rank, child] : std::exchange(children_, {})) child.link->close();
  for (const TcpLinkPtr& link : {to_root_, to_parent_})
    if (link) link->close();
}

JoinRequest TcpRendezvous::own_request() const {
  return {.version = kTcpVersion,
          .job = options_.job,
          .rank = options_.rank,
          .size = options_.size,
          .build = options_.build,
          .host = host_name(),
          .host_id = options_.host_id,
          .pid = ::getpid(),
          .port = 0};
}

void TcpRendezvous::fail(Status status) {
  if (!failure_) failure_ = std::move(status);
}

/// True once this process has the list and its children have it too, or kHandsOut is over.
bool TcpRendezvous::complete() const {
  return met_ && (!made_.list || made_.list->done() || clock_.now() - *met_ > Duration{kHandsOut});
}

Result<void> TcpRendezvous::listen(TcpDoor& door, const Endpoint& at) {
  const auto listens = door.listen(at);
  if (listens) return {};
  return environment_error(fmt::format(
      "Rank {} cannot listen at {}: {}{}.", options_.rank.value, at.text(), listens.error().message,
      is_root() ? "; the rendezvous is an address of the host of rank 0, with a "
                  "port that is free"
                : ""));
}

/// The file or address at which the ranks meet, for error texts.
std::string TcpRendezvous::place() const {
  return options_.rendezvous.port == 0 ? options_.file : options_.rendezvous.text();
}

Result<void> TcpRendezvous::open() {
  here_ = std::make_unique<TcpDoor>(*made_.loop, most_strangers(options_));
  here_->on(at_the_door());
  const bool by_file = !options_.file.empty();
  if (by_file) options_.rendezvous = {"127.0.0.1", 0};
  if (auto open = listen(*here_, options_.rendezvous); !open) return open;
  if (auto open = listen(*made_.door, {options_.rendezvous.address, 0}); !open) return open;
  if (!by_file) return {};
  options_.rendezvous.port = here_->port();
  const Secret secret = random_secret();
  made_.loop->secret = secret_of_ranks(secret);
  auto said = write_rendezvous(options_.file, {options_.rendezvous, secret});
  published_ = said.has_value();
  return said;
}

Status TcpRendezvous::too_late() const {
  const auto stuck = [](std::string text) { return Status{Code::Stuck, std::move(text)}; };
  const double waited = seconds(options_.patience);
  const std::string at = place();
  const std::string trouble = last_trouble_.empty() ? "" : fmt::format(" ({})", last_trouble_);
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
    made_.door.reset();
    return std::move(made_);
  }
  if (is_root()) {
    if (auto opened = open(); !opened) return opened.error();
  } else {
    seek();
  }
  const auto over = [this] {  // rank 0 stays until all ranks know
    return failure_ && (!is_root() || told_.size() >= options_.size - 1);
  };
  for (Instant last = latest_ - 2 * options_.patience;  // when this object was made
       !complete() && !over() && clock_.now() < until_;) {
    made_.loop->io.run_one_for(kTurn);
    const Instant now = clock_.now();
    // This process was suspended: so the parent does not count as silent, nor the lost time as
    // waiting.
    if (const Duration gap = now - std::exchange(last, now); gap > 10 * Duration{kTurn}) {
      heard_ = now;
      until_ = std::max(until_, std::min(until_ + gap, latest_));
    }
    if (!met_ && !failure_) look_at_children();
    if (!met_ && !failure_) look_at_parent();
  }
  if (met_ && !failure_) {
    // The ranks below have the list, too, or kHandsOut is over. Only now acknowledges the list: the
    // parent, and so rank 0, stays until then, because these ranks could come back to it.
    if (giver_ && giver_->established()) giver_->send(Acknowledgement{});
    if (giver_) giver_->finish();
    return std::move(made_);
  }
  fail(too_late());
  const Status& why = *failure_;
  if (is_root()) refuse_all();
  made_.loop->io.run_for(kFarewell);
  return why;
}

Result<std::shared_ptr<TcpMesh>> tcp_rendezvous(const TcpOptions& options) {
  if (options.size < 1 || options.size > static_cast<int>(kMostRanks) || options.rank.value < 0 ||
      options.rank.value >= options.size)
    return bad_input(
        fmt::format("Rank {} of {} makes no sense; ranks go from 0 to the world size less "
                    "1, of at most {}.",
                    options.rank.value, options.size, kMostRanks));
  if (options.file.empty() && options.secret.size() < kSecretBytes)
    return Status{Code::Version, "A job over TCP needs a secret; see LOCKSTEP_TOKEN."};
  // Lives until the mesh has taken the loop, so links that the rendezvous drops end before the loop
  // does. The mesh keeps the other links.
  auto rendezvous = std::make_unique<TcpRendezvous>(options);
  auto made = rendezvous->run();
  if (!made) return made.error();
  return std::make_shared<TcpMesh>(*std::move(made), options.longest_message, options.out_of_reach);
}

}  // namespace lockstep::collectives
