// The conformance suite: what every backend must do, written once. A backend's test file gives an
// adapter (how many ranks it speaks for, their communicators, how to bring operations to an end)
// and instantiates the suite; see mpi_conformance_test.cpp for the shortest one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/collectives/communicator.h>
#include <lockstep/collectives/tree.h>
#include <lockstep/collectives/vote.h>

namespace lockstep::collectives {

/// The ranks of one group that this process drives: all of them (simulated) or its own (MPI, fake).
class Adapter {
 public:
  virtual ~Adapter() = default;
  [[nodiscard]] virtual std::vector<Communicator*> ranks() = 0;
  /// Brings what was started on all of ranks() to its end.
  virtual void finish() = 0;
  /// What rank `peer` brings, seen from `self`: itself, or for the fake backend `self` again.
  [[nodiscard]] virtual int poses_as(int self, int peer) const { return (void)self, peer; }
  /// Whether it reduces a dtype that has reductions elsewhere.
  [[nodiscard]] virtual bool reduces(DType dtype) const { return (void)dtype, true; }
  /// Whether it adds f16 and bf16 up in f32 and rounds the total alone.
  [[nodiscard]] virtual bool rounds_once() const { return true; }
};

class Conformance : public testing::TestWithParam<std::function<std::unique_ptr<Adapter>()>> {
 protected:
  void SetUp() override { adapter_ = GetParam()(); }
  /// Starts make(communicator) on every rank and runs all to the end; the rounds stay for looking
  /// at.
  template <class RoundType, class Make>
  std::vector<std::unique_ptr<RoundType>> run_rounds(Make make) {
    std::vector<std::unique_ptr<RoundType>> rounds;
    for (Communicator* c : adapter_->ranks()) {
      rounds.push_back(std::make_unique<RoundType>(make(*c)));
      c->start(*rounds.back());
    }
    adapter_->finish();
    return rounds;
  }
  [[nodiscard]] int peer(const Communicator& c, int rank) const {
    return adapter_->poses_as(c.rank().value, rank);
  }
  std::unique_ptr<Adapter> adapter_;
};

inline Bytes text_bytes(std::string_view text) {
  const auto* p = reinterpret_cast<const std::byte*>(text.data());
  return {p, p + text.size()};
}

}  // namespace lockstep::collectives
