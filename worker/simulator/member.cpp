#include <lockstep/worker/simulator/member.h>

namespace lockstep::worker::simulator {

std::vector<Member> members_of(const std::vector<RankClass>& classes, bool apart) {
  std::vector<Member> out;
  for (const RankClass& of : classes) {
    if (!apart) out.push_back({&of, of.lowest().value});
    for (const RankSet::Run& run : of.ranks.runs())
      for (std::int32_t r = run.first; apart && r <= run.last; ++r) out.push_back({&of, r});
  }
  return out;
}

}  // namespace lockstep::worker::simulator
