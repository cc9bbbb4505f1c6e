// The library call, at the path that programs outside of lockstep include.
#pragma once

#include <lockstep/worker/agree/agreement/agreement.h>
