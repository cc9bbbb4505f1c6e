#include <algorithm>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <lockstep/collectives/tcp/tcp.h>
#include <lockstep/collectives/tcp/tcp_mesh.h>

namespace lockstep::collectives {
namespace {

/// Time limit for sending last messages; pause before the next attempt to connect.
constexpr std::chrono::milliseconds kLastWords{200}, kBeforeRetry{50};
/// Time for which a process with a verdict stays for peers that are about to connect. Time limits
/// for the acknowledgement of last messages: while connected, and for connecting again.
constexpr std::chrono::milliseconds kStays{400}, kConnected{2000}, kReopens{5000};
/// Time allowed for a verdict to arrive after a peer is found gone: the peer may have left with a
/// verdict.
constexpr std::chrono::milliseconds kHearsay{300};
/// A waiting rank spins until kSpin has passed, then yields its core until kYield has passed, then
/// sleeps.
constexpr std::chrono::microseconds kSpin{50}, kYield{2000};
/// Longest sleep, and longest sleep while a ring is full: nothing wakes the writer when there is
/// room again.
constexpr std::chrono::milliseconds kSleep{5}, kNoRoom{1};
/// While spinning, runs the loop at most this often.
constexpr std::chrono::microseconds kWithout{50};
/// Wire type of a Part, the only numbered message.
const std::uint8_t kPartType = type_of(Part{});

void run_for(TcpLoop& loop, Duration time) {
  loop.io.restart();
  if (time > Duration{0})
    loop.io.run_one_for(std::chrono::duration_cast<std::chrono::steady_clock::duration>(time));
  loop.io.poll();
}

std::vector<Rank> ranks_below(int size) {
  std::vector<Rank> out;
  for (std::int32_t r = 0; r < size; ++r) out.push_back(Rank{r});
  return out;
}

}  // namespace

/// The connections of this process with one peer.
struct TcpMesh::PeerLink final : AssociationPort {
  PeerLink(TcpMesh& of, Rank with)
      : mesh(of), peer(with), pause(of.loop_->io), association(of.self_ < with, *this) {}
  ~PeerLink() override { close_all(); }
  void close_all() {
    for (const auto& [number, link] : std::exchange(links, {})) link->close();
  }

  Link take(const TcpLinkPtr& link) {
    links[++last] = link;
    return last;
  }
  [[nodiscard]] TcpLink::Events events(Link link) {
    return {.established = [this, link] { association.established(link); },
            .message = [this, link](TcpMessage m) { mesh.on_message(*this, link, std::move(m)); },
            .ended = [this, link](
                         const Status& why) { mesh.on_ended(*this, link, *links.at(link), why); }};
  }
  Link open() override {
    const Link link = ++last;
    links[link] = TcpLink::connect(*mesh.loop_, mesh.peer(peer).listens, events(link), true);
    return link;
  }
  void introduce(Link link, std::uint64_t attempt, std::uint64_t received) override {
    links.at(link)->send(Introduction{mesh.id_, mesh.self_, attempt, received});
  }
  void write(Link link, std::span<const std::byte> message) override {
    links.at(link)->send(kPartType, message);
  }
  void acknowledge(Link link, std::uint64_t received) override {
    links.at(link)->send(Acknowledgement{received});
  }
  void close(Link link) override {
    const TcpLinkPtr closed = std::move(links.at(link));
    links.erase(link);
    closed->close();
  }
  /// The open connection, or null.
  [[nodiscard]] TcpLink* up() const {
    if (!association.up()) return nullptr;
    TcpLink* link = links.at(association.link()).get();
    return link->broken() ? nullptr : link;
  }

