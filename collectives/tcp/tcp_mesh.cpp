#include <algorithm>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <lockstep/collectives/tcp/tcp.h>
#include <lockstep/collectives/tcp/tcp_mesh.h>

namespace lockstep::collectives {
namespace {

/// Pause before the next attempt to connect.
constexpr std::chrono::milliseconds kBeforeRetry{50};
/// Time allowed for a verdict to arrive after a peer is found gone: the peer may have left with a
/// verdict.
constexpr std::chrono::milliseconds kVerdictGrace{300};
/// A waiting rank spins until kSpin has passed, then yields its core until kYield has passed, then
/// sleeps, for at most kSleep at a time.
constexpr std::chrono::microseconds kSpin{50}, kYield{2000};
constexpr std::chrono::milliseconds kSleep{5};

std::vector<Rank> ranks_below(int size) {
  std::vector<Rank> out;
  for (std::int32_t r = 0; r < size; ++r) out.push_back(Rank{r});
  return out;
}

}  // namespace

TcpMesh::TcpMesh(TcpMeshParts parts, std::size_t longest_message, Duration out_of_reach)
    : self_(parts.self),
      id_(parts.id),
      roster_(std::move(parts.roster)),
      hosts_(hosts(ranks_below(size()))),
      tree_(TreePlace::of(self_, size(), &hosts_)),
      out_of_reach_(out_of_reach),
      crowded_(std::count_if(roster_.begin(), roster_.end(),
                             [this](const Peer& one) {
                               return one.host_id == peer(self_).host_id;
                             }) > ::sysconf(_SC_NPROCESSORS_ONLN)),
      traffic_(std::move(parts.loop), *this,
               [this](Rank rank) -> TcpPeer& { return peer_for(rank); }),
      door_(std::move(parts.door)),
      list_(std::move(parts.list)),
      inbox_(longest_message) {
  if (!door_) return;
  door_->on(
      {.word = [this](const TcpLinkPtr& link, const TcpMessage& m) { on_first_message(link, m); },
       .failed =
           [this](const std::string& why) {
             fail(environment_error(
                 fmt::format("Rank {} cannot take connections: {}; raise the limit of open "
                             "files (ulimit -n).",
                             self_.value, why)));
           }});
  if (tree_.parent) peer_for(*tree_.parent).association.open();
}

TcpMesh::~TcpMesh() {
  const std::lock_guard lock(mutex_);
  // After a verdict no farewell is needed, and a farewell through a ring would overtake the
  // verdict.
  if (!departure_.leaving() && !departure_.verdict())
    for (const auto& [rank, one] : peers_)
      if (one->uses_ring || one->up() != nullptr)
        enqueue(*one, kWorldGroup, Part::Kind::Farewell, 0, {});
  if (!departure_.leaving() || departure_.verdict()) flush();
  door_.reset();
  list_.reset();
  for (const auto& [rank, one] : peers_) one->close_all();
}

HostRuns TcpMesh::hosts(const std::vector<Rank>& ranks) const {
  std::vector<std::uint64_t> hosts;
  for (const Rank rank : ranks) hosts.push_back(peer(rank).host_id);
  return HostRuns(hosts);
}

TcpPeer& TcpMesh::peer_for(Rank peer) {
  auto& found = peers_[peer.value];
  if (found) return *found;
  found = std::make_unique<TcpPeer>(static_cast<TcpPeer::Mesh&>(*this), traffic_.loop(),
                                    Introduction{id_, self_, 0, 0}, peer, this->peer(peer).listens);
  found->place = traffic_.place(peer);
  if (departure_.leaving() && !departure_.verdict())
    enqueue(*found, kWorldGroup, Part::Kind::Farewell, 0, {});
  return *found;
}

const TcpPeer* TcpMesh::known(Rank peer) const {
  const auto found = peers_.find(peer.value);
  return found == peers_.end() ? nullptr : found->second.get();
}

/// Sends the verdict to all connected peers, which pass it on, so it reaches all ranks that wait.
void TcpMesh::fail(Status status) {
  if (failure_) return;
  failure_ = std::move(status);
  if (!departure_.verdict()) set_verdict(*failure_);
  for (const auto& [rank, one] : peers_)
    if (TcpLink* link = one->up()) link->send(Verdict{*failure_});
}

/// Sets the verdict; each peer that connects from here on gets it.
void TcpMesh::set_verdict(const Status& verdict) {
  departure_.set(verdict, clock_.now());
  if (list_) list_->end(verdict);
}

void TcpMesh::on_first_message(const TcpLinkPtr& link, const TcpMessage& message) {
  if (const auto* request = std::get_if<JoinRequest>(&message); request != nullptr && list_)
    return list_->came(link, *request);
  const auto* word = std::get_if<Introduction>(&message);
  if (word != nullptr && word->id != id_) {  // meant for a process that listened here before
    link->send(Introduction{id_, self_, 0, 0});
    return link->finish();
  }
  if (word == nullptr || word->rank == self_ || word->rank.value >= size()) return link->close();
  if (list_) list_->has(word->rank);
  TcpPeer& one = peer_for(word->rank);
  const Link number = one.take(link);
  one.association.introduced(number, word->attempt, word->received);
  on_connected(one);
}

/// Called after the peer's first message on a connection.
void TcpMesh::on_connected(TcpPeer& one) {
  if (one.association.state() == Association::State::Closed)
    return fail(internal_error(
        fmt::format("Rank {} has messages that it was never sent.", one.rank.value)));
  if (one.up() == nullptr) return;
  one.out_of_reach.reset();
  one.connected_at = clock_.now();
  if (departure_.verdict()) one.up()->send(Verdict{*departure_.verdict()});
}

void TcpMesh::on_part(TcpPeer& one, Part part) {
  if (part.kind == Part::Kind::Farewell) {
    one.finished = true;
  } else if (auto ok = inbox_.put(one.rank, std::move(part)); !ok) {
    fail(ok.error());
  }
}

void TcpMesh::on_message(TcpPeer& one, Link link, TcpMessage message) {
  const auto wrong = [&](std::string_view what) {
    fail(internal_error(fmt::format("Rank {} {}.", one.rank.value, what)));
  };
  if (auto* part = std::get_if<Part>(&message)) {
    switch (one.association.arrived(link, {part->number, part->received}, part->bytes.size())) {
      case Association::Arrival::Next:
        break;
      case Association::Arrival::Wrong:
        return wrong("has sent a message with a number that none of its messages has");
      default:
        return;
    }
    on_part(one, std::move(*part));
    if (one.finished) one.acknowledge();  // the peer waits for it: see linger()
  } else if (const auto* word = std::get_if<Introduction>(&message)) {
    if (word->id != id_ || word->rank != one.rank)
      return lose(one, "a process of another job listens where it listened");
    one.association.answered(link, word->received);
    on_connected(one);
  } else if (const auto* told = std::get_if<Acknowledgement>(&message)) {
    if (!one.association.acknowledged(told->received))
      wrong("acknowledges a message that it was never sent");
  } else if (auto* progress = std::get_if<RankProgress>(&message)) {
    if (progress->rank.value >= size()) return wrong("tells of a rank that there is not");
    progress_[progress->rank.value] = std::move(*progress);
  } else if (const auto* verdict = std::get_if<Verdict>(&message)) {
    one.has_verdict = true;
    fail(verdict->status);
  } else {
    wrong("said something that has no place once all have met");
  }
}

/// Ends the job with RankLost, unless this rank has sent its farewells.
void TcpMesh::lose(TcpPeer& one, const std::string& why) {
  one.gone = true;
  if (departure_.leaving()) return;
  const Peer& gone = peer(one.rank);
  fail({Code::RankLost,
        fmt::format("Rank {} ended without finishing the job (process {} on {}; {}); the output of "
                    "that process or the system's log (a signal, no memory, an early exit) says "
                    "why.",
                    one.rank.value, gone.pid, gone.host, why)});
}

/// Called when a connection has ended: opens another, first at once, then after pauses. Only a
/// refused connection proves that the process is gone.
void TcpMesh::on_ended(TcpPeer& one, Link link, const TcpLink& of, const Status& why) {
  const bool stood = one.association.up() && one.association.link() == link;
  const bool refused = of.refused(), answered = of.answered();
  traffic_.read(one);  // the ring may hold a farewell
  if (!one.association.broken(link)) return;
  const bool was_finished = one.finished;
  if (refused) one.gone = true;
  if (was_finished && (!departure_.leaving() || one.gone)) return;
  if (departure_.verdict() && (one.gone || one.has_verdict)) return;
  if (why.code == Code::Version) return lose(one, why.message);
  const Instant now = clock_.now();
  if (!one.out_of_reach || answered) one.out_of_reach = now;
  if (refused) {
    one.pause.expires_after(kVerdictGrace);
    one.pause.async_wait([this, &one, why](const boost::system::error_code& stopped) {
      traffic_.read(one);
      if (!stopped && !one.finished && !failure_) lose(one, why.message);
    });
    return;
  }
  if (now - *one.out_of_reach > out_of_reach_)
    return lose(one,
                fmt::format("out of reach for {:g} s: {}",
                            std::chrono::duration<double>(out_of_reach_).count(), why.message));
  if (stood) return one.association.open();
  one.pause.expires_after(kBeforeRetry);
  one.pause.async_wait([&one](const boost::system::error_code& stopped) {
    if (!stopped) one.association.open();
  });
}

void TcpMesh::send(Rank to, std::uint64_t group, Part::Kind kind,
                   std::span<const std::byte> message) {
  std::span<const std::byte> rest = message;
  do {
    const auto piece = rest.first(std::min(rest.size(), Part::kMostBytes));
    send_piece(to, group, kind, message.size(), piece);
    rest = rest.subspan(piece.size());
  } while (!rest.empty());
}

void TcpMesh::send_piece(Rank to, std::uint64_t group, Part::Kind kind, std::uint64_t total,
                         std::span<const std::byte> piece) {
  const std::lock_guard lock(mutex_);
  enqueue(peer_for(to), group, kind, total, piece);
}

void TcpMesh::enqueue(TcpPeer& one, std::uint64_t group, Part::Kind kind, std::uint64_t total,
                      std::span<const std::byte> piece) {
  if (traffic_.send(one, group, kind, total, piece)) return;
  const Association::Stamp stamp = one.association.next();
  one.association.send(encode(
      Part{group, kind, total, stamp.number, stamp.received, Bytes(piece.begin(), piece.end())}));
}

bool TcpMesh::up(Rank to) const {
  const std::lock_guard lock(mutex_);
  const TcpPeer* one = known(to);
  if (one != nullptr && one->uses_ring) return traffic_.unacknowledged(*one) == 0;
  return one != nullptr && one->up() != nullptr;
}

std::size_t TcpMesh::queued(Rank to) const {
  const std::lock_guard lock(mutex_);
  const TcpPeer* one = known(to);
  return one == nullptr ? 0 : traffic_.unacknowledged(*one);
}

std::optional<TcpMesh::Message> TcpMesh::take(Rank from, std::uint64_t group, Part::Kind kind) {
  const std::lock_guard lock(mutex_);
  auto message = inbox_.take(from, group, kind);
  if (message || failure_) return message;
  TcpPeer& one = peer_for(from);
  if (one.place >= 0) {
    traffic_.read(one);
    message = inbox_.take(from, group, kind);
    if (message || failure_) return message;
  }
  awaited_ = &one;
  if (!one.finished && !one.out_of_reach) one.association.open();
  return std::nullopt;
}

bool TcpMesh::gone(Rank rank) const {
  const std::lock_guard lock(mutex_);
  const TcpPeer* one = known(rank);
  return one != nullptr && one->gone;
}

bool TcpMesh::finished(Rank rank) const {
  const std::lock_guard lock(mutex_);
  const TcpPeer* one = known(rank);
  return one != nullptr && one->finished;
}

int TcpMesh::connections() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::count_if(
      peers_.begin(), peers_.end(), [](const auto& one) { return one.second->up() != nullptr; }));
}

