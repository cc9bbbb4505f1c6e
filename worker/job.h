// The job, at the path that training programs include.
#pragma once

#include <lockstep/worker/job/job.h>
