// Kernels as C++ for the processor of the host: loops in order, the innermost one vectorised.
#pragma once

#include <lockstep/worker/codegen/emitter.h>

namespace lockstep::worker {

class CppEmitter final : public Emitter {
 public:
  using Emitter::Emitter;

 private:
  void elementwise(const PlannedStep& step) override;
  void reduction(NodeId id) override;
  void concatenation(NodeId id) override;
  void index_add(NodeId id) override;
  void cumulative_sum(NodeId id) override;
  void segment_ids(NodeId id) override;
  void nonzero(NodeId id) override;
  void argsort(NodeId id) override;

  std::string memory_reduction(NodeId id);
  std::string fill(NodeId id, const std::string& value);
  void add_kernel(const std::string& loops);
};

}  // namespace lockstep::worker
