// All of fmt's compiled functions, for a liblockstep that contains them (LOCKSTEP_SELF_CONTAINED):
// distributions have fmt only as a shared object, which needs their own C++ library. Built with
// -fkeep-inline-functions and unoptimised, so that every function exists; the linker takes what is
// used.
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>
