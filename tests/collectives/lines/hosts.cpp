#include "hosts.h"

#include <algorithm>
#include <string>

namespace lockstep::lines {

Ranks open_hosts(int hosts, int on_each) {
  Ranks ranks;
  const int count = hosts * on_each;
  for (int rank = 0; rank < count; ++rank)
    ranks.push_back(std::move(Lines::open(Rank{rank}).value()));
  for (int rank = 0; rank < count; ++rank) {
    std::vector<std::string> places;
    for (int other = 0; other < count; ++other)
      places.push_back(other / on_each == rank / on_each
                           ? ranks[static_cast<std::size_t>(other)]->posts().place()
                           : "another host");
    ranks[static_cast<std::size_t>(rank)]->posts().join(places);
  }
  return ranks;
}

Result<std::uint64_t> issue(Lines& lines, std::int64_t elements, std::uint64_t key,
                            const std::vector<Rank>& members) {
  const auto self = std::find(members.begin(), members.end(), lines.self()) - members.begin();
  const int group =
      lines.group({{key, key}, members, static_cast<int>(self), "group " + std::to_string(key)});
  const std::vector<std::int64_t> sizes{elements};
  auto issued = lines.issue(group, {.kind = "all_reduce",
                                    .dtype = "f32",
                                    .reduction = "sum",
                                    .elements = sizes,
                                    .shape = sizes,
                                    .place = "train.py:7"});
  if (issued) lines.issued(group);
  return issued;
}

}  // namespace lockstep::lines
