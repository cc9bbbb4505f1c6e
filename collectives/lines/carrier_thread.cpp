#include <algorithm>

#include <lockstep/collectives/lines/carrier_thread.h>
#include <lockstep/collectives/tcp/tcp_mesh.h>

namespace lockstep::lines {
namespace {

/// Group of the notes in the mesh of heads, which carries nothing else.
constexpr std::uint64_t kNotes = 1;
/// While more bytes than this are queued for a head, no note is made: posts wait in memory.
constexpr std::size_t kMostUnheard = 8 << 20;
constexpr std::size_t kLongestNote = std::size_t{1} << 30;

}  // namespace

Result<std::unique_ptr<CarrierThread>> CarrierThread::start(SharedPosts& posts,
                                                            std::unique_ptr<Carrier> carrier,
                                                            collectives::TcpOptions options) {
  const auto& heads = carrier->heads();
  const auto place = [&](Rank head) {
    return Rank{
        static_cast<std::int32_t>(std::find(heads.begin(), heads.end(), head) - heads.begin())};
  };
  options.rank = place(posts.head());
  options.size = static_cast<int>(heads.size());
  options.job = "lines";
  options.host_id = static_cast<std::uint64_t>(options.rank.value) + 1;  // each head is a host
  options.longest_message = kLongestNote;
  auto mesh = collectives::tcp_rendezvous(options);
  if (!mesh) return mesh.error();
  std::vector<Rank> named;
  for (const Rank other : carrier->others()) named.push_back(place(other));
  std::unique_ptr<CarrierThread> made(
      new CarrierThread(posts, std::move(carrier), std::move(*mesh)));
  made->named_ = std::move(named);
  made->thread_ = std::thread([at = made.get()] { at->run(); });
  return made;
}

CarrierThread::CarrierThread(SharedPosts& posts, std::unique_ptr<Carrier> carrier,
                             std::shared_ptr<collectives::TcpMesh> mesh)
    : posts_(posts), carrier_(std::move(carrier)), mesh_(std::move(mesh)) {}

CarrierThread::~CarrierThread() {
  ends_ = true;
  if (thread_.joinable()) thread_.join();
}

bool CarrierThread::has_left(std::size_t other) const {
  return mesh_->finished(named_[other]) || mesh_->gone(named_[other]);
}

std::size_t CarrierThread::unheard() const {
  std::size_t most = 0;
  for (std::size_t other = 0; other < named_.size(); ++other)
    if (!has_left(other)) most = std::max(most, mesh_->queued(named_[other]));
  return most;
}

// A failure ends the whole mesh. Only heads that are known to have gone count as lost.
void CarrierThread::run() {
  const SystemClock clock;
  bool failed = false;
  while (!ends_ && !failed) {
    turn(clock.now());
    failed = !mesh_->move(kTick);
    for (std::size_t other = 0; other < named_.size(); ++other) {
      hear(other, clock.now());
      if (failed || has_left(other))
        carrier_->end(other, mesh_->gone(named_[other]) && !mesh_->finished(named_[other]));
    }
    posts_.all_have(carrier_->all_have());
  }
  carrier_->stop();
  posts_.all_have(~std::uint64_t{0});
  if (!failed) collectives::tcp_finish(*mesh_);
}

void CarrierThread::turn(Instant now) {
  if (now - turned_at_ < kTick || unheard() > kMostUnheard) return;
  turned_at_ = now;
  const auto note = carrier_->next(now);
  if (!note) return;
  for (std::size_t other = 0; other < named_.size(); ++other)
    if (!has_left(other))
      mesh_->send(named_[other], kNotes, collectives::Part::Kind::Data, carrier_->to(other, *note));
}

// Reads the messages of a head that has gone once more, and never again: a later take() would open
// a connection.
void CarrierThread::hear(std::size_t other, Instant now) {
  if (carrier_->is_over(other)) return;
  while (auto message = mesh_->take(named_[other], kNotes, collectives::Part::Kind::Data))
    static_cast<void>(carrier_->came(other, message->bytes, now));
}

}  // namespace lockstep::lines
