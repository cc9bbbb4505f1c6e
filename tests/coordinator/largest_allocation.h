// operator new and delete of a program that asks how much was wanted at once. Replaces them in any
// program that links largest_allocation.cpp.
#pragma once

#include <cstddef>

namespace lockstep::coordinator {

/// The largest request since start_counting(); those of 512 MiB or more get std::bad_alloc.
[[nodiscard]] std::size_t largest_allocation();
void start_counting();

}  // namespace lockstep::coordinator
