#include "rank_threads.h"

#include <atomic>
#include <barrier>
#include <thread>

#include <gtest/gtest.h>

#include <lockstep/collectives/simulated_data.h>

namespace lockstep::worker::test {
namespace {

using collectives::Collective;
using collectives::Communicator;

/// What ranks that wait for each other share. The last to arrive carries the collective out.
class Meeting {
 public:
  explicit Meeting(std::size_t ranks)
      : brought_(ranks), all_(static_cast<std::ptrdiff_t>(ranks), Act{this}) {}
  Result<void> meet(std::size_t rank, const Collective& collective) {
    brought_[rank] = collective;
    ++present_;
    all_.arrive_and_wait();
    return verdict_;
  }
  /// A rank that will come no more.
  void leave() { all_.arrive_and_drop(); }

 private:
  struct Act {
    Meeting* meeting;
    void operator()() noexcept {
      const bool all = meeting->present_.exchange(0) == meeting->brought_.size();
      if (!all) {  // ranks that left: nothing to carry out
        meeting->verdict_ = Status{Code::RankLost, "a rank left", {}, {}};
        return;
      }
      meeting->verdict_ = collectives::fit_together(meeting->brought_);
      if (meeting->verdict_) collectives::carry_out(meeting->brought_);
    }
  };
  std::vector<Collective> brought_;
  std::atomic<std::size_t> present_ = 0;
  Result<void> verdict_;
  std::barrier<Act> all_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(Meeting& meeting, int rank, int size)
      : meeting_(meeting), rank_(rank), size_(size) {}
  Rank rank() const override { return {rank_}; }
  int size() const override { return size_; }
  std::string name() const override { return "threads of a test"; }
  void start(collectives::Round&) override { ADD_FAILURE() << "no rounds here"; }
  Result<void> start(const Collective& collective) override {
    return meeting_.meet(static_cast<std::size_t>(rank_), collective);
  }
  Result<bool> poll() override { return true; }
  Result<void> wait() override { return {}; }

 private:
  Meeting& meeting_;
  std::int32_t rank_;
  int size_;
};

class AloneHost final : public RunHost {
 public:
  Result<void> settle(const std::optional<Status>& mine) override {
    if (mine) return *mine;
    return {};
  }
};

}  // namespace

std::vector<std::vector<Array>> run_on_ranks(const std::vector<Graph>& graphs,
                                             std::vector<Inputs> inputs) {
  const std::size_t n = graphs.size();
  Meeting meeting(n);
  std::vector<std::vector<Array>> outputs(n);
  std::vector<std::string> errors(n);
  const auto run = [&](std::size_t r) {
    const std::vector<double> number{static_cast<double>(r)};
    inputs[r]["job.rank"] = Array::of(DType::I64, {}, number);
    ThreadCommunicator communicator(meeting, static_cast<int>(r), static_cast<int>(n));
    AloneHost host;
    Result<std::vector<Array>> result = interpret(graphs[r], inputs[r], communicator, host);
    if (result)
      outputs[r] = std::move(*result);
    else
      errors[r] = result.error().text();
    meeting.leave();
  };
  if (n == 1) {
    run(0);
  } else {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < n; ++r) threads.emplace_back(run, r);
  }
  for (std::size_t r = 0; r < n; ++r)
    EXPECT_EQ(errors[r], "") << "rank " << r << "\n" << graphs[r].text();
  return outputs;
}

}  // namespace lockstep::worker::test
