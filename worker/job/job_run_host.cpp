#include <lockstep/worker/job/job_run_host.h>

namespace lockstep::worker {

Result<void> JobRunHost::settle(const std::optional<LocalFailure>& mine) {
  RoundKey key = agreed_.rounds->key();
  key.kind = RoundKey::Kind::Settle;
  key.attempt = attempt_++;
  RankStatus rank_status;
  if (mine) {
    rank_status.local_error = mine->status;
    rank_status.local_error_at = mine->node;
  }
  auto all = agreed_.driver().status_round(key, rank_status);
  joint_error_ = joint_error_ || !all;
  return all;
}

void JobRunHost::announce_step_size(std::int64_t elements) {
  constexpr Duration kPerElement = std::chrono::microseconds(1);  // upper bound for a step
  if (elements > 0 || leased_) job_.busy_for(elements * kPerElement);
  leased_ = elements > 0;
}

collectives::Communicator* JobRunHost::group(std::string_view name) {
  const auto found = job_.groups.find(name);
  return found == job_.groups.end() ? nullptr : found->second.data;
}

Rank JobRunHost::rank_at(std::string_view group, Rank place) const {
  const auto found = job_.groups.find(group);
  const GroupContext& context = group.empty() || found == job_.groups.end() ? over_ : found->second;
  std::int32_t before = place.value;
  for (const RankSet::Run& run : context.group.members.runs()) {
    if (before <= run.last - run.first) return Rank{run.first + before};
    before -= run.last - run.first + 1;
  }
  return place;  // all ranks of the job
}

collectives::DeviceData* JobRunHost::device_data(std::string_view name) {
  if (name.empty()) return over_.device_data;
  const auto found = job_.groups.find(name);
  return found == job_.groups.end() ? nullptr : found->second.device_data;
}

bool JobRunHost::reaches_all() const {
  return agreed_.driver().group().size() == over_.data->size();
}

void JobRunHost::end_if_alone(const Result<std::vector<Array>>& outputs) const {
  if (outputs || joint_error_ || job_.watch == nullptr) return;
  if (outputs.error().code == Code::Environment || (over_.data->size() > 1 && reaches_all()))
    job_.watch->end_job(outputs.error());
}

}  // namespace lockstep::worker
