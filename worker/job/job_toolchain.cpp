#include <utility>

#include <lockstep/worker/agree/agreement/frame_profile.h>
#include <lockstep/worker/agree/process/session.h>
#include <lockstep/worker/compile/toolchain/host_toolchain.h>
#include <lockstep/worker/compile/toolchain/nvrtc_toolchain.h>
#include <lockstep/worker/compile/toolchain/toolchain_key.h>
#include <lockstep/worker/job/job_toolchain.h>

namespace lockstep::worker {

void JobToolchain::open_directories() {
  const auto report = [this](const Status& status) { context_.tell(status.message); };
  context_.tools.report = report;
  auto artifacts = open_artifacts(context_.settings, report);
  if (artifacts) {
    artifacts_ = std::move(*artifacts);
    context_.tools.store = artifacts_.get();
  } else {
    context_.tell("goes on without an artifact cache: " + artifacts.error().message);
  }
  if (!has_profiles()) return;
  auto profiles = open_profiles(context_.settings, report);
  if (!profiles) return context_.tell("goes on without profiles: " + profiles.error().message);
  profiles_ = std::move(*profiles);
  context_.profiles = profiles_.get();
}

/// Equal on all ranks, because these settings are compared at start. Ranks have nothing to store if
/// they decide alone or automatic_dynamic is off.
bool JobToolchain::has_profiles() const {
  return !context_.settings.job_id.empty() && context_.settings.coordination &&
         context_.decision.automatic_dynamic;
}

Result<void> JobToolchain::agree(CallDriver& driver, RoundKey key) {
  key.attempt = 1;
  if (auto agreed = agree_compiler(driver, key); !agreed) return agreed;
  return has_profiles() ? find_sharers(driver) : Result<void>{};
}

Result<std::unique_ptr<Toolchain>> JobToolchain::open_toolchain() const {
  if (context_.device)
    return open_nvrtc(
        {.architecture = context_.device->architecture(), .rank = Rank{context_.rank()}});
  auto host =
      HostToolchain::open({.compiler = context_.settings.compiler_command(), .limit = kBuildLimit});
  if (!host) return host.error();
  return std::unique_ptr<Toolchain>(*std::move(host));
}

/// A rank without a compiler takes the objects that other ranks build; if no rank has a compiler,
/// graphs are interpreted.
Result<void> JobToolchain::agree_compiler(CallDriver& driver, const RoundKey& key) {
  auto compiler = open_toolchain();
  if (compiler) {
    toolchain_ = std::move(*compiler);
    context_.tools.toolchain = toolchain_.get();
  } else {
    context_.tools.no_toolchain = compiler.error();
  }
  const auto toolchain_key = agree_toolchain(
      driver, key,
      toolchain_ ? Result<shapes::Fingerprint>(toolchain_->fingerprint()) : compiler.error(),
      context_.device ? "CUDA " + context_.device->architecture() : processor_kind(),
      context_.device || !context_.settings.compiler.empty());
  if (!toolchain_key) return toolchain_key.error();
  if (!*toolchain_key) {
    context_.mode = RunMode::Interpreted;
    say_interpreted(compiler.error().message);
    return {};
  }
  context_.tools.toolchain_key = **toolchain_key;
  if (!toolchain_)
    context_.tell("takes the kernels that other ranks build: " + compiler.error().message);
  return {};
}

/// Logged once for the job, or by each rank if coordination is off.
void JobToolchain::say_interpreted(std::string why) const {
  if (context_.rank() != 0 && context_.settings.coordination) return;
  if (why.find("LOCKSTEP_CXX") == std::string::npos)
    why += "; install a C++ compiler or name one in LOCKSTEP_CXX";
  context_.log.line("info",
                    "lockstep: no rank has a C++ compiler, so kernels are interpreted: slower, "
                    "by how much is not known, with the same results to rounding (" +
                        why + ")");
}

/// Finds the ranks that see one directory of profiles: one of them stores profiles in it.
Result<void> JobToolchain::find_sharers(CallDriver& driver) {
  auto sharers = profile_sharers(driver, profiles_.get());
  if (!sharers) return sharers.error();
  context_.profile_sharers = *std::move(sharers);
  return {};
}

}  // namespace lockstep::worker
