// Which calls of an emulated library were made, and which is to fail. Part of each of them.
#pragma once

namespace lockstep::emulated_cuda {

/// Counts the call. True if it is the one that fails. Any thread.
[[nodiscard]] bool told_to_fail(const char* call);

}  // namespace lockstep::emulated_cuda
