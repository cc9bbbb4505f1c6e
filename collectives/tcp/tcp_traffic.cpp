#include <algorithm>
#include <utility>

#include <lockstep/collectives/tcp/tcp_traffic.h>

namespace lockstep::collectives {
namespace {

/// Longest sleep while a ring is full: nothing wakes the writer when there is room again.
constexpr std::chrono::milliseconds kNoRoom{1};
/// poll_likely() runs the loop at most this often.
constexpr std::chrono::microseconds kLoopInterval{50};

}  // namespace

TcpTraffic::TcpTraffic(std::unique_ptr<TcpLoop> loop, TcpPeer::Mesh& mesh,
                       std::function<TcpPeer&(Rank)> peer)
    : loop_(std::move(loop)), mesh_(mesh), peer_(std::move(peer)) {}

void TcpTraffic::share(std::unique_ptr<HostRings> rings, const std::vector<Rank>& here) {
  rings_ = std::move(rings);
  here_ = here;
}

int TcpTraffic::place(Rank rank) const {
  const auto at = std::lower_bound(here_.begin(), here_.end(), rank);
  return at != here_.end() && *at == rank ? static_cast<int>(at - here_.begin()) : -1;
}

bool TcpTraffic::send(TcpPeer& to, std::uint64_t group, Part::Kind kind, std::uint64_t total,
                      std::span<const std::byte> piece) {
  if (to.place < 0 || !rings_->reaches(to.place)) return false;
  to.uses_ring = true;
  if (rings_->send(to.place, group, kind, total, piece)) to.acknowledge();
  return true;
}

void TcpTraffic::read(TcpPeer& from) {
  if (from.place < 0) return;
  if (!rings_->receive(from.place, [&](Part part) { mesh_.on_part(from, std::move(part)); }))
    mesh_.on_garbage(from);
}

void TcpTraffic::run_rings() {
  for (std::size_t place = 0; place < here_.size(); ++place)
    if (rings_->written(static_cast<int>(place))) read(peer_(here_[place]));
  rings_->flush(
      [this](int reader) { peer_(here_[static_cast<std::size_t>(reader)]).acknowledge(); });
}

void TcpTraffic::run_loop(Duration most) {
  loop_->io.restart();
  if (most > Duration{0})
    loop_->io.run_one_for(std::chrono::duration_cast<std::chrono::steady_clock::duration>(most));
  loop_->io.poll();
}

void TcpTraffic::run_loop() { run_loop(Duration{0}); }

void TcpTraffic::run(Duration most) {
  if (!rings_) return run_loop(most);
  run_rings();
  const bool sleep = most > Duration{0} && rings_->sleeps();
  if (rings_->full()) most = std::min<Duration>(most, kNoRoom);
  run_loop(sleep ? most : Duration{0});
  rings_->wakes();
  run_rings();
}

void TcpTraffic::poll_likely(TcpPeer* awaited) {
  if (rings_) run_rings();
  TcpLink* link = awaited == nullptr || awaited->uses_ring ? nullptr : awaited->up();
  if (link != nullptr) link->read_now();
  const bool stands = link != nullptr || (awaited != nullptr && awaited->uses_ring);
  const Instant now = clock_.now();
  if (stands && now - loop_ran_ < kLoopInterval) return;
  loop_ran_ = now;
  run_loop();
}

}  // namespace lockstep::collectives
