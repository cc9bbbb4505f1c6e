// The compiler, artifact cache and profiles of a rank on its host. Used by job.cpp.
#pragma once

#include <memory>
#include <string>

#include <lockstep/worker/job/job_context.h>

namespace lockstep::worker {

/// Owns the objects behind context.tools and context.profiles. Single-threaded.
class JobToolchain {
 public:
  /// The context must outlive this object.
  explicit JobToolchain(JobContext& context) : context_(context) {}

  /// Opens the directories. An unusable directory is logged; the job goes on without it.
  void open_directories();
  /// Collective over the ranks that agree on calls, once, with a key of its own: finds which ranks
  /// have a compiler and which see the same profiles. Errors, joint: Environment, as
  /// agree_toolchain.
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
