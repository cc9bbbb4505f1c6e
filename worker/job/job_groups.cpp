#include <utility>

#include <fmt/format.h>

#include <lockstep/collectives/simulated/fake.h>
#include <lockstep/collectives/tree.h>
#include <lockstep/worker/agree/agreement/rank_table.h>
#include <lockstep/worker/job/group_declaration.h>
#include <lockstep/worker/job/job_groups.h>

namespace lockstep::worker {

Result<void> JobGroups::open() {
  const Rank self = world_.all->rank();
  auto own = collectives::fake_communicator(Rank{0}, 1);
  if (!own) return own.error();
  collectives::Communicator& alone = *own_.emplace_back(std::move(*own));
  context_.everyone = {.group = {"", RankSet::all(world_.all->size()), self},
                       .data = world_.all.get(),
                       .rounds = open(*world_.all, {}),
                       .label = {}};
  context_.alone = {.group = {"", RankSet::of(self), Rank{0}},
                    .data = &alone,
                    .rounds = open(alone, RankSet::of(self)),
                    .label = fmt::format("rank {} alone", self.value)};
  return {};
}

GroupRounds* JobGroups::open(collectives::Communicator& ranks, RankSet self) {
  GroupRounds& rounds = rounds_.emplace_back(ranks, std::move(self), context_.decision, 1);
  rounds.observe(round_observer_);
  for (CallObserver* observer : observers_) rounds.driver().observe(*observer);
  return &rounds;
}

Result<Group> JobGroups::declare(std::string name, const RankSet& members) {
  Result<Group> mine = declared(name, members, world_.all->rank(), world_.all->size());
  if (mine && !names_.insert(name).second)
    mine = bad_input(fmt::format("group {} has been declared before", name), name);
  key_.kind = RoundKey::Kind::Group;
  ++key_.round, ++key_.call;
  auto sets = compare(mine);
  if (!sets) return sets.error();
  if (auto joined = join(*mine); !joined) return joined.error();
  nest(mine->name, *std::move(sets), sets_, context_.nesting);
  return mine;
}

/// Exchanges the declarations of all ranks and compares them.
Result<std::vector<RankSet>> JobGroups::compare(const Result<Group>& mine) {
  collectives::Communicator& all = *world_.all;
  key_.attempt = 0;
  context_.note(key_.text());
  RankStatus rank_status;
  if (!mine) rank_status.local_error = mine.error();
  if (auto well = everyone().status_round(key_, rank_status); !well) return well.error();
  RankSet speaks_for = RankSet::of(all.rank());
  if (all.mirrors()) speaks_for.insert(mine->members);
  collectives::TreeRound round(all.rank(), all.size(),
                               rank_table_payload(speaks_for, declaration(*mine)), join_rank_tables,
                               all.hosts());
  if (auto joined = all.run(round); !joined) return joined.error();
  return compare_declarations(rank_table_values(round.result()));
}

/// Opens the group's own communicator. All ranks of the job learn whether this succeeded.
Result<void> JobGroups::join(const Group& group) {
  RankStatus rank_status;
  if (!group.empty()) {
    // Never 0, which is the id of all ranks, and below 2^63, because the board stores the id plus
    // 1.
    const std::uint64_t id = shapes::fingerprint(group.label()).low >> 1 | 1;
    auto own = join_group(world_, group.members, id, group.label());
    if (own) {
      collectives::Communicator& ranks = *own_.emplace_back(std::move(*own));
      context_.groups[group.name] = {.group = group,
                                     .data = &ranks,
                                     .rounds = open(ranks, RankSet::of(world_.all->rank())),
                                     .label = group.label()};
      if (context_.recorder != nullptr) context_.recorder->group(group.label(), group.members);
    } else {
      rank_status.local_error = own.error();
    }
  }
  key_.attempt = 1;
  return everyone().status_round(key_, rank_status);
}

void JobGroups::observe(CallObserver& observer) {
  observers_.push_back(&observer);
  for (GroupRounds& rounds : rounds_) rounds.driver().observe(observer);
}

void JobGroups::record_alone() {
  if (context_.recorder != nullptr && !std::exchange(alone_is_recorded_, true))
    context_.recorder->group(context_.alone.label, context_.alone.group.members);
}

CallTimes JobGroups::times() {
  CallTimes all;
  for (GroupRounds& rounds : rounds_) all += rounds.driver().times();
  return all;
}

}  // namespace lockstep::worker
