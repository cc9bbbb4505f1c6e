#include <map>

#include <fmt/format.h>

#include <lockstep/coordinator/service/membership.h>

namespace lockstep::coordinator {
namespace {

std::string process_text(const Identity& identity) {
  return fmt::format("rank {} (host {}, process {})", identity.rank.value, identity.host,
                     identity.pid);
}

bool is_live(const Member* member) {
  return member != nullptr && member->connection && !member->finished;
}

template <class Which>
RankSet ranks_where(const std::vector<std::unique_ptr<Member>>& members, const Which& which) {
  RankSet out;
  for (std::size_t r = 0; r < members.size(); ++r)
    if (which(members[r].get())) out.insert(Rank{static_cast<std::int32_t>(r)});
  return out;
}

}  // namespace

std::string_view link_name(const Member* member) {
  if (member == nullptr) return "absent";
  if (member->finished) return "finished";
  return member->connection ? "connected" : "closed";
}

Membership::Membership(const Identity& first)
    : size_(first.size),
      build_(first.build),
      deadline_(first.deadline),
      first_host_(first.host_id),
      members_(static_cast<std::size_t>(first.size > 0 ? first.size : 0)) {}

bool Membership::knows(const Identity& identity) const {
  if (identity.rank.value < 0 || identity.rank.value >= size_) return false;
  const Member* known = member(identity.rank);
  return known != nullptr && known->identity == identity;
}

std::optional<Status> Membership::objection(const Identity& identity, Instant now,
                                            Duration silent_after) const {
  const auto here = [&] { return text(live()); };
  if (identity.size != size_)
    return Status{Code::Version,
                  fmt::format("The job {} has {} ranks, as its {} say, but {} says that it has {}; "
                              "start all ranks of a job alike, or give jobs different ids.",
                              identity.job, size_, here(), process_text(identity), identity.size)};
  if (identity.build != build_)
    return Status{
        Code::Version,
        fmt::format("{} of the job {} runs build {}, but its {} run build {}; start all ranks "
                    "from the same program file.",
                    process_text(identity), identity.job, identity.build, here(), build_)};
  const Member* known = member(identity.rank);
  if (known == nullptr || known->identity.incarnation == identity.incarnation) return {};
  if (!known->connection || known->finished || now - known->heard > silent_after) return {};
  return Status{
      Code::Version,
      fmt::format("Two processes say that they are rank {} of the job {}: {}, which is there, "
                  "and process {} on host {}, which came later and is refused.",
                  identity.rank.value, identity.job, process_text(known->identity), identity.pid,
                  identity.host)};
}

Result<Membership::Admission> Membership::join(const Identity& identity, ConnectionId connection,
                                               Instant now, Duration silent_after) {
  if (auto wrong = objection(identity, now, silent_after)) return *std::move(wrong);
  auto& place = members_[static_cast<std::size_t>(identity.rank.value)];
  const bool was_live = is_live(place.get());
  Admission admission;
  if (place) {
    admission.replaced = place->connection;
    admission.restarted = place->identity.incarnation != identity.incarnation;
  } else {
    place = std::make_unique<Member>();
    place->joined = now;
  }
  if (admission.restarted) *place = Member{.joined = now, .restarts = place->restarts + 1};
  place->identity = identity;
  several_hosts_ = several_hosts_ || identity.host_id != first_host_;
  place->connection = connection;
  place->heard = now;
  live_ += is_live(place.get()) - was_live;
  return admission;
}

void Membership::heard(Rank rank, bool finished, Instant now) {
  Member& member = *members_[static_cast<std::size_t>(rank.value)];
  const bool was_live = is_live(&member);
  member.heard = now;
  member.finished = member.finished || finished;
  live_ += is_live(&member) - was_live;
}

void Membership::closed(Rank rank, ConnectionId connection, Instant now) {
  Member& member = *members_[static_cast<std::size_t>(rank.value)];
  if (member.connection != connection) return;
  live_ -= is_live(&member);
  member.connection.reset();
  member.heard = now;
}

RankSet Membership::live() const { return ranks_where(members_, is_live); }
RankSet Membership::finished() const {
  return ranks_where(members_, [](const Member* m) { return m != nullptr && m->finished; });
}
RankSet Membership::absent() const {
  return ranks_where(members_, [](const Member* m) { return m == nullptr; });
}

std::string Membership::text(const RankSet& ranks) const {
  std::map<std::string, RankSet> hosts;
  for (const Rank rank : ranks)
    if (const Member* known = member(rank)) hosts[known->identity.host].insert(rank);
  std::string out;
  for (const auto& [host, there] : hosts) {
    out += out.empty() ? " (" : "; ";
    out += "host " + host;
    if (there != ranks) out += ": " + there.text();
  }
  return ranks.phrase() + out + (out.empty() ? "" : ")");
}

}  // namespace lockstep::coordinator
