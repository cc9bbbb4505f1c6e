// What a call that can fail in a healthy program returns. A rank's failure is data that its peers
// must receive, so failures are values and never exceptions ("Decisions", ARCHITECTURE.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/system/result.hpp>

#include <lockstep/collectives/base/rank.h>

namespace lockstep {

/// Stable error codes. The names are what users, reports and the dry-run result print.
enum class Code : std::uint8_t {
  // Ranks disagree (exit code 3).
  AbsentRanks,
  FrameMismatch,
  SourceMismatch,
  KindMismatch,
  DtypeMismatch,
  NdimMismatch,
  ConstantMismatch,
  MarkConflict,
  ConstraintViolation,
  BranchDivergence,
  GraphDivergence,
  ConfigMismatch,
  // One rank failed and all ranks get the error (exit code 3).
  TraceError,
  CompileError,
  RuntimeAssert,
  Gone,
  // A wait that cannot end well.
  Stuck,     // exit code 4
  RankLost,  // exit code 5
  // Edges of the system.
  BadInput,     // exit code 2
  Version,      // exit code 6
  Environment,  // exit code 7
  Internal,     // a bug of lockstep; exit code 7
};

/// "KIND_MISMATCH"
[[nodiscard]] std::string_view code_name(Code code);
/// The process exit code that reports `code`.
[[nodiscard]] int exit_code(Code code);

/// Ranks that hold the same value, for the per-rank table of an error.
struct RankValue {
  RankSet ranks;
  std::string value;
  bool operator==(const RankValue&) const = default;
};

/// One failure, the same on every rank that reports it. Immutable once made.
struct Status {
  Code code = Code::Internal;
  /// One sentence: what happened, on which ranks, and what to do next.
  std::string message{};
  /// The input that the failure is about ("x", "x.size(0)"); empty: none.
  std::string source{};
  /// One entry per distinct value, by lowest rank; empty: no table.
  std::vector<RankValue> groups{};

  bool operator==(const Status&) const = default;
  /// "KIND_MISMATCH: … [ranks 0-2: int; rank 3: tensor]"
  [[nodiscard]] std::string text() const;
};

/// Failures at the edges of the system, without a table.
[[nodiscard]] Status bad_input(std::string message, std::string source = {});
[[nodiscard]] Status environment_error(std::string message, std::string source = {});
[[nodiscard]] Status internal_error(std::string message, std::string source = {});

template <class T>
using Result = boost::system::result<T, Status>;

/// Called by Result::value() if the result is a failure that the caller did not check for: a bug,
/// so it aborts.
[[noreturn]] void throw_exception_from_error(const Status& status, const boost::source_location&);

}  // namespace lockstep
