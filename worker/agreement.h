// The library call: where programs outside find it.
#pragma once

#include <lockstep/worker/agreement/agreement.h>
