// A function of the tensor language traced with symbolic sizes, compiled, and run on arrays.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiled_graph.h"

#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::worker::test {

class TracedRun {
 public:
  using Body = std::function<std::vector<Tensor>(Trace&, const std::vector<Tensor>&)>;
  /// Traces `body`. Every size of `like` becomes a symbol with that hint and lowest value 0, except
  /// sizes in `fixed`, which stay numbers. A failed trace fails the test.
  TracedRun(const std::vector<Array>& like, const Body& body,
            const std::vector<std::int64_t>& fixed = {});
  [[nodiscard]] const Graph& graph() const { return graph_; }
  /// Returns the interpreter's results. The compiled results must agree with them.
  [[nodiscard]] std::vector<Array> run(const std::vector<Array>& inputs, double bound = 1e-12);
  /// Returns the error of a run that has to fail, with the same error interpreted and compiled.
  [[nodiscard]] std::string failure(const std::vector<Array>& inputs);

 private:
  Graph graph_;
  std::unique_ptr<Executable> executable_;
};

/// Returns the error message of a trace that has to fail, without the line. Sizes are symbols,
/// except those in `fixed`.
[[nodiscard]] std::string refusal(const std::vector<Array>& like, const TracedRun::Body& body,
                                  const std::vector<std::int64_t>& fixed = {});

/// f64 in (-2, 2), a function of the seed.
[[nodiscard]] Array random_f64(std::uint64_t seed, std::vector<std::int64_t> sizes);

}  // namespace lockstep::worker::test
