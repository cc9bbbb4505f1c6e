// The TCP backend on real sockets: all ranks in this process, driven in turns by one thread.
#include "conformance.h"
#include "tcp_ranks.h"

namespace lockstep::collectives {
namespace {

class TcpAdapter final : public Adapter {
 public:
  explicit TcpAdapter(int size) {
    for (const auto& mesh : meet(size)) ranks_.push_back(tcp_communicator(mesh, nullptr).value());
  }
  [[nodiscard]] std::vector<Communicator*> ranks() override {
    std::vector<Communicator*> out;
    for (const auto& one : ranks_) out.push_back(one.get());
    return out;
  }
  void finish() override {
    for (bool all = false; !all;) {
      all = true;
      for (const auto& one : ranks_) {
        const auto done = one->poll();
        ASSERT_TRUE(done) << done.error().text();
        all = all && *done;
      }
    }
  }

 private:
  std::vector<std::unique_ptr<Communicator>> ranks_;
};

auto tcp(int size) {
  return [size]() -> std::unique_ptr<Adapter> { return std::make_unique<TcpAdapter>(size); };
}

INSTANTIATE_TEST_SUITE_P(Tcp, Conformance,
                         testing::Values(tcp(1), tcp(2), tcp(3), tcp(4), tcp(5), tcp(8)));

}  // namespace
}  // namespace lockstep::collectives
