// A program that `lockstep infer` has started: it is traced (trace_sheet.h), and at the first call
// of each frame that was asked for its classes of sizes are inferred and written down. Internal to
// the command and the frames of a job.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/worker/agreement/infer_request.h>
#include <lockstep/worker/preview/infer.h>

namespace lockstep::worker {

/// One thread.
class InferMode {
 public:
  [[nodiscard]] static Result<std::unique_ptr<InferMode>> open(const std::string& folder);
  /// Asked for, and not told yet. Null: not so.
  [[nodiscard]] const InferRequest::Asked* asked(std::string_view group, std::string_view frame,
                                                 std::string_view structure) const;
  [[nodiscard]] const shapes::Range& box() const { return request_.box; }
  /// Errors: Environment.
  [[nodiscard]] Result<void> tell(const InferredFrame& frame, const std::string& structure);
  /// Every frame that was asked for has been told.
  [[nodiscard]] bool done() const { return request_.frames.empty(); }

 private:
  std::string folder_;
  InferRequest request_;  // what is left of it
};

}  // namespace lockstep::worker
