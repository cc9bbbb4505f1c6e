#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/tcp/rendezvous_members.h>

namespace lockstep::collectives {
namespace {

std::string subject(const JoinRequest& request) {
  std::string text = who(request);
  text[0] = 'R';
  return text;
}

bool same_process(const JoinRequest& a, const JoinRequest& b) {
  return a.host_id == b.host_id && a.pid == b.pid && a.port == b.port && a.host == b.host;
}

}  // namespace

Rank RendezvousTree::parent(Rank rank, std::uint64_t host) {
  const auto [first, is_first] = firsts_.try_emplace(host, rank);
  if (!is_first) return first->second;
  auto place = std::find(hosts_.begin(), hosts_.end(), host);
  if (place == hosts_.end()) place = hosts_.insert(place, host);
  const auto above = static_cast<std::size_t>(place - hosts_.begin() - 1) / kHosts;
  const auto found = firsts_.find(hosts_[above]);
  return found == firsts_.end() ? Rank{0} : found->second;
}

void RendezvousTree::left(Rank rank) {
  std::erase_if(firsts_, [rank](const auto& one) { return one.second == rank; });
}

RendezvousMembers::Answer RendezvousMembers::join(const JoinRequest& a, const std::string& at) {
  const auto refused = [](Code code, std::string why, bool ends_all = false) {
    return Answer{Status{code, std::move(why), "", {}}, ends_all, {}};
  };
  if (a.version != kTcpVersion)
    return refused(Code::Version,
                   fmt::format("The process {} on {} speaks version {} of the messages between "
                               "ranks, {} version {}; start all ranks with one build.",
                               a.pid, a.host, a.version, who(root_), kTcpVersion));
  if (a.job != root_.job)
    return refused(Code::BadInput,
                   fmt::format("{} belongs to the job \"{}\", and at this rendezvous meets \"{}\"; "
                               "give each job a rendezvous of its own.",
                               subject(a), a.job, root_.job));
  if (a.size != root_.size)
    return refused(Code::BadInput,
                   fmt::format("{} was started for {} ranks, {} for {}; start all with one "
                               "LOCKSTEP_WORLD_SIZE.",
                               subject(a), a.size, who(root_), root_.size),
                   true);
  if (a.rank.value < 0 || a.rank.value >= root_.size)
    return refused(Code::BadInput, fmt::format("{} is no rank of a job of {}; LOCKSTEP_RANK goes "
                                               "from 0 to {}.",
                                               subject(a), root_.size, root_.size - 1));
  if (a.build != root_.build)
    return refused(Code::Version,
                   fmt::format("{} runs the build {}, {} the build {}; start all ranks with one "
                               "build.",
                               subject(a), a.build, who(root_), root_.build),
                   true);
  auto earlier = joined_.find(a.rank.value);
  if (earlier != joined_.end() && same_process(earlier->second.request, a)) {
    earlier->second.address = at;
    is_here(earlier->second);
    return {};  // waits here: the parent that it was sent to may be gone
  }
  if (earlier != joined_.end() && earlier->second.gone) {
    erase(earlier);
    earlier = joined_.end();
  }
  if (a.rank == root_.rank || earlier != joined_.end())
    return refused(
        Code::BadInput,
        fmt::format("{} came second: {} is there already; give each process a "
                    "LOCKSTEP_RANK of its own.",
                    subject(a), who(a.rank == root_.rank ? root_ : earlier->second.request)));
  Member& member = joined_[a.rank.value] = {a, at};
  const Rank parent = root_.rank.value == 0 ? tree_.parent(a.rank, a.host_id) : root_.rank;
  if (parent == root_.rank) {
    is_here(member);
    return {};
  }
  const Member& with = joined_.at(parent.value);
  return {.wait_at = Endpoint{with.address, with.request.port}};
}

void RendezvousMembers::is_here(Member& member) {
  if (std::exchange(member.on_its_way, false)) ++here_;
  member.gone.reset();
}

void RendezvousMembers::arrived(Rank rank) {
  if (const auto found = joined_.find(rank.value); found != joined_.end()) is_here(found->second);
}

void RendezvousMembers::left(Rank rank, Instant now) {
  const auto found = joined_.find(rank.value);
  if (found == joined_.end() || found->second.gone) return;
  tree_.left(rank);
  if (found->second.on_its_way) return erase(found);
  found->second.gone = now;
  gone_.emplace_back(now, rank);
}

void RendezvousMembers::forget_gone(Instant before) {
  for (; !gone_.empty() && gone_.front().first < before; gone_.pop_front()) {
    const auto member = joined_.find(gone_.front().second.value);
    if (member != joined_.end() && member->second.gone == gone_.front().first) erase(member);
  }
}

RankSet RendezvousMembers::gone() const {
  RankSet out;
  for (const auto& [since, rank] : gone_)
    if (const auto member = joined_.find(rank.value);
        member != joined_.end() && member->second.gone == since)
      out.insert(rank);
  return out;
}

void RendezvousMembers::erase(std::map<std::int32_t, Member>::iterator member) {
  if (!member->second.on_its_way) --here_;
  joined_.erase(member);
}

RankSet RendezvousMembers::missing() const {
  RankSet out;
  std::int32_t next = 1;
  for (const auto& [rank, member] : joined_) {
    if (member.on_its_way) continue;
    if (next < rank) out.insert(RankSet::Run{next, rank - 1});
    next = rank + 1;
  }
  if (next < root_.size) out.insert(RankSet::Run{next, root_.size - 1});
  return out;
}

std::vector<Peer> RendezvousMembers::roster() const {
  std::vector<Peer> out(static_cast<std::size_t>(root_.size));
  const auto add = [&](const JoinRequest& a, const std::string& address) {
    out[static_cast<std::size_t>(a.rank.value)] = {{address, a.port}, a.host, a.host_id, a.pid};
  };
  add(root_, "");
  for (const auto& [rank, member] : joined_) add(member.request, member.address);
  return out;
}

}  // namespace lockstep::collectives
