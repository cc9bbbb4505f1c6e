// The key of a rank's toolchain: ranks with the same compiler and target share objects. A rank
// without a compiler takes the key of a rank with the same kind of processor, so that it can use
// that rank's objects.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <lockstep/worker/agree/agreement/round_key.h>
#include <lockstep/worker/compile/codegen/toolchain.h>

namespace lockstep::worker {

class CallDriver;

/// Returns the kind of processor from the content of /proc/cpuinfo: vendor, model, instruction
/// sets, without values that differ between cores or change with time. Empty if unknown.
[[nodiscard]] std::string processor_kind(std::string_view cpuinfo);
/// Returns the kind of processor of this host.
[[nodiscard]] std::string processor_kind();

/// Returns the key of this rank. Collective, once at start: one vote if every rank has a compiler.
/// `mine` is the rank's Toolchain::fingerprint(), or why it has no compiler; `processor` its
/// processor_kind(); `needed`: the user asked for a compiler. nullopt, on all ranks: no rank has a
/// compiler, and no rank needs one. Otherwise, if a rank has no compiler and no rank with its kind
/// of processor has one, all ranks return the same error (Environment).
[[nodiscard]] Result<std::optional<shapes::Fingerprint>> agree_toolchain(
    CallDriver& driver, const RoundKey& key, const Result<shapes::Fingerprint>& mine,
    std::string_view processor, bool needed = true);

}  // namespace lockstep::worker
