#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include <lockstep/worker/job/preview/infer_mode.h>

namespace lockstep::worker {

Result<std::unique_ptr<InferMode>> InferMode::open(const std::string& folder) {
  auto request = InferRequest::read(folder);
  if (!request) return request.error();
  auto out = std::make_unique<InferMode>();
  out->folder_ = folder;
  out->request_ = std::move(*request);
  return out;
}

const InferRequest::Asked* InferMode::asked(std::string_view group, std::string_view frame,
                                            std::string_view structure) const {
  for (const InferRequest::Asked& asked : request_.frames)
    if (asked.group == group && asked.frame == frame && asked.structure == structure) return &asked;
  return nullptr;
}

Result<void> InferMode::tell(const InferredFrame& frame, const std::string& structure) {
  std::erase_if(request_.frames, [&](const InferRequest::Asked& asked) {
    return asked.group == frame.group && asked.frame == frame.frame && asked.structure == structure;
  });
  const std::string file = fmt::format("{}/{}", folder_, kInferredLines);
  std::ofstream to(file, std::ios::binary | std::ios::app);
  to << structure << "\t" << infer_json(frame) << "\n";
  if (to.flush()) return {};
  return environment_error(fmt::format("{}: {}", file, std::strerror(errno)));
}

}  // namespace lockstep::worker
