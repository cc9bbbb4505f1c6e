// All of fmt's compiled functions, for a liblockstep that contains them (LOCKSTEP_SELF_CONTAINED):
// Linux distributions have fmt only as a shared object, which needs the distribution's C++ library.
// Built unoptimised and with -fkeep-inline-functions, so that every function exists; the linker
// takes those that are used.
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>
