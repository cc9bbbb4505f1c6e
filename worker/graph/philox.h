// Philox4x32-10: random bits as a function of a key and a counter (Salmon, Moraes, Dror, Shaw:
// Parallel random numbers: as easy as 1, 2, 3; SC 2011). Without state, so the number of an element
// depends on nothing but its place. Used by keys (trace/key.h) and by the interpreter; kernels have
// their own text for it (codegen/prelude).
#pragma once

#include <array>
#include <cstdint>

namespace lockstep::worker {

/// The four words that a counter and a key give, in the order of the paper.
[[nodiscard]] std::array<std::uint32_t, 4> philox_words(std::array<std::uint32_t, 4> counter,
                                                        std::array<std::uint32_t, 2> key);

/// What the op gives: the first two words, the first one low. Every number is given as its low and
/// its high half: the key's are the key, the counter's and the stream's the counter.
[[nodiscard]] std::int64_t philox(std::int64_t key, std::int64_t counter, std::int64_t stream);

}  // namespace lockstep::worker
