// What `lockstep infer` asks of the program that it starts. Internal to that command and the frames
// of a job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/shapes/expr/range.h>
#include <lockstep/worker/agree/exchange/decision.h>

namespace lockstep::worker {

/// Text of the sources and bools of a call: equal for entries that differ in sizes only.
[[nodiscard]] std::string structure_of(const Decision& decision);
[[nodiscard]] std::string structure_of(const Observation& observation);

/// The command's request, a file in the folder that LOCKSTEP_INFER names.
struct InferRequest {
  shapes::Range box{0, 64};
  struct Asked {
    std::string group, frame, structure;
    std::vector<SymbolDecision> symbols;  // of the recorded entries
  };
  std::vector<Asked> frames;

  /// Errors: Environment.
  [[nodiscard]] Result<void> write(const std::string& folder) const;
  /// Errors: BadInput (the file is missing or malformed).
  [[nodiscard]] static Result<InferRequest> read(const std::string& folder);
};

/// File in the same folder with one line per frame and structure: the structure, a tab,
/// infer_json().
inline constexpr std::string_view kInferredLines = "classes.jsonl";

}  // namespace lockstep::worker
