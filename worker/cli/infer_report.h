// The output of `lockstep infer`: one JSON document, and the same as text.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/simulator/answers/recorded_classes.h>

namespace lockstep::worker::cli {

/// The results of running the program.
struct ProgramAnswer {
  std::vector<std::string> lines;  // as in kInferredLines
  std::string reason;              // why lines are missing; empty: none is missing
};

struct InferReport {
  std::string json, text;
};
[[nodiscard]] InferReport infer_report(const std::string& directory, int world_size,
                                       const shapes::Range& box,
                                       const std::vector<simulator::RecordedClasses>& recorded,
                                       const ProgramAnswer& answer,
                                       const std::vector<std::string>& notes);

}  // namespace lockstep::worker::cli