  TcpMesh& mesh;
  Rank peer;
  Link last = 0;
  std::map<Link, TcpLinkPtr> links;
  boost::asio::steady_timer pause;
  std::optional<Instant> out_of_reach;  // when connections began to fail; nullopt: they can be made
  Instant connected_at{0};              // when the last connection was made
  int place = -1;                       // peer's place in the rings of this host; -1: it has none
  bool uses_ring = false;               // messages to the peer go through its ring
  bool finished = false;                // the peer has sent its farewell
  bool gone = false;                    // the peer's process has ended, or counts as lost
  bool has_verdict = false;             // the peer has sent a verdict, so it needs none
  Association association;
};

TcpMesh::TcpMesh(TcpMeshParts parts, std::size_t longest_message, Duration out_of_reach)
    : loop_(std::move(parts.loop)),
      door_(std::move(parts.door)),
      self_(parts.self),
      id_(parts.id),
      roster_(std::move(parts.roster)),
      hosts_(hosts(ranks_below(size()))),
      tree_(TreePlace::of(self_, size(), &hosts_)),
      list_(std::move(parts.list)),
      out_of_reach_(out_of_reach),
      inbox_(longest_message) {
  const auto here = std::count_if(roster_.begin(), roster_.end(), [this](const Peer& one) {
    return one.host_id == peer(self_).host_id;
  });
  crowded_ = here > ::sysconf(_SC_NPROCESSORS_ONLN);
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
  if (tree_.parent) link_to(*tree_.parent).association.open();
}

TcpMesh::~TcpMesh() {
  const std::lock_guard lock(mutex_);
  // After a verdict no farewell is needed, and a farewell through a ring would overtake the
  // verdict.
  if (!leaving_ && !verdict_)
    for (const auto& [rank, one] : peers_)
      if (one->uses_ring || one->up() != nullptr)
        enqueue(*one, kWorldGroup, Part::Kind::Farewell, 0, {});
  if (!leaving_ || verdict_) flush();
  door_.reset();
  list_.reset();
  for (const auto& [rank, one] : peers_) one->close_all();
}

HostRuns TcpMesh::hosts(const std::vector<Rank>& ranks) const {
  std::vector<std::uint64_t> hosts;
  for (const Rank rank : ranks) hosts.push_back(peer(rank).host_id);
  return HostRuns(hosts);
}

TcpMesh::PeerLink& TcpMesh::link_to(Rank peer) {
  auto& found = peers_[peer.value];
  if (found) return *found;
  found = std::make_unique<PeerLink>(*this, peer);
  const auto at = std::lower_bound(here_.begin(), here_.end(), peer);
  if (at != here_.end() && *at == peer) found->place = static_cast<int>(at - here_.begin());
  if (leaving_ && !verdict_) enqueue(*found, kWorldGroup, Part::Kind::Farewell, 0, {});
  return *found;
}

const TcpMesh::PeerLink* TcpMesh::known(Rank peer) const {
  const auto found = peers_.find(peer.value);
  return found == peers_.end() ? nullptr : found->second.get();
}

/// Sends the verdict to all connected peers, which pass it on, so it reaches all ranks that wait.
void TcpMesh::fail(Status status) {
  if (failure_) return;
  failure_ = std::move(status);
  if (!verdict_) set_verdict(*failure_);
  for (const auto& [rank, one] : peers_)
    if (TcpLink* link = one->up()) link->send(Verdict{*failure_});
}

/// Sets the verdict; each peer that connects from here on gets it.
void TcpMesh::set_verdict(const Status& verdict) {
  if (!verdict_) verdict_at_ = clock_.now();
  verdict_ = verdict;
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
  PeerLink& one = link_to(word->rank);
  const Association::Link number = one.take(link);
  link->on(one.events(number));
  one.association.introduced(number, word->attempt, word->received);
  on_connected(one);
}

/// Called after the peer's first message on a connection.
void TcpMesh::on_connected(PeerLink& one) {
  if (one.association.state() == Association::State::Closed)
    return fail(internal_error(
        fmt::format("Rank {} has messages that it was never sent.", one.peer.value)));
  if (one.up() == nullptr) return;
  one.out_of_reach.reset();
  one.connected_at = clock_.now();
  if (verdict_) one.up()->send(Verdict{*verdict_});
}

void TcpMesh::take_part(PeerLink& one, Part part) {
  if (part.kind == Part::Kind::Farewell) {
    one.finished = true;
  } else if (auto ok = inbox_.put(one.peer, std::move(part)); !ok) {
    fail(ok.error());
  }
}

void TcpMesh::on_message(PeerLink& one, Association::Link link, TcpMessage message) {
  const auto wrong = [&](std::string_view what) {
    fail(internal_error(fmt::format("Rank {} {}.", one.peer.value, what)));
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
    take_part(one, std::move(*part));
    if (one.finished) acknowledge(one);  // the peer waits for it: see linger()
  } else if (const auto* word = std::get_if<Introduction>(&message)) {
    if (word->id != id_ || word->rank != one.peer)
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
void TcpMesh::lose(PeerLink& one, const std::string& why) {
  one.gone = true;
  if (leaving_) return;
  const Peer& gone = peer(one.peer);
  fail({Code::RankLost,
        fmt::format("Rank {} ended without finishing the job (process {} on {}; {}); the output of "
                    "that process or the system's log (a signal, no memory, an early exit) says "
                    "why.",
                    one.peer.value, gone.pid, gone.host, why)});
}

/// Called when a connection has ended: opens another, first at once, then after pauses. Only a
/// refused connection proves that the process is gone.
void TcpMesh::on_ended(PeerLink& one, Association::Link link, const TcpLink& of,
                       const Status& why) {
  const bool stood = one.association.up() && one.association.link() == link;
  const bool refused = of.refused(), answered = of.answered();
  one.links.erase(link);
  read_ring(one);  // the ring may hold a farewell
  if (!one.association.broken(link)) return;
  const bool was_finished = one.finished;
  if (refused) one.gone = true;
  if (was_finished && (!leaving_ || one.gone)) return;
  if (verdict_ && (one.gone || one.has_verdict)) return;
  if (why.code == Code::Version) return lose(one, why.message);
  const Instant now = clock_.now();
  if (!one.out_of_reach || answered) one.out_of_reach = now;
  if (refused) {
    one.pause.expires_after(kHearsay);
    one.pause.async_wait([this, &one, why](const boost::system::error_code& stopped) {
      read_ring(one);
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
  enqueue(link_to(to), group, kind, total, piece);
}

void TcpMesh::enqueue(PeerLink& one, std::uint64_t group, Part::Kind kind, std::uint64_t total,
                      std::span<const std::byte> piece) {
  if (one.place >= 0 && rings_->reaches(one.place)) {
    one.uses_ring = true;
    if (rings_->send(one.place, group, kind, total, piece)) acknowledge(one);
    return;
  }
  const Association::Stamp stamp = one.association.next();
  one.association.send(encode(
      Part{group, kind, total, stamp.number, stamp.received, Bytes(piece.begin(), piece.end())}));
}

bool TcpMesh::up(Rank to) const {
  const std::lock_guard lock(mutex_);
  const PeerLink* one = known(to);
  if (one != nullptr && one->uses_ring) return rings_->waiting(one->place) == 0;
  return one != nullptr && one->up() != nullptr;
}

std::size_t TcpMesh::queued(Rank to) const {
  const std::lock_guard lock(mutex_);
  const PeerLink* one = known(to);
  return one == nullptr ? 0 : unacknowledged(*one);
}

std::size_t TcpMesh::unacknowledged(const PeerLink& one) const {
  return one.uses_ring ? rings_->waiting(one.place) : one.association.kept_bytes();
}

std::optional<TcpMesh::Message> TcpMesh::take(Rank from, std::uint64_t group, Part::Kind kind) {
  const std::lock_guard lock(mutex_);
  auto message = inbox_.take(from, group, kind);
  if (message || failure_) return message;
  PeerLink& one = link_to(from);
  if (one.place >= 0) {
    read_ring(one);
    message = inbox_.take(from, group, kind);
    if (message || failure_) return message;
  }
  awaited_ = &one;
  if (!one.finished && !one.out_of_reach) one.association.open();
  return std::nullopt;
}

bool TcpMesh::gone(Rank rank) const {
  const std::lock_guard lock(mutex_);
  const PeerLink* one = known(rank);
  return one != nullptr && one->gone;
}

bool TcpMesh::finished(Rank rank) const {
  const std::lock_guard lock(mutex_);
  const PeerLink* one = known(rank);
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
  const bool only_rings = rings_ != nullptr && here_.size() == roster_.size();
  return move_by(most == Duration{0} && only_rings, most);
}

Result<void> TcpMesh::wait(Duration waited) {
  if (waited > kYield) return move_by(false, kSleep);
  if (crowded_ || waited > kSpin) ::sched_yield();
  return move_by(true, Duration{0});
}

Result<void> TcpMesh::move_by(bool glancing, Duration most) {
  while (urgent_.load() > 0) ::sched_yield();
  const std::lock_guard lock(mutex_);
  if (!failure_) glancing ? poll_rings() : run(most);
  if (failure_) return *failure_;
  return {};
}

/// Without running the loop, reads the rings and the connection of the awaited peer, where the next
/// message most likely arrives. Runs the loop now and then.
void TcpMesh::poll_rings() {
  if (rings_) run_rings();
  TcpLink* link = awaited_ == nullptr || awaited_->uses_ring ? nullptr : awaited_->up();
  if (link != nullptr) link->read_now();
  const bool stands = link != nullptr || (awaited_ != nullptr && awaited_->uses_ring);
  const Instant now = clock_.now();
  if (stands && now - loop_ran_ < kWithout) return;
  loop_ran_ = now;
  run_for(*loop_, Duration{0});
}

void TcpMesh::share(std::unique_ptr<HostRings> rings, const std::vector<Rank>& here) {
  const std::lock_guard lock(mutex_);
  rings_ = std::move(rings);
  here_ = here;
  for (std::size_t place = 0; place < here.size(); ++place)
    if (const auto found = peers_.find(here[place].value); found != peers_.end())
      found->second->place = static_cast<int>(place);
}

void TcpMesh::read_ring(PeerLink& one) {
  if (one.place < 0) return;
  if (!rings_->receive(one.place, [&](Part part) { take_part(one, std::move(part)); }))
    fail(internal_error(
        fmt::format("Rank {} has written into shared memory what is no message.", one.peer.value)));
}

void TcpMesh::read_rings() {
  for (std::size_t place = 0; place < here_.size(); ++place)
    if (rings_->written(static_cast<int>(place))) read_ring(link_to(here_[place]));
}

/// Sends an acknowledgement, which also wakes a peer that sleeps on its connections.
void TcpMesh::acknowledge(PeerLink& one) {
  if (TcpLink* link = one.up()) link->send(Acknowledgement{one.association.received()});
}

void TcpMesh::run_rings() {
  read_rings();
  rings_->flush(
      [this](int reader) { acknowledge(link_to(here_[static_cast<std::size_t>(reader)])); });
}

void TcpMesh::run(Duration most) {
  if (!rings_) return run_for(*loop_, most);
  run_rings();
  const bool sleep = most > Duration{0} && rings_->sleeps();
  if (rings_->full()) most = std::min<Duration>(most, kNoRoom);
  run_for(*loop_, sleep ? most : Duration{0});
  rings_->wakes();
  run_rings();
}

std::map<std::int32_t, RankProgress> TcpMesh::take_progress() {
  ++urgent_;
  const std::lock_guard lock(mutex_);
  --urgent_;
  if (!failure_) run_for(*loop_, Duration{0});
  return std::exchange(progress_, {});
}

void TcpMesh::say_progress(Rank to, const std::vector<RankProgress>& progress) {
  ++urgent_;
  const std::lock_guard lock(mutex_);
  --urgent_;
  PeerLink& one = link_to(to);
  TcpLink* link = one.up();
  // Skips this report if the peer has not read the last one.
  if (link != nullptr && link->queued() == 0)
    for (const RankProgress& each : progress) link->send(each);
  if (link == nullptr && !one.finished && !one.out_of_reach && !failure_) one.association.open();
  if (!failure_) run_for(*loop_, Duration{0});
}

/// True if there is time left for `one` to receive the messages that were sent at `since`.
bool TcpMesh::may_still_receive(const PeerLink& one, Instant since) const {
  if (one.up() == nullptr) return clock_.now() < since + kReopens;
  return clock_.now() < std::clamp(one.connected_at, since, since + kReopens) + kConnected;
}

/// Without a verdict: waits until everything queued is sent, at most kLastWords. With a verdict:
/// waits until every peer has the verdict. A peer without it would see this process gone and report
/// this rank as lost.
void TcpMesh::flush() {
  const Instant last_words = clock_.now() + kLastWords;
  if (verdict_)
    for (const Rank neighbour : tree_.neighbours()) link_to(neighbour).association.open();
  const auto waits = [&, this](const auto& known) {
    const PeerLink& one = *known.second;
    const TcpLink* link = one.up();
    if (verdict_)
      return !one.has_verdict && !one.gone &&
             (one.association.state() != Association::State::Closed || one.out_of_reach) &&
             may_still_receive(one, verdict_at_);
    if (clock_.now() >= last_words) return false;
    if (one.uses_ring && rings_->waiting(one.place) > 0) return true;
    return link != nullptr && link->queued() > 0;
  };
  const Instant stays = verdict_ && size() > 1 ? verdict_at_ + kStays : Instant{0};
  while (clock_.now() < stays || std::any_of(peers_.begin(), peers_.end(), waits))
    run(std::chrono::milliseconds(5));
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

// Sends farewells to all peers that have a PeerLink, then runs a round of all ranks. This rank
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
  if (std::exchange(leaving_, true)) return false;
  for (const auto& [rank, one] : peers_)
    if (!one->gone && !one->finished && !verdict_)
      enqueue(*one, kWorldGroup, Part::Kind::Farewell, 0, {});
  flush();
  return true;
}

/// Waits until peers have what was sent to them, because an ended process cannot send it again if a
/// connection breaks. Waits for a peer that has sent its farewell only if `leaving`.
void TcpMesh::linger(bool leaving) {
  const std::lock_guard lock(mutex_);
  const auto waits = [since = clock_.now(), leaving, this](const auto& known) {
    const PeerLink& one = *known.second;
    return !one.gone && (leaving || !one.finished) && unacknowledged(one) > 0 &&
           may_still_receive(one, since);
  };
  while (!verdict_ && std::any_of(peers_.begin(), peers_.end(), waits))
    run(std::chrono::milliseconds(5));
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
