#include <lockstep/collectives/simulated/simulated_network.h>

namespace lockstep::collectives {

VirtualNetwork::VirtualNetwork(const NetworkOptions& options)
    : state_(std::make_unique<State>(options)) {}
VirtualNetwork::~VirtualNetwork() = default;

int VirtualNetwork::size() const { return state_->options().size; }
const Clock& VirtualNetwork::clock() const { return state_->clock(); }
const RankSet& VirtualNetwork::culprits() const { return state_->culprits(); }
bool VirtualNetwork::step() { return state_->step(); }
std::vector<Rank> VirtualNetwork::take_ended() { return state_->take_ended(); }
const std::vector<std::string>& VirtualNetwork::log() const { return state_->log(); }
void VirtualNetwork::slow(Rank rank, Duration extra) { state_->rank(rank).extra = extra; }

Communicator& VirtualNetwork::communicator(Rank rank) { return *state_->rank(rank).ports.front(); }

Communicator& VirtualNetwork::communicator(Rank rank, const RankSet& members) {
  SimulatedGroup& group = state_->group(members);
  std::size_t place = 0;
  while (group.ports[place]->of_job() != rank) ++place;
  return *group.ports[place];
}

void VirtualNetwork::lease(Rank rank, Instant until) { state_->rank(rank).shown.lease = until; }

void VirtualNetwork::note(Rank rank, std::string_view event) {
  state_->rank(rank).shown.event = event;
  state_->moved(state_->rank(rank));
}

VirtualNetwork::Traffic VirtualNetwork::traffic(Rank rank) const {
  return state_->rank(rank).traffic;
}

void VirtualNetwork::stop(Rank rank, Instant at, Instant until) {
  state_->rank(rank).stopped_from = at;
  state_->rank(rank).stopped_until = until;
  if (until == Instant::max()) return;
  SimulatedEvent event;
  event.at = until;
  event.kind = SimulatedEvent::Kind::Resume;
  event.what = static_cast<std::uint32_t>(rank.value);
  state_->post(event);
}

void VirtualNetwork::crash(Rank rank, Instant at) { state_->crash(rank, at); }

void VirtualNetwork::finish(Rank rank) {
  state_->rank(rank).shown.finished = true;
  state_->gone();
}

void VirtualNetwork::call_at(Instant at, std::function<void()> then) {
  state_->post_call(at, std::move(then));
}

}  // namespace lockstep::collectives
