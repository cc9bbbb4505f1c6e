#include "rank_threads.h"

#include "thread_group.h"
#include <gtest/gtest.h>

namespace lockstep::worker::test {

std::vector<std::vector<Array>> run_on_ranks(const std::vector<Graph>& graphs,
                                             std::vector<Inputs> inputs) {
  std::vector<std::vector<Array>> outputs(graphs.size());
  std::vector<std::string> errors(graphs.size());
  const auto run = [&](collectives::Communicator& communicator, RunHost& host) {
    const auto r = static_cast<std::size_t>(communicator.rank().value);
    const std::vector<double> number{static_cast<double>(r)};
    inputs[r]["job.rank"] = Array::of(DType::I64, {}, number);
    Result<std::vector<Array>> result = interpret(graphs[r], inputs[r], communicator, host);
    if (result)
      outputs[r] = std::move(*result);
    else
      errors[r] = result.error().text();
  };
  if (graphs.size() == 1) {
    run_alone(run);
  } else {
    ThreadGroup(static_cast<int>(graphs.size())).run(run);
  }
  for (std::size_t r = 0; r < graphs.size(); ++r)
    EXPECT_EQ(errors[r], "") << "rank " << r << "\n" << graphs[r].text();
  return outputs;
}

}  // namespace lockstep::worker::test
