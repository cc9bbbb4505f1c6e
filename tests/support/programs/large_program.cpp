// A saved program with two large tensors, the first of which is read before the second is made: y =
// cumsum of sum(x), repeated as often as x has rows.
//
// usage: controller_large_program RANKS FILE
#include <cstdio>
#include <cstdlib>

#include "saved_programs.h"
#include "tracing.h"

#include <lockstep/worker/files/saved/saved_file.h>
#include <lockstep/worker/job.h>

int main(int argc, char** argv) {
  using namespace lockstep;
  using namespace lockstep::worker;
  if (argc != 3) return 2;
  const int ranks = std::atoi(argv[1]);
  test::DecisionBuilder decision;
  decision.tensor("x", DType::F64, {test::Dim(5, 2)});
  TraceSetup setup = test::setup(decision.get(), ranks);
  setup.frame = "large";
  auto graph = trace(setup, [](Trace& t) {
    const Tensor x = t.tensor_input(t.source("x"));
    t.output("y", cumsum(expand(sum(x), {x.size(0)}), 0));
  });
  if (!graph) return std::fprintf(stderr, "%s\n", graph.error().text().c_str()), 1;
  SavedProgram program = test::program_of(*std::move(graph), decision.get(), ranks);
  program.frame = "large";
  const auto written = write_program(argv[2], program);
  return written ? 0 : (std::fprintf(stderr, "%s\n", written.error().text().c_str()), 1);
}
