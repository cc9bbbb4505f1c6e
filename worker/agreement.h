// The library call, at the path that programs outside of lockstep include.
#pragma once

#include <lockstep/worker/agreement/agreement.h>
