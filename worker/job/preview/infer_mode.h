// A program that `lockstep infer` has started: it is traced (trace_sheet.h), and at the first call
// of each requested frame its classes of sizes are inferred and written. Internal to the command
// and the frames of a job.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/worker/agree/agreement/infer_request.h>
#include <lockstep/worker/job/preview/infer.h>

namespace lockstep::worker {

/// Single-threaded.
class InferMode {
 public:
  [[nodiscard]] static Result<std::unique_ptr<InferMode>> open(const std::string& folder);
  /// The request for the classes of a frame, until they are written; else null.
  [[nodiscard]] const InferRequest::Asked* asked(std::string_view group, std::string_view frame,
                                                 std::string_view structure) const;
  [[nodiscard]] const shapes::Range& box() const { return request_.box; }
  /// Writes the classes of a frame. Errors: Environment.
  [[nodiscard]] Result<void> tell(const InferredFrame& frame, const std::string& structure);
  /// True if the classes of every requested frame have been written.
  [[nodiscard]] bool done() const { return request_.frames.empty(); }

 private:
  std::string folder_;
  InferRequest request_;  // without the frames that have been written
};

}  // namespace lockstep::worker
