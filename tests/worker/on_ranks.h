// A graph on several ranks, one thread each, compiled and interpreted.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compiled_graph.h"
#include "thread_group.h"

#include <lockstep/worker/build.h>
#include <lockstep/worker/codegen.h>
#include <lockstep/worker/interpreter.h>

namespace lockstep::worker {

/// What every rank gets from a graph, compiled and interpreted.
class OnRanks {
 public:
  OnRanks(Graph graph, int size) : graph_(std::move(graph)), size_(size) {}

  using Outcome = Result<std::vector<Array>>;
  struct Run {
    std::vector<std::optional<Outcome>> ranks;
    int rounds = 0, collectives = 0;
  };
  Run compiled(const std::vector<Inputs>& inputs) {
    if (units_.empty()) units_ = build();
    return run([&](int, collectives::Communicator& communicator, RunHost& host) {
      auto executable = Executable::load(generate(graph_).value(), units_, clock_).value();
      return executable->run(inputs[static_cast<std::size_t>(communicator.rank().value)],
                             communicator, host);
    });
  }
  Run interpreted(const std::vector<Inputs>& inputs) {
    return run([&](int rank, collectives::Communicator& communicator, RunHost& host) {
      return interpret(graph_, inputs[static_cast<std::size_t>(rank)], communicator, host);
    });
  }

  /// Both give the same on every rank, in as many rounds and collectives.
  Run both(const std::vector<Inputs>& inputs) {
    const Run expected = interpreted(inputs);
    Run got = compiled(inputs);
    EXPECT_EQ(got.rounds, expected.rounds);
    EXPECT_EQ(got.collectives, expected.collectives);
    for (std::size_t r = 0; r < got.ranks.size(); ++r) {
      EXPECT_EQ(got.ranks[r]->has_value(), expected.ranks[r]->has_value());
      if (got.ranks[r]->has_value() != expected.ranks[r]->has_value()) continue;
      if (!got.ranks[r]->has_value()) {
        EXPECT_EQ(got.ranks[r]->error().text(), expected.ranks[r]->error().text());
        continue;
      }
      EXPECT_TRUE(same(got.ranks[r]->value(), expected.ranks[r]->value(), 1e-12)) << "rank " << r;
    }
    return got;
  }

 private:
  std::vector<Bytes> build() {
    const Program program = generate(graph_).value();
    std::vector<Bytes> units;
    for (int i = 0; i < program.unit_count(); ++i)
      units.push_back(build_unit(program, i, test_toolchain(), nullptr).value().object);
    return units;
  }
  Run run(const std::function<Outcome(int, collectives::Communicator&, RunHost&)>& body) {
    Run out;
    out.ranks.resize(static_cast<std::size_t>(size_));
    ThreadGroup group(size_);
    group.run([&](collectives::Communicator& communicator, RunHost& host) {
      const int rank = communicator.rank().value;
      out.ranks[static_cast<std::size_t>(rank)] = body(rank, communicator, host);
    });
    out.rounds = group.rounds();
    out.collectives = group.collectives();
    return out;
  }
  Graph graph_;
  int size_;
  std::vector<Bytes> units_;
  SystemClock clock_;
};

}  // namespace lockstep::worker