std::optional<Status> TcpMesh::failure() const {
  ++urgent_;
  const std::lock_guard lock(mutex_);
  --urgent_;
  return failure_;
}

Result<void> TcpMesh::move(Duration most) {
  return move_by(most == Duration{0} && traffic_.reaches_all(size()), most);
}

Result<void> TcpMesh::wait(Duration waited) {
  if (waited > kYield) return move_by(false, kSleep);
  if (crowded_ || waited > kSpin) ::sched_yield();
  return move_by(true, Duration{0});
}

Result<void> TcpMesh::move_by(bool glancing, Duration most) {
  while (urgent_.load() > 0) ::sched_yield();
  const std::lock_guard lock(mutex_);
  if (!failure_) glancing ? traffic_.poll_likely(awaited_) : traffic_.run(most);
  if (failure_) return *failure_;
  return {};
}

void TcpMesh::share(std::unique_ptr<HostRings> rings, const std::vector<Rank>& here) {
  const std::lock_guard lock(mutex_);
  traffic_.share(std::move(rings), here);
  for (const auto& [rank, one] : peers_) one->place = traffic_.place(one->rank);
}

void TcpMesh::on_garbage(TcpPeer& one) {
  fail(internal_error(
      fmt::format("Rank {} has written into shared memory what is no message.", one.rank.value)));
}

