#include <algorithm>

#include <fmt/format.h>

#include <lockstep/collectives/lines/lines.h>

namespace lockstep::lines {
namespace {

/// Longest wait of finish() and gone() until the other hosts know of the end.
constexpr Duration kLastWord = std::chrono::milliseconds(300);

/// Counts this thread among those that issue, until it ends.
void count_thread(const std::shared_ptr<SharedPosts>& posts) {
  thread_local struct Counted {
    ~Counted() {
      for (const auto& each : all)
        if (const auto there = each.lock()) there->issuing_threads(-1);
    }
    std::vector<std::weak_ptr<SharedPosts>> all;
  } counted;
  const auto is_same = [&](const std::weak_ptr<SharedPosts>& each) {
    return !each.owner_before(posts) && !posts.owner_before(each);
  };
  if (std::any_of(counted.all.begin(), counted.all.end(), is_same)) return;
  counted.all.push_back(posts);
  posts->issuing_threads(1);
}

}  // namespace

Lines::Lines(Rank self, std::unique_ptr<SharedPosts> posts)
    : self_(self), posts_(std::move(posts)), issuer_(*posts_) {}

Result<std::unique_ptr<Lines>> Lines::open(Rank self) {
  auto posts = SharedPosts::create(self);
  if (!posts) return posts.error();
  return std::unique_ptr<Lines>(new Lines(self, std::move(*posts)));
}

Result<Rank> Lines::head() {
  const Rank head = posts_->head();
  if (head != self_ || posts_->unseen().empty()) return head;
  const auto ranks = static_cast<int>(posts_->seen().size() + posts_->unseen().size());
  auto carrier = Carrier::create(*posts_, ranks);
  if (!carrier) return carrier.error();
  carrier_ = std::move(*carrier);
  return head;
}

Result<void> Lines::meet(const std::vector<std::int32_t>& heads,
                         const collectives::TcpOptions& options) {
  if (auto opened = posts_->open_mirrors(); !opened) return opened;
  if (carrier_ == nullptr) return {};
  carrier_->meet(heads);
  auto thread = CarrierThread::start(*posts_, std::move(carrier_), options);
  if (!thread) return thread.error();
  carrier_thread_ = std::move(*thread);
  return {};
}

// A note that acknowledges this rank's posts also carries the refusals that the posts caused, so
// after the wait all these refusals are here.
Result<void> Lines::finish() {
  posts_->finish();
  posts_->wait_until_told(kLastWord);
  const std::lock_guard lock(grouping_);
  for (const Issuing& on : groups_)
    if (auto said = posts_->refusal(on.group.key);
        said && said->code == Code::GraphDivergence && !on.is_told)
      return *std::move(said);
  return {};
}

void Lines::gone(std::string_view text) {
  posts_->gone(text);
  posts_->wait_until_told(kLastWord);
}

int Lines::group(Group given) {
  const std::lock_guard lock(grouping_);
  const auto found = std::find_if(groups_.begin(), groups_.end(),
                                  [&](const Issuing& each) { return each.group.key == given.key; });
  if (found != groups_.end()) return static_cast<int>(found - groups_.begin());
  issuer_.prepare(given);
  groups_.emplace_back(std::move(given));
  return static_cast<int>(groups_.size()) - 1;
}

bool Lines::has_group(int number) {
  const std::lock_guard lock(grouping_);
  return number >= 0 && static_cast<std::size_t>(number) < groups_.size();
}

Lines::Issuing& Lines::at(int group) {
  const std::lock_guard lock(grouping_);
  return groups_.at(static_cast<std::size_t>(group));
}

template <class R>
R Lines::heard(Issuing& on, R result) {
  if (result.has_error()) on.is_told = true;
  return result;
}

Result<std::uint64_t> Lines::issue(int group, const Operation& operation) {
  count_thread(posts_);
  Issuing& on = at(group);
  const std::lock_guard lock(on.issuing);
  auto issued = heard(on, issuer_.issue(on.group, operation));
  if (!issued) return issued.error();
  on.line = issued->line;
  if (issued->elsewhere) report_places(on.group, *issued);
  return issued->number;
}

void Lines::report_places(const Group& group, const Issued& issued) {
  const std::pair sites{issued.entry.posted.site, issued.elsewhere->site};
  const std::lock_guard lock(telling_);
  if (apart_.size() >= kMostApart || !apart_sites_.insert(sites).second) return;
  apart_.push_back(fmt::format(
      "operation {} of {} is the same on its ranks, at different places of the program [{}]",
      issued.number + 1, group.name, issuer_.rows(group, issued, issued.elsewhere->member)));
  ++apart_count_;
}

const std::string* Lines::place_report_text(std::uint64_t number) const {
  const std::lock_guard lock(telling_);
  return number == 0 || number > apart_.size() ? nullptr : &apart_[number - 1];
}

void Lines::issued(int group) {
  Issuing& on = at(group);
  const std::lock_guard lock(on.issuing);
  posts_->handed(on.line);
}

Result<void> Lines::in_flight(int number_of_group, std::uint64_t number, Instant now) {
  Issuing& on = at(number_of_group);
  const Group& group = on.group;
  if (auto alive = heard(on, issuer_.still_alive(group)); !alive) return alive;
  const Waiting wait{group.key, number};
  for (const Rank member : posts_->needed_by(self_, wait))
    if (has_ended(posts_->state(member)) && posts_->counts_of(member, group.key).handed <= number)
      return posts_->refuse(group.key, verdict({{self_, wait, member, 0, now}}, now));
  return {};
}

Arrival Lines::arrived(int number_of_group, std::uint64_t number) {
  const LineKey key = at(number_of_group).group.key;
  Arrival arrival = Arrival::All;
  const std::vector<Rank> needed = posts_->needed_by(self_, {key, number});
  if (needed.empty() && number < posts_->count(self_, key)) {
    const auto entry = posts_->entry(self_, key, number);
    if (entry && entry->posted.needs == Needs::Receiver) return Arrival::Here;
  }
  for (const Rank member : needed) {
    if (posts_->state(member) == PeerState::Unseen ||
        posts_->counts_of(member, key).handed > number)
      continue;
    if (posts_->is_here(member)) return Arrival::NotYet;
    arrival = Arrival::Here;
  }
  return arrival;
}

// This rank is the only member of the line: nothing is compared, its lead over others has no limit,
// and its latest entries stay.
Result<void> Lines::tell(LineKey key, const Operation& what) {
  Issuing& on = at(group(Group{key, {self_}, 0, "what is told"}));
  const std::lock_guard lock(on.issuing);
  const auto posted = issuer_.post(on.group, what);
  return posted ? Result<void>{} : Result<void>{posted.error()};
}

Lines::Told Lines::published_by(Rank rank, LineKey key, std::uint64_t number) const {
  Told told{posts_->count(rank, key), {}, {}};
  if (number == 0 || number > told.times) return told;
  if (auto entry = posts_->entry(rank, key, number - 1)) {
    told.texts = posts_->texts(rank, entry->posted);
    told.entry = *std::move(entry);
  }
  return told;
}

Lines::Wait Lines::begin_wait(int group, std::uint64_t number, Instant now) {
  const Waiting in{at(group).group.key, number};
  return Wait{
      .group = group, .slot = posts_->begin_wait(in, now), .seen = {}, .in = in, .begin = now};
}

Result<void> Lines::look(Wait& wait, Instant now) {
  return heard(at(wait.group), look_again(wait, now));
}

Result<void> Lines::look_again(Wait& wait, Instant now) {
  const Group& group = at(wait.group).group;
  if (auto alive = issuer_.still_alive(group); !alive) return alive;
  const WaitMoment moment = posts_->moment(now, {self_});
  if (!seen_again(wait.seen, moment, now, posts_->marks()))
    return wait.seen.since == now ? look_for_silent(wait, now) : Result<void>{};
  if (!is_proven(wait.seen, now)) return {};
  // A rank that goes on after its error may next wait for one of these ranks, so the groups of all
  // their waits are refused now.
  const Status said = verdict(wait.seen.blocked, now);
  for (const Blocked& one : wait.seen.blocked)
    static_cast<void>(posts_->refuse(one.waits.key, said));
  return posts_->refuse(group.key, said);
}

bool Lines::is_proven(const BlockedSeen& seen, Instant now) const {
  const Duration proof = posts_->is_here(seen.blocked.front().rank) ? kProof : kProofElsewhere;
  return now - seen.since >= proof &&
         std::any_of(seen.blocked.begin(), seen.blocked.end(),
                     [&](const Blocked& one) { return one.rank == self_; });
}

Result<void> Lines::look_for_silent(const Wait& wait, Instant now) {
  const Duration deadline = deadline_;
  if (deadline == Duration{} || now - wait.begin < deadline) return {};
  RankWaits::Wait mine{wait.in, {}, wait.begin};
  for (const Rank member : posts_->needed_by(self_, wait.in))
    if (posts_->counts_of(member, wait.in.key).posted <= wait.in.number)
      mine.needed.push_back(member);
  const auto moment = posts_->moment(now, mine.needed, true);
  const auto silent = find_silent(moment, mine, now);
  if (!silent) return {};
  const Status said{
      Code::Stuck,
      fmt::format("rank {} does not move on, and others wait for it [rank {} {}]", silent->value,
                  self_.value, waits_text({self_, wait.in, *silent, 0, wait.begin}, now))};
  return posts_->refuse(wait.in.key, said);
}

void Lines::end_wait(Wait& wait) { posts_->end_wait(wait.slot); }

std::string Lines::waits_text(const Blocked& blocked, Instant now) const {
  const auto entry = posts_->entry(blocked.rank, blocked.waits.key, blocked.waits.number);
  return fmt::format(
      "waits for rank {}, for {:.1f} s, in operation {} of {}: {}", blocked.by.value,
      std::chrono::duration<double>(now - blocked.since).count(), blocked.waits.number + 1,
      posts_->name_of(blocked.rank, blocked.waits.key),
      entry ? text_of(*entry, posts_->texts(blocked.rank, entry->posted)) : "(unknown)");
}

// One message about all blocked waits, by rank: every waiting rank reports it.
Status Lines::verdict(const std::vector<Blocked>& blocked, Instant now) const {
  Status status{Code::Stuck, {}};
  std::string rows;
  for (const Blocked& one : blocked) {
    rows +=
        fmt::format("{}rank {} {}", rows.empty() ? "" : "; ", one.rank.value, waits_text(one, now));
    const PeerState state = posts_->state(one.by);
    if (!status.message.empty() || state == PeerState::Running) continue;
    if (state == PeerState::Gone) {
      status.code = Code::Gone;
      status.message =
          fmt::format("rank {} has failed: {}", one.by.value, posts_->gone_text(one.by));
    } else if (state == PeerState::Lost) {
      status.code = Code::RankLost;
      status.message = fmt::format("the process of rank {} has ended", one.by.value);
    } else {
      status.message = fmt::format(
          "rank {} has finished, and others wait for it: it issued fewer operations", one.by.value);
    }
  }
  if (status.message.empty())
    status.message =
        "ranks wait for each other: they issued operations of their groups in another order, or "
        "one of "
        "them issued none";
  status.message += fmt::format(" [{}]", rows);
  return status;
}

}  // namespace lockstep::lines
