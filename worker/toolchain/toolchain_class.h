// For what a rank's objects are made: ranks with the same compiler and target share them. A rank
// that has no compiler takes over the class of one with the same kind of processor, so that it can
// use what others build.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <lockstep/worker/agreement/call_driver.h>
#include <lockstep/worker/codegen/toolchain.h>

namespace lockstep::worker {

/// The kind of processor by the content of /proc/cpuinfo: vendor, model, instruction sets; what
/// changes from core to core or while it runs is left out. Empty where nothing is known.
[[nodiscard]] std::string processor_kind(std::string_view cpuinfo);
/// That of this host.
[[nodiscard]] std::string processor_kind();

/// Collective, once at start: one vote where every rank has a compiler. `mine` is the rank's
/// Toolchain::fingerprint(), or why it has no compiler; `processor` its processor_kind();
/// `needed`: it cannot do without, since one was asked for. nullopt, the same on all ranks: no rank
/// has a compiler, and none needs one. Errors, the same on all ranks: Environment where else a rank
/// has no compiler and no rank with its kind of processor has one.
[[nodiscard]] Result<std::optional<shapes::Fingerprint>> agree_toolchain(
    CallDriver& driver, const RoundKey& key, const Result<shapes::Fingerprint>& mine,
    std::string_view processor, bool needed = true);

}  // namespace lockstep::worker
