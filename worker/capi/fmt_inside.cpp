// All of fmt's compiled functions, for a liblockstep that brings them itself
// (LOCKSTEP_SELF_CONTAINED): distributions have fmt as a shared object only, which needs the C++
// library of its own. Built with -fkeep-inline-functions and unoptimised, so that each is there;
// the linker takes what is used.
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>
