#include <utility>

#include <lockstep/worker/agree/agreement/call_driver.h>
#include <lockstep/worker/agree/agreement/frame_profile.h>
#include <lockstep/worker/agree/agreement/rank_table.h>

namespace lockstep::worker {

shapes::Fingerprint profile_key(const SourceSpec& spec) {
  return shapes::FingerprintBuilder()
      .add(spec.name)
      .add(static_cast<std::int64_t>(spec.kind))
      .add(static_cast<std::int64_t>(spec.dtype))
      .add(static_cast<std::int64_t>(spec.ndim))
      .finish();
}

FrameState state_from(const coordinator::Profile& profile, const SourceList& list) {
  FrameState state;
  for (const auto& [name, source] : profile) {
    const auto today = list.find(name);
    if (today && profile_key(list.sources()[*today]) != source.key) continue;
    state.emplace(name, source.seen);
  }
  return state;
}

coordinator::Profile profile_of(const CodeCache& cache) {
  coordinator::Profile profile;
  // Later entries have the later form of a source.
  for (const Entry& entry : cache.entries)
    for (const SourceDecision& source : entry.reported.sources)
      if (const auto seen = cache.state.find(source.spec.name); seen != cache.state.end())
        profile.insert_or_assign(
            source.spec.name, coordinator::ProfiledSource{profile_key(source.spec), seen->second});
  return profile;
}

std::optional<FrameState> FrameProfile::restore(CodeCache& cache, const Observation& observation) {
  if (std::exchange(asked_, true) || (store_ == nullptr && !given_)) return std::nullopt;
  if (!given_) {
    auto profile = store_->load(key_);
    if (!profile) {
      report_(profile.error());
      return std::nullopt;
    }
    given_ = *std::move(profile);
  }
  FrameState state = state_from(*std::exchange(given_, std::nullopt), *observation.list);
  if (state.empty()) return std::nullopt;
  cache.adopt(state);
  return state;
}

void FrameProfile::keep(const CodeCache& cache) const {
  if (store_ == nullptr || !keeps_) return;
  coordinator::Profile profile = profile_of(cache);
  // Groups of one name share one profile, though each has its own ranks and sizes.
  if (const auto there = store_->load(key_))
    for (auto& [name, source] : profile)
      if (const auto other = there->find(name);
          other != there->end() && other->second.key == source.key)
        source.seen = shapes::join(source.seen, other->second.seen);
  if (const auto kept = store_->store(key_, profile); !kept) report_(kept.error());
}

Result<RankSet> profile_sharers(CallDriver& driver, const coordinator::ProfileStore* store) {
  const Rank self = driver.group().rank();
  std::optional<std::string> identity;
  if (store != nullptr) identity = store->identity();
  const auto table = driver.tree_join(rank_table_payload(self, identity), join_rank_tables);
  if (!table) return table.error();
  for (const RankValue& value : rank_table_values(*table))
    if (value.ranks.contains(self)) return value.ranks;
  return RankSet{};
}

}  // namespace lockstep::worker
