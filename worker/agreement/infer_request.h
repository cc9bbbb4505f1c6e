// What `lockstep infer` asks of the program that it starts. Internal to the command and the frames
// of a job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <lockstep/collectives/base/status.h>
#include <lockstep/shapes/expr/range.h>
#include <lockstep/worker/exchange/decision.h>

namespace lockstep::worker {

/// Sources and bools of a call: what entries for other sizes have in common.
[[nodiscard]] std::string structure_of(const Decision& decision);
[[nodiscard]] std::string structure_of(const Observation& observation);

/// What the command asks for, as a file in the folder that LOCKSTEP_INFER names.
struct InferRequest {
  shapes::Range box{0, 64};
  struct Asked {
    std::string group, frame, structure;
    std::vector<SymbolDecision> symbols;  // of its recorded entries
  };
  std::vector<Asked> frames;

  /// Errors: Environment.
  [[nodiscard]] Result<void> write(const std::string& folder) const;
  /// Errors: BadInput (there is none, or it is no such file).
  [[nodiscard]] static Result<InferRequest> read(const std::string& folder);
};

/// In the folder: a line per structure of a frame: its name, a tab, infer_json().
inline constexpr std::string_view kInferredLines = "classes.jsonl";

}  // namespace lockstep::worker
