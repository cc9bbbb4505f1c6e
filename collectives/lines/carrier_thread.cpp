#include <algorithm>

#include <lockstep/collectives/lines/carrier_thread.h>
#include <lockstep/collectives/tcp/tcp_mesh.h>

namespace lockstep::lines {
namespace {

/// Of the mesh of heads: they say nothing else to each other.
constexpr std::uint64_t kNotes = 1;
/// While so much is on its way to a head, no more is told: posts wait where they are.
constexpr std::size_t kMostUnheard = 8 << 20;
constexpr std::size_t kLongestNote = std::size_t{1} << 30;

}  // namespace

Result<std::unique_ptr<CarrierThread>> CarrierThread::start(std::unique_ptr<Carrier> carrier,
                                                            Rank head,
                                                            collectives::TcpOptions options) {
  const auto& others = carrier->others();
  const auto self = std::lower_bound(others.begin(), others.end(), head) - others.begin();
  options.rank = Rank{static_cast<std::int32_t>(self)};
  options.size = static_cast<int>(others.size()) + 1;
  options.job = "lines";
  options.host_id = static_cast<std::uint64_t>(head.value) + 1;  // each is a host of its own
  options.longest_message = kLongestNote;
  auto mesh = collectives::tcp_rendezvous(options);
  if (!mesh) return mesh.error();
  std::unique_ptr<CarrierThread> made(new CarrierThread(std::move(carrier), std::move(*mesh)));
  made->self_ = options.rank.value;
  made->thread_ = std::thread([at = made.get()] { at->run(); });
  return made;
}

CarrierThread::CarrierThread(std::unique_ptr<Carrier> carrier,
                             std::shared_ptr<collectives::TcpMesh> mesh)
    : carrier_(std::move(carrier)), mesh_(std::move(mesh)) {}

CarrierThread::~CarrierThread() {
  {
    const std::lock_guard lock(turning_);
    ends_ = true;
  }
  thread_.join();
}

/// Of a head, by its place among the others, in the mesh.
Rank CarrierThread::named(std::size_t other) const {
  const auto at = static_cast<std::int32_t>(other);
  return Rank{at < self_ ? at : at + 1};
}

bool CarrierThread::has_left(std::size_t other) const {
  return mesh_->finished(named(other)) || mesh_->gone(named(other));
}

std::size_t CarrierThread::unheard() const {
  std::size_t most = 0;
  for (std::size_t other = 0; other < carrier_->others().size(); ++other)
    if (!has_left(other)) most = std::max(most, mesh_->queued(named(other)));
  return most;
}

void CarrierThread::run() {
  const SystemClock clock;
  std::unique_lock lock(turning_);
  while (!ends_) {
    lock.unlock();
    turn(clock.now());
    const bool failed = !mesh_->move(kTick);
    for (std::size_t other = 0; other < carrier_->others().size(); ++other) {
      hear(other, clock.now());
      if (failed || has_left(other)) carrier_->end(other, !mesh_->finished(named(other)));
    }
    lock.lock();
    told_ = carrier_->told();
    all_have_ = carrier_->all_have();
    is_over_ = failed;
    turned_.notify_all();
    if (failed) return;
  }
  lock.unlock();
  collectives::tcp_finish(*mesh_);
}

void CarrierThread::turn(Instant now) {
  if (unheard() > kMostUnheard) return;
  const auto note = carrier_->next(now);
  if (!note) return;
  for (std::size_t other = 0; other < carrier_->others().size(); ++other)
    if (!has_left(other))
      mesh_->send(named(other), kNotes, collectives::Part::Kind::Data, carrier_->to(other, *note));
}

void CarrierThread::hear(std::size_t other, Instant now) {
  if (mesh_->gone(named(other))) return;  // to ask for more would open a connection
  while (auto message = mesh_->take(named(other), kNotes, collectives::Part::Kind::Data))
    static_cast<void>(carrier_->came(other, message->bytes, now));
}

// The note that is being written may have been begun before this call.
void CarrierThread::flush(Duration patience) {
  std::unique_lock lock(turning_);
  const std::uint64_t mark = told_ + 2;
  turned_.wait_for(lock, patience, [&] { return is_over_ || all_have_ >= mark; });
}

}  // namespace lockstep::lines
