#include "conformance.h"

#include <lockstep/collectives/mpi.h>

namespace lockstep::collectives::mpi_conformance_test {
namespace {

class MpiAdapter final : public Adapter {
 public:
  [[nodiscard]] std::vector<Communicator*> ranks() override { return {mine_.get()}; }
  void finish() override { ASSERT_TRUE(mine_->wait()); }

 private:
  std::unique_ptr<Communicator> mine_ = mpi_communicator(nullptr, {}).value();
};

INSTANTIATE_TEST_SUITE_P(Mpi, Conformance,
                         testing::Values([] { return std::make_unique<MpiAdapter>(); }));

}  // namespace
}  // namespace lockstep::collectives::mpi_conformance_test
