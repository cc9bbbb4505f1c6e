// Tests an own op: all ways of computing it agree, its gradient is right, and its claims hold.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/worker/compile/codegen/toolchain.h>
#include <lockstep/worker/compile/device/device.h>
#include <lockstep/worker/tensor/user_ops/own_op.h>

namespace lockstep::worker {

/// A size of an input: a number, or a name, which takes every size that is tried.
struct OpcheckSize {
  OpcheckSize(std::int64_t size) : number(size) {}         // NOLINT: a number is a size
  OpcheckSize(int size) : number(size) {}                  // NOLINT
  OpcheckSize(const char* free_size) : name(free_size) {}  // NOLINT: a name is a size
  std::string name{};
  std::int64_t number = 0;
};

/// An input of the op, whose elements are drawn from [low, high]; whole numbers for integer dtypes.
struct OpcheckInput {
  DType dtype = DType::F64;
  std::vector<OpcheckSize> sizes;  // equal names are equal sizes
  double low = -2, high = 2;
};

struct OpcheckOptions {
  std::vector<std::int64_t> sizes{0, 1, 2, 5, 300};
  std::uint64_t seed = 1;
  /// Difference allowed between f64 results of two ways, relative to the larger of 1 and the
  /// values; 1e7 times that for f32, 1e10 times for f16 and bf16.
  double tolerance = 1e-12;
  std::string compiler = "c++";
  /// A device to run on as well, and the toolchain for it; null: none. They outlive the call.
  std::shared_ptr<Device> device;
  Toolchain* device_toolchain = nullptr;
};

/// What was tested.
struct OpcheckReport {
  int sizes = 0;                  // tuples of sizes tested
  std::vector<std::string> ways;  // "the reference", "the function", ...
  /// "checked", "checked in f32", "none", or "not checked: it takes no floats".
  std::string gradient;
  /// "example.swish: 5 tuples of sizes; the reference, the host text, a program for the host;
  /// gradient checked"
  std::string text;
};

/// Tests an op on random inputs. Each size is tried for all names at once, then for each name while
/// the other names are 3. Checks that
/// - the reference, the function, the host text, and whole programs for the host and the device
///   all give the same result;
/// - the shape rule gives for numbers what it gives for symbols;
/// - each way writes all of its result and nothing else, reads nothing but its inputs and keeps the
///   claims (guarded_call.h);
/// - a program for the device does not write to its inputs, and gives equal bits for equal inputs
///   if that is claimed (device_call.h);
/// - the gradient agrees with finite differences (gradcheck.h), traced with these sizes and once
///   with symbols, if all floats that the op takes are f64 or f32; of large inputs few elements are
///   varied.
/// Runs on this rank alone. Errors: BadInput with op, sizes and the first fault found; CompileError
/// with the compiler's message; Environment.
[[nodiscard]] Result<OpcheckReport> opcheck(const OwnOp& op,
                                            const std::vector<OpcheckInput>& inputs,
                                            const OpcheckOptions& options = {});

}  // namespace lockstep::worker
