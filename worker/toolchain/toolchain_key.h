// The key of a rank's toolchain: ranks with the same compiler and target share objects. A rank
// without a compiler takes the key of a rank with the same kind of processor, so that it can use
// the objects of other ranks.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <lockstep/worker/agreement/round_key.h>
#include <lockstep/worker/codegen/toolchain.h>

namespace lockstep::worker {

class CallDriver;

/// The kind of processor by the content of /proc/cpuinfo: vendor, model, instruction sets; what
/// changes from core to core or while it runs is left out. Empty where nothing is known.
[[nodiscard]] std::string processor_kind(std::string_view cpuinfo);
/// The kind of processor of this host.
[[nodiscard]] std::string processor_kind();

/// The key of this rank. Collective, once at start: one vote where every rank has a compiler.
/// `mine` is the rank's Toolchain::fingerprint(), or why it has no compiler; `processor` its
/// processor_kind(); `needed`: the user asked for a compiler. nullopt, the same on all ranks: no
/// rank has a compiler, and no rank needs one. Errors, the same on all ranks: Environment where
/// otherwise a rank has no compiler and no rank with its kind of processor has one.
[[nodiscard]] Result<std::optional<shapes::Fingerprint>> agree_toolchain(
    CallDriver& driver, const RoundKey& key, const Result<shapes::Fingerprint>& mine,
    std::string_view processor, bool needed = true);

}  // namespace lockstep::worker
