// Philox4x32-10: random bits as a function of a key and a counter (Salmon, Moraes, Dror, Shaw:
// Parallel random numbers: as easy as 1, 2, 3; SC 2011). Without state, so the number of an element
// depends on its place only. Used by keys (language/key.h) and by the interpreter; kernels have
// their own text (codegen/prelude).
#pragma once

#include <array>
#include <cstdint>

namespace lockstep::worker {

/// The four words for a counter and a key, in the order of the paper.
[[nodiscard]] std::array<std::uint32_t, 4> philox_words(std::array<std::uint32_t, 4> counter,
                                                        std::array<std::uint32_t, 2> key);

/// The result of the op: the first two words, the first one low. Each argument is split into its
/// low and high half: the halves of `key` make the key, those of `counter` and `stream` make the
/// counter.
[[nodiscard]] std::int64_t philox(std::int64_t key, std::int64_t counter, std::int64_t stream);

}  // namespace lockstep::worker