std::map<std::int32_t, RankProgress> TcpMesh::take_progress() {
  ++urgent_;
  const std::lock_guard lock(mutex_);
  --urgent_;
  if (!failure_) traffic_.run_loop();
  return std::exchange(progress_, {});
}

void TcpMesh::send_progress(Rank to, const std::vector<RankProgress>& progress) {
  ++urgent_;
  const std::lock_guard lock(mutex_);
  --urgent_;
  TcpPeer& one = peer_for(to);
  TcpLink* link = one.up();
  // Skips this report if the peer has not read the last one.
  if (link != nullptr && link->queued() == 0)
    for (const RankProgress& each : progress) link->send(each);
  if (link == nullptr && !one.finished && !one.out_of_reach && !failure_) one.association.open();
  if (!failure_) traffic_.run_loop();
}

/// Stays until what is queued is sent, or every peer has the verdict: see TcpDeparture.
void TcpMesh::flush() {
  const Instant since = clock_.now();
  const bool stays = departure_.verdict() && size() > 1;
  if (departure_.verdict())
    for (const Rank neighbour : tree_.neighbours()) peer_for(neighbour).association.open();
  const auto waits = [&](const auto& known) {
    const TcpPeer& one = *known.second;
    return departure_.flushes(one, one.uses_ring ? traffic_.unacknowledged(one) : 0, since,
                              clock_.now());
  };
  while ((stays && departure_.stays(clock_.now())) ||
         std::any_of(peers_.begin(), peers_.end(), waits))
    traffic_.run(kSleep);
}

