// The library call, at the address for programs outside of lockstep.
#pragma once

#include <lockstep/worker/agreement/agreement.h>
