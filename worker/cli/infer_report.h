// What `lockstep infer` says: one document, and the same for people.
#pragma once

#include <string>
#include <vector>

#include <lockstep/worker/simulator/answers/recorded_classes.h>

namespace lockstep::worker::cli {

/// What came of starting the program.
struct ProgramAnswer {
  std::vector<std::string> lines;  // as in kInferredLines
  std::string reason;              // why there are not all of them; empty: there are
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