void TcpMesh::tell(const Status& verdict) {
  ++urgent_;
  const std::lock_guard lock(mutex_);
  --urgent_;
  set_verdict(verdict);
  for (const auto& [rank, one] : peers_)
    if (TcpLink* link = one->up()) link->send(Verdict{verdict});
  flush();
}

// Sends farewells to all peers that have a TcpPeer, then runs a round of all ranks. This rank
// stays until all ranks have joined that round, so that each rank that waits for this rank gets a
// farewell.
void TcpMesh::leave(Duration patience) {
  if (!send_farewells()) return;
  TreeRound round(
      self_, size(), {}, [](auto, auto) { return Bytes{}; }, &hosts_);
  (void)run_round(*this, ranks_below(size()), Part::Kind::Leave, round, clock_.now() + patience);
  linger(true);
}

void TcpMesh::finish() {
  if (send_farewells()) linger(false);
}

/// Sends the farewells. False: they were sent already.
bool TcpMesh::send_farewells() {
  ++urgent_;
  const std::lock_guard lock(mutex_);
  --urgent_;
  if (!departure_.leave()) return false;
  for (const auto& [rank, one] : peers_)
    if (!one->gone && !one->finished && !departure_.verdict())
      enqueue(*one, kWorldGroup, Part::Kind::Farewell, 0, {});
  flush();
  return true;
}

/// Stays until peers have acknowledged what was sent to them: see TcpDeparture::lingers().
void TcpMesh::linger(bool to_the_last) {
  const std::lock_guard lock(mutex_);
  const auto waits = [&, since = clock_.now()](const auto& known) {
    const TcpPeer& one = *known.second;
    return departure_.lingers(one, traffic_.unacknowledged(one), to_the_last, since, clock_.now());
  };
  while (std::any_of(peers_.begin(), peers_.end(), waits)) traffic_.run(kSleep);
  flush();
}

Result<void> run_round(TcpMesh& mesh, const std::vector<Rank>& members, Part::Kind line,
                       Round& round, Instant until) {
  const SystemClock clock;
  bool said = false;  // the message that the round wants to send now is queued
  while (true) {
    const Round::Want want = round.want();
    if (want.need == Round::Need::Done) return {};
    const Rank peer = members[static_cast<std::size_t>(want.peer.value)];
    if (want.need == Round::Need::Send) {
      if (!std::exchange(said, true)) mesh.send(peer, kWorldGroup, line, round.outgoing());
      if (mesh.up(peer)) {
        round.sent();
        said = false;
        continue;
      }
    } else if (const auto message = mesh.take(peer, kWorldGroup, line)) {
      round.received(message->bytes);
      continue;
    }
    if (clock.now() > until || (line == Part::Kind::Leave ? mesh.gone(peer) : mesh.finished(peer)))
      return Status{Code::Stuck,
                    fmt::format("Rank {} (process {} on {}) has come to the start of the job, and "
                                "does not go on.",
                                peer.value, mesh.peer(peer).pid, mesh.peer(peer).host)};
    if (auto moved = mesh.move(std::chrono::milliseconds(5)); !moved) return moved;
  }
}

std::optional<Status> tcp_failure(const TcpMesh& mesh) { return mesh.failure(); }

void tcp_finish(TcpMesh& mesh) { mesh.finish(); }

void tcp_leave(TcpMesh& mesh, Duration patience) { mesh.leave(patience); }

void tcp_tell(TcpMesh& mesh, const Status& verdict) { mesh.tell(verdict); }

}  // namespace lockstep::collectives
