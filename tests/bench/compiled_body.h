// A traced function, compiled for this processor, whose runs are timed: without a job, for a group
// of one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/collectives/base/clock.h>
#include <lockstep/collectives/base/status.h>
#include <lockstep/worker/compile/execution/executable.h>
#include <lockstep/worker/tensor/trace/tracer.h>

namespace lockstep::bench {

class CompiledBody {
 public:
  using Body = std::function<worker::Tensor(std::span<const worker::Tensor>)>;
  /// Of inputs whose first dim is a symbol each, the others numbers. `counted`: masks keep their
  /// counts. Errors: of tracing and of the compiler.
  [[nodiscard]] static Result<std::unique_ptr<CompiledBody>> make(std::vector<worker::Array> inputs,
                                                                  const Body& body,
                                                                  bool counted = false);
  ~CompiledBody();
  CompiledBody(const CompiledBody&) = delete;
  CompiledBody& operator=(const CompiledBody&) = delete;

  /// From now on so many threads share its kernels; at first one.
  void share(int threads);
  /// On the inputs that it was made for.
  [[nodiscard]] Result<std::vector<worker::Array>> run();
  [[nodiscard]] std::size_t steps() const { return steps_; }
  /// Bytes of values within a run.
  [[nodiscard]] std::size_t bytes() const;

 private:
  CompiledBody() = default;
  class Alone;
  SystemClock clock_;
  std::unique_ptr<Alone> alone_;
  std::unique_ptr<worker::Executable> executable_;
  worker::Inputs inputs_;
  std::size_t steps_ = 0;
};

}  // namespace lockstep::bench
