// What gpu_bench computes on a device: graphs of kernels as the emitter makes them, a transformer
// block and the training step of examples/moe_text, each with inputs that gpu_torch.py can make,
// too.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/compile/run/run_host.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::bench {

/// A graph and one set of inputs. `next`: output i takes the place of this input in the next run;
/// empty: of none.
struct Model {
  worker::Graph graph;
  worker::Inputs inputs;
  std::vector<std::string> next;
};

/// relu(2 x + 1) x - 0.5 of x [rows, width] f32: reads and writes each element once.
[[nodiscard]] Result<Model> chain(std::int64_t rows, std::int64_t width);
/// Sums of squares of x [rows, width] f32, along the rows (dim 1), over them (0) or of all (-1).
[[nodiscard]] Result<Model> sums(std::int64_t rows, std::int64_t width, int dim);
/// So many kernels on next to nothing, each on what the one before it left.
[[nodiscard]] Result<Model> small_kernels(int count);

struct StepShape {
  std::int64_t lines, length, width, hidden, experts;
};
inline constexpr StepShape kUsualStep{8, 512, 1024, 4096, 8}, kTinyStep{2, 8, 16, 32, 4};

/// Attention with one head and a layer of `hidden`, each behind a norm; forward, backward and a
/// plain gradient step. The last output is the loss.
[[nodiscard]] Result<Model> transformer_block(const StepShape& shape);
/// The step of examples/moe_text for a job of one rank: all experts are here. The last output is
/// the loss.
[[nodiscard]] Result<Model> moe_step(const StepShape& shape);

}  // namespace lockstep::bench
