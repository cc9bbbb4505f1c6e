// What a rank brings to a job from its host: compiler, artifact cache, profiles. Used by job.cpp.
#pragma once

#include <memory>
#include <string>

#include <lockstep/worker/job_context.h>

namespace lockstep::worker {

/// Owns what context.tools and context.profiles point to. One thread.
class JobTools {
 public:
  /// The context outlives it.
  explicit JobTools(JobContext& context) : context_(context) {}

  /// Opens the directories. What cannot be used is told: a job can do without.
  void open_directories();
  /// Collective over the ranks that agree, once, with a key of its own: who has a compiler, and who
  /// sees the same profiles. Errors, joint: Environment, as agree_toolchain.
  [[nodiscard]] Result<void> agree(CallDriver& driver, RoundKey key);
  [[nodiscard]] BuildCost cost() const { return toolchain_ ? toolchain_->cost() : BuildCost{}; }

 private:
  [[nodiscard]] Result<std::unique_ptr<Toolchain>> open_toolchain() const;
  [[nodiscard]] Result<void> agree_compiler(CallDriver& driver, const RoundKey& key);
  void say_interpreted(std::string why) const;
  [[nodiscard]] Result<void> find_sharers(CallDriver& driver);
  [[nodiscard]] bool has_profiles() const;

  JobContext& context_;
  std::unique_ptr<Toolchain> toolchain_;
  std::unique_ptr<coordinator::ArtifactStore> artifacts_;
  std::unique_ptr<coordinator::ProfileStore> profiles_;
};

}  // namespace lockstep::worker
