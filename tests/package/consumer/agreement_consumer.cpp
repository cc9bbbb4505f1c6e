// The agreement without a tracer or MPI: one rank that agrees with itself.
#include <cstdio>

#include <lockstep/collectives/simulated/fake.h>
#include <lockstep/worker/agreement.h>

using namespace lockstep;
using namespace lockstep::worker;

int main() {
  const auto group = collectives::fake_communicator(Rank{0}, 1).value();
  Agreement agreement(*group, "world", {});
  int built = 0;
  for (const std::int64_t rows : {4, 5, 6}) {
    const auto agreed = agreement.agree("step", ObservationBuilder().tensor("x", {rows, 3}).build(),
                                        [&](int, const Decision& decision) -> Result<Built> {
                                          ++built;
                                          return Built{decision.digest(), {}};
                                        });
    if (!agreed) return std::printf("%s\n", agreed.error().text().c_str()), 1;
  }
  return built == 2 ? 0 : 1;
}
