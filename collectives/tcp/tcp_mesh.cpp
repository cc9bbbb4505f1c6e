#include <algorithm>

#include <fmt/format.h>
#include <sched.h>

#include <lockstep/collectives/tcp/tcp.h>
#include <lockstep/collectives/tcp/tcp_mesh.h>

namespace lockstep::collectives {
namespace {

/// How long last words may take to go out.
constexpr std::chrono::milliseconds kFarewell{200};

void run_for(TcpLoop& loop, Duration time) {
  loop.io.restart();
  if (time > Duration{0})
    loop.io.run_one_for(std::chrono::duration_cast<std::chrono::steady_clock::duration>(time));
  loop.io.poll();
}

/// Until all is sent, or kFarewell have gone by.
void flush(TcpLoop& loop, const std::vector<std::shared_ptr<TcpLink>>& links) {
  const SystemClock clock;
  const Instant until = clock.now() + kFarewell;
  const auto waits = [](const auto& link) { return link && link->queued() > 0; };
  while (std::any_of(links.begin(), links.end(), waits) && clock.now() < until)
    run_for(loop, std::chrono::milliseconds(5));
}

}  // namespace

TcpMesh::TcpMesh(TcpMeshParts parts, std::size_t longest_message)
    : loop_(std::move(parts.loop)),
      self_(parts.self),
      roster_(std::move(parts.roster)),
      longest_(longest_message),
      links_(std::move(parts.links)),
      finished_(roster_.size(), false) {
  for (auto& [from, message] : parts.early) took(from, std::move(message));
  for (std::size_t r = 0; r < links_.size(); ++r) {
    if (!links_[r]) continue;
    const Rank peer{static_cast<std::int32_t>(r)};
    links_[r]->on({.message = [this, peer](TcpMessage message) { took(peer, std::move(message)); },
                   .ended = [this, peer](const Status& why) { ended(peer, why); }});
  }
}

TcpMesh::~TcpMesh() {
  const std::lock_guard lock(mutex_);
  for (const auto& link : links_)
    if (link) link->send(CleanExit{});
  flush(*loop_, links_);
  for (const auto& link : links_)
    if (link) link->close();
}

TcpMesh::Line TcpMesh::line(Rank from, std::uint64_t group, Part::Kind kind) {
  const int number =
      kind == Part::Kind::Bare || kind == Part::Kind::Payload ? 0 : static_cast<int>(kind);
  return {from.value, group, number};
}

void TcpMesh::fail(Status status) {
  if (!failure_) failure_ = std::move(status);
}

void TcpMesh::took(Rank from, TcpMessage message) {
  if (auto* part = std::get_if<Part>(&message)) return took(from, std::move(*part));
  if (std::holds_alternative<CleanExit>(message)) {
    finished_[static_cast<std::size_t>(from.value)] = true;
  } else if (auto* progress = std::get_if<Progress>(&message)) {
    progress_[from.value] = std::move(*progress);
  } else if (const auto* verdict = std::get_if<Verdict>(&message)) {
    fail(verdict->status);
  } else {
    fail({Code::Internal,
          fmt::format("Rank {} said something that has no place once all have met.", from.value),
          "",
          {}});
  }
}

void TcpMesh::took(Rank from, Part part) {
  Inbox& inbox = inboxes_[line(from, part.group, part.kind)];
  if (!inbox.begun) {
    if (part.total > longest_)
      return fail({Code::Internal,
                   fmt::format("Rank {} announces a payload of {} bytes; at most {} are believed.",
                               from.value, part.total, longest_),
                   "",
                   {}});
    inbox.begun = Message{part.kind, {}};
    inbox.total = part.total;
  }
  Bytes& bytes = inbox.begun->bytes;
  if (part.total != inbox.total || part.kind != inbox.begun->kind ||
      part.bytes.size() > inbox.total - bytes.size())
    return fail({Code::Internal,
                 fmt::format("The pieces of a message of rank {} do not fit together.", from.value),
                 "",
                 {}});
  bytes.insert(bytes.end(), part.bytes.begin(), part.bytes.end());
  if (bytes.size() < inbox.total) return;
  inbox.whole.push_back(std::move(*inbox.begun));
  inbox.begun.reset();
}

void TcpMesh::ended(Rank rank, const Status& why) {
  if (finished_[static_cast<std::size_t>(rank.value)] || failure_) return;
  const Peer& gone = peer(rank);
  lost_ = rank;
  fail({Code::RankLost,
        fmt::format("Rank {} ended without finishing the job (process {} on {}; {}); the output of "
                    "that process or the system's log (a signal, no memory, an early exit) says "
                    "why.",
                    rank.value, gone.pid, gone.host, why.message),
        "",
        {}});
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
  const auto& link = links_[static_cast<std::size_t>(to.value)];
  link->send(Part{group, kind, total, Bytes(piece.begin(), piece.end())});
}

std::size_t TcpMesh::queued(Rank to) const {
  const std::lock_guard lock(mutex_);
  return links_[static_cast<std::size_t>(to.value)]->queued();
}

std::optional<TcpMesh::Message> TcpMesh::take(Rank from, std::uint64_t group, Part::Kind kind) {
  const std::lock_guard lock(mutex_);
  const auto found = inboxes_.find(line(from, group, kind));
  if (found == inboxes_.end() || found->second.whole.empty()) return std::nullopt;
  Message message = std::move(found->second.whole.front());
  found->second.whole.pop_front();
  return message;
}

bool TcpMesh::finished(Rank rank) const {
  const std::lock_guard lock(mutex_);
  return finished_[static_cast<std::size_t>(rank.value)];
}

std::optional<Rank> TcpMesh::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

Result<void> TcpMesh::move(Duration most) {
  while (telling_.load() > 0) ::sched_yield();
  const std::lock_guard lock(mutex_);
  if (!failure_) run_for(*loop_, most);
  if (failure_) return *failure_;
  return {};
}

std::map<std::int32_t, Progress> TcpMesh::take_progress() {
  ++telling_;
  const std::lock_guard lock(mutex_);
  --telling_;
  return std::exchange(progress_, {});
}

void TcpMesh::say_progress(const std::vector<Rank>& to, const Progress& progress) {
  ++telling_;
  const std::lock_guard lock(mutex_);
  --telling_;
  for (const Rank rank : to) {
    const auto& link = links_[static_cast<std::size_t>(rank.value)];
    // A rank that does not read hears the next one.
    if (link->queued() == 0) link->send(progress);
  }
  if (!failure_) run_for(*loop_, Duration{0});
}

void TcpMesh::tell(const Status& verdict) {
  ++telling_;
  {
    const std::lock_guard lock(mutex_);
    --telling_;
    for (const auto& link : links_)
      if (link) link->send(Verdict{verdict});
    flush(*loop_, links_);
  }
}

void TcpMesh::leave(Duration patience) {
  {
    ++telling_;
    const std::lock_guard lock(mutex_);
    --telling_;
    for (const auto& link : links_)
      if (link) link->send(CleanExit{});
    flush(*loop_, links_);
  }
  const SystemClock clock;
  const Instant until = clock.now() + patience;
  const auto all_have_left = [&] {
    for (std::size_t r = 0; r < links_.size(); ++r)
      if (links_[r] && !finished(Rank{static_cast<std::int32_t>(r)})) return false;
    return true;
  };
  while (!all_have_left() && clock.now() < until)
    if (!move(std::chrono::milliseconds(5))) return;
}

void tcp_leave(TcpMesh& mesh, Duration patience) { mesh.leave(patience); }

void tcp_tell(TcpMesh& mesh, const Status& verdict) { mesh.tell(verdict); }

}  // namespace lockstep::collectives
