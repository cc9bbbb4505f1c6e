// Tests an own op: that all its ways of computing agree, that its gradient is right, and that it
// does what it claims.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/worker/codegen/toolchain.h>
#include <lockstep/worker/device/device.h>
#include <lockstep/worker/user_ops/own_op.h>

namespace lockstep::worker {

/// A size of an input: a number, or a name, which takes every size that is tried.
struct OpcheckSize {
  OpcheckSize(std::int64_t size) : number(size) {}         // NOLINT: a number is one
  OpcheckSize(int size) : number(size) {}                  // NOLINT
  OpcheckSize(const char* free_size) : name(free_size) {}  // NOLINT: a name is one
  std::string name{};
  std::int64_t number = 0;
};

/// An input of the op, whose elements are drawn from [low, high]; of integer dtypes whole numbers.
struct OpcheckInput {
  DType dtype = DType::F64;
  std::vector<OpcheckSize> sizes;  // equal names are equal sizes
  double low = -2, high = 2;
};

struct OpcheckOptions {
  std::vector<std::int64_t> sizes{0, 1, 2, 5, 300};
  std::uint64_t seed = 1;
  /// By which f64 results of two ways may differ, relative to the larger of 1 and the values; those
  /// of f32 by 1e7 times that, of f16 and bf16 by 1e10 times.
  double tolerance = 1e-12;
  std::string compiler = "c++";
  /// A device to run on as well, and what builds for it; null: none. They outlive the call.
  std::shared_ptr<Device> device;
  Toolchain* device_toolchain = nullptr;
};

/// What was tested.
struct OpcheckReport {
  int sizes = 0;                  // tuples of sizes
  std::vector<std::string> ways;  // besides the reference
  /// "checked", "checked in f32", "none", or "not checked: it takes no floats".
  std::string gradient;
  /// "example.swish: 5 tuples of sizes; the reference, the host text, a program; gradient checked"
  std::string text;
};

/// At all sizes (each for all names, then for one name with the others 3) on random inputs:
/// - the reference, the function, the host text, and whole programs for the host and the device
/// give
///   what the reference gives;
/// - the shape rule says of numbers what it says of symbols;
/// - each writes all of its result and nothing else, reads nothing but its inputs and keeps its
///   claims (guarded_call.h);
/// - a program for the device does not write to its inputs, and gives equal bits for equal ones
///   where that is claimed (device_call.h);
/// - the gradient agrees with finite differences (gradcheck.h), traced with these sizes and once
///   with symbols, where the op takes floats of f64 or f32 alone; of large inputs few elements are
///   moved.
/// On this rank alone. Errors: BadInput with op, sizes and what is wrong, the first that was found;
/// CompileError with the compiler's words; Environment.
[[nodiscard]] Result<OpcheckReport> opcheck(const OwnOp& op,
                                            const std::vector<OpcheckInput>& inputs,
                                            const OpcheckOptions& options = {});

}  // namespace lockstep::worker
