#include <string>

#include "hosts.h"

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

}  // namespace lockstep::lines
