// operator new and delete of a program whose memory lies elsewhere on every run. Replaces them in
// whatever links it.
#pragma once

#include <cstdint>

/// From here on sizes grow by random amounts, and blocks of random age are kept aside: neither the
/// order of addresses nor their distances come back. 0: as usual. For the thread that calls.
void shuffle_allocations(std::uint64_t seed);
