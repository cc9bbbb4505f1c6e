// A compiled graph before it is built: the steps of a run, its buffers and the text of its kernels.
// Made by codegen, built by SharedBuild, run by Executable. Holds no address or path and, for the
// host, no hint, so equal graphs make equal programs on every rank. For CUDA, the agreed hints must
// be equal, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/worker/agree/exchange/expr_table.h>
#include <lockstep/worker/compile/codegen/toolchain.h>
#include <lockstep/worker/tensor/graph/graph.h>

namespace lockstep::worker {

using BufferId = std::uint32_t;

/// Memory of one value, from the step that makes it to the last step that reads it.
struct Buffer {
  enum class Kind : std::uint8_t {
    Input,   // the array that was passed in; never written
    Output,  // handed out after the run
    Arena,   // reused within the run and between runs
  };
  Kind kind = Kind::Arena;
  DType dtype = DType::F32;
  ExprSlot elements = 0;
  NodeId node = 0;  // whose value the buffer holds
  std::uint32_t first = 0, last = 0;
};

/// How a device kernel is started. A function of sizes only, never of the device.
struct Launch {
  ExprSlot blocks = 0;
  int threads = 0;  // per block
  /// Size of the rows that the kernel sorts by a stable merge sort, one launch per pass. Each
  /// launch has one more argument, the width of sorted runs. For each width = 1, 4, 16, … below the
  /// size there are two launches: one with `width`, and one with twice that width and the last two
  /// buffers swapped. Rows of at most one element need no launch.
  std::optional<ExprSlot> merged{};
};

/// How a kernel of the host is shared by threads: a call does the iterations from its argument
/// `first` to before its argument `last`, which follow the step's other arguments.
struct Sharing {
  ExprSlot iterations = 0;
  ExprSlot elements = 0;  // that all iterations go over
  std::int64_t unit = 1;  // `first` is a multiple of it
};
/// A kernel that never goes over more elements is not split.
inline constexpr std::int64_t kNeverSplit = std::int64_t{1} << 15;

struct Step {
  enum class Kind : std::uint8_t {
    Kernel,          // kernels[kernel](buffers, args)
    Matmul,          // buffers a, b, out; args batch, m, k, n
    SegmentMatmul,   // buffers x, w, counts, out; args rows, k, m, segments
    SegmentOuter,    // buffers x, y, counts, out; args rows, k, m, segments
    Attention,       // of both kinds: buffers operands, result; args sizes of the operands. For
                     // CUDA also scratch memory and kernels (device_attention.h)
    Collective,      // buffers operand, result; args operand sizes, result sizes, exprs of the node
    HostSync,        // buffer x: binds the node's symbols
    HostCall,        // own op or host call: buffers operands, result; args their sizes
    Assert,          // the node's predicate
    IndexCheck,      // buffer index; args elements, limit
    CountsCheck,     // buffer counts; args segments, rows
    SplitsCheck,     // args operand rows, result rows, exprs of the node
    SizesExchange,   // compares sizes with those of the peers; args the sizes
    SplitsExchange,  // compares split lists with those of the peers; args exprs of the node
    Settle,          // a status round
    Control,         // buffers operands, wanted results; args exprs of the node, sizes of operands
  };
  Kind kind = Kind::Kernel;
  NodeId node = 0;
  std::uint32_t kernel = 0;
  bool transpose_a = false, transpose_b = false;  // operand is stored with last dims swapped
  bool carries_status = false;                    // Collective: ErrorSync::Piggybacked
  bool compares = false;                          // Control: ErrorSyncPoints::compares
  std::uint32_t bodies = 0;                       // Control: its first body in Program::bodies
  std::vector<std::uint32_t> results{};           // Control: numbers of the wanted results
  std::vector<BufferId> buffers;
  std::vector<ExprSlot> args;
  /// Attention of a program for CUDA: its kernels, by AttentionKernel (emit_attention.h).
  std::vector<std::uint32_t> kernels{};
  std::optional<Launch> launch{};    // Kernel or deferred check of a program for CUDA
  std::optional<Sharing> sharing{};  // Kernel of a program for the host
  /// The first of steps that run together, some of their rows at a time. Each goes over a multiple
  /// of `rows` iterations, and over each row as often.
  struct Chain {
    std::uint32_t length = 0;  // steps
    ExprSlot rows = 0;
  };
  std::optional<Chain> chain{};  // Kernel of a program for the host
  /// Places in `buffers` of scratch memory that each thread has for itself.
  std::vector<std::uint32_t> of_thread{};
  /// Deferred check: place among the program's outcomes of the first number that its kernel writes;
  /// the kernel's parameter after its buffers points there. An IndexCheck writes the first position
  /// in the list whose index is out of range, or -1, and then that index. A CountsCheck writes -1
  /// if the counts add up, else 0, and then the counts.
  std::uint32_t outcome = 0;

  /// True for a check that a device does and whose outcome is read later.
  [[nodiscard]] bool deferred() const { return launch && kind != Kind::Kernel; }
};

/// Host: extern "C" void NAME(void* const* buffers, const long* args). Cuda: extern "C" __global__,
/// a parameter per buffer and then one long per argument; buffers at multiples of 16 bytes.
struct Kernel {
  std::string name;  // made from the fingerprint of its text
  std::string text;  // the whole function
  std::uint32_t unit = 0;
};

/// Immutable once made. Safe to share between threads.
struct Program {
  Graph graph;
  Target target = Target::Host;
  ExprTable exprs{{}};
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<Kernel> kernels;  // distinct texts, in order of first use
  std::vector<std::string> units;
  /// Programs of nodes with bodies. Their kernels are in the units of the outer program.
  std::vector<Program> bodies;
  struct Input {
    BufferId buffer = 0;
    NodeId node = 0;
    std::vector<ExprSlot> sizes;
  };
  std::vector<Input> inputs;
  struct Output {
    BufferId buffer = 0;
    std::vector<ExprSlot> sizes;
  };
  std::vector<Output> outputs;
  std::uint32_t outcomes = 0;  // number of i64 that deferred checks write
  /// Sizes of values, and numbers of elements that are stored or reduced. A run fails if one is
  /// negative, or if there are absurdly many elements.
  std::vector<ExprSlot> sizes;
  std::uint32_t nodes_compiled = 0;  // nodes that do something: in a kernel or a step of their own
  std::uint32_t nodes_interpreted = 0;  // always 0: every op of the table has an emission

  /// Number of compile units. Ranks divide them among themselves: each unit is built alone, and all
  /// are loaded together.
  [[nodiscard]] int unit_count() const { return static_cast<int>(units.size()); }
  /// Returns a fingerprint of the unit's text, the compiler, its flags and target, and the format
  /// of artifacts. `toolchain` is Toolchain::fingerprint(); a rank without a compiler passes
  /// another rank's.
  [[nodiscard]] shapes::Fingerprint unit_key(int unit, const shapes::Fingerprint& toolchain) const;
  /// Shows steps, buffers and kernels (LOCKSTEP_LOG=output_code). Pure.
  [[nodiscard]] std::string text() const;
};

}  // namespace lockstep::worker
