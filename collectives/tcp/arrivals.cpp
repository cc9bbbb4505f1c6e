#include <fmt/format.h>

#include <lockstep/collectives/tcp/arrivals.h>

namespace lockstep::collectives {
namespace {

std::string subject(const Arrival& arrival) {
  std::string text = who(arrival);
  text[0] = 'R';
  return text;
}

}  // namespace

Arrivals::Answer Arrivals::come(const Arrival& a, const std::string& at) {
  const auto refused = [](Code code, std::string why, bool ends_all = false) {
    return Answer{Status{code, std::move(why), "", {}}, ends_all};
  };
  if (a.version != kTcpVersion)
    return refused(Code::Version,
                   fmt::format("The process {} on {} speaks version {} of the messages between "
                               "ranks, {} version {}; start all ranks with one build.",
                               a.pid, a.host, a.version, who(host_), kTcpVersion));
  if (a.job != host_.job)
    return refused(Code::BadInput,
                   fmt::format("{} belongs to the job \"{}\", and at this rendezvous meets \"{}\"; "
                               "give each job a rendezvous of its own.",
                               subject(a), a.job, host_.job));
  if (a.size != host_.size)
    return refused(Code::BadInput,
                   fmt::format("{} was started for {} ranks, {} for {}; start all with one "
                               "LOCKSTEP_WORLD_SIZE.",
                               subject(a), a.size, who(host_), host_.size),
                   true);
  if (a.rank.value < 0 || a.rank.value >= host_.size)
    return refused(Code::BadInput, fmt::format("{} is no rank of a job of {}; LOCKSTEP_RANK goes "
                                               "from 0 to {}.",
                                               subject(a), host_.size, host_.size - 1));
  if (a.build != host_.build)
    return refused(Code::Version,
                   fmt::format("{} runs the build {}, {} the build {}; start all ranks with one "
                               "build.",
                               subject(a), a.build, who(host_), host_.build),
                   true);
  const auto earlier = came_.find(a.rank.value);
  if (a.rank == host_.rank || earlier != came_.end())
    return refused(
        Code::BadInput,
        fmt::format("{} came second: {} is there already; give each process a "
                    "LOCKSTEP_RANK of its own.",
                    subject(a), who(a.rank == host_.rank ? host_ : earlier->second.arrival)));
  came_[a.rank.value] = {a, at};
  return {};
}

RankSet Arrivals::missing() const {
  RankSet here = RankSet::of(host_.rank);
  for (const auto& [rank, guest] : came_) here.insert(RankSet::of(Rank{rank}));
  return RankSet::all(host_.size).minus(here);
}

std::vector<Peer> Arrivals::roster() const {
  std::vector<Peer> out(static_cast<std::size_t>(host_.size));
  const auto add = [&](const Arrival& a, const std::string& address) {
    out[static_cast<std::size_t>(a.rank.value)] = {{address, a.port}, a.host, a.host_id, a.pid};
  };
  add(host_, "");
  for (const auto& [rank, guest] : came_) add(guest.arrival, guest.address);
  return out;
}

}  // namespace lockstep::collectives
