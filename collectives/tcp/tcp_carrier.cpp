#include <set>

#include <lockstep/collectives/tcp/tcp.h>
#include <lockstep/collectives/tcp/tcp_mesh.h>

namespace lockstep::collectives {
namespace {

/// How often a rank tells of itself, and after how long it is not believed to wait any more.
constexpr std::chrono::milliseconds kEvery{200}, kSilence{2000};

}  // namespace

TcpCarrier::TcpCarrier(TcpMesh& mesh, Board& board) : mesh_(mesh), board_(board) {
  const std::uint64_t own = mesh.peer(mesh.rank()).host_id;
  std::set<std::uint64_t> hosts;
  for (std::int32_t r = 0; r < mesh.size(); ++r) {
    const std::uint64_t host = mesh.peer(Rank{r}).host_id;
    if (!hosts.insert(host).second) continue;
    if (host != own)
      tells_.push_back(Rank{r});
    else
      hears_ = r == mesh.rank().value;
  }
}

void TcpCarrier::look(Instant now) {
  if (tells_.empty() || now - told_ < kEvery) return;
  told_ = now;
  // Counts last: a slot that says it waits has counted its operation.
  Progress mine{board_.state(mesh_.rank()), board_.begun(mesh_.rank())};
  mine.state.progress = now - mine.state.progress;
  mine.state.lease = std::max(Instant{0}, mine.state.lease - now);
  mesh_.say_progress(tells_, mine);
  if (hears_) hear(now);
}

void TcpCarrier::hear(Instant now) {
  const auto carry = [&](std::int32_t rank, const Heard& heard) {
    board_.carry(Rank{rank}, heard.state, heard.begun, mesh_.peer(Rank{rank}).host_id);
  };
  for (auto& [rank, progress] : mesh_.take_progress()) {
    Heard& heard = heard_[rank];
    heard = {std::move(progress.state), std::move(progress.begun), now, false};
    heard.state.progress = now - heard.state.progress;
    heard.state.lease += heard.state.lease > Instant{0} ? now : Instant{0};
    carry(rank, heard);
  }
  // Suspended, or out of reach: whatever it waited for then is no excuse now.
  for (auto& [rank, heard] : heard_) {
    if (heard.silent || heard.state.finished || now - heard.at < kSilence) continue;
    heard.silent = true;
    heard.state.waiting = false;
    carry(rank, heard);
  }
}

}  // namespace lockstep::collectives
