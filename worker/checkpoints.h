// A job's checkpoints, at the path that training programs include.
#pragma once

#include <lockstep/worker/job/checkpoints.h>
