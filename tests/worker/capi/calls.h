/* What the C tests call with: a group, one set of inputs, and builds that can fail. */
#ifndef LOCKSTEP_TESTS_CALLS_H
#define LOCKSTEP_TESTS_CALLS_H

#include "check.h"

static int rank, size;
static lockstep_group* group;

static inline int last(void) { return rank == size - 1; }

/* What builds have been asked for, and how the last rank is to fail. */
struct builds {
  int count;
  int last_entry;
  int fail_code; /* of the build on the last rank; 0: none fails */
  char text[200];
  char json[300];
};

static inline int build(void* context, int entry, const lockstep_decision* decision,
                        lockstep_fingerprint* program, lockstep_built* built) {
  struct builds* builds = context;
  const char* text = lockstep_decision_text(decision);
  ++builds->count;
  builds->last_entry = entry;
  snprintf(builds->text, sizeof builds->text, "%s", text);
  snprintf(builds->json, sizeof builds->json, "%s", lockstep_decision_json(decision));
  if (builds->fail_code != 0 && last()) {
    if (builds->fail_code > 0) lockstep_build_failed(built, builds->fail_code, "out of registers");
    return 7;
  }
  *program = lockstep_fingerprint_of(
      text, strstr(text, "hint") ? (size_t)(strstr(text, "hint") - text) : strlen(text));
  return 0;
}

/* tokens: i64[rows, 16], training, lr, n */
static inline lockstep_observation* make_observation(void) {
  lockstep_observation* seen = NULL;
  size_t source = 99;
  CHECK(lockstep_observation_create(&seen) == LOCKSTEP_OK);
  CHECK(lockstep_observe_tensor(seen, "tokens", LOCKSTEP_I64, 2, &source) == LOCKSTEP_OK);
  CHECK(source == 0);
  CHECK(lockstep_observe_bool(seen, "training", &source) == LOCKSTEP_OK);
  CHECK(lockstep_observe_float(seen, "lr", &source) == LOCKSTEP_OK);
  CHECK(lockstep_observe_int(seen, "n", &source) == LOCKSTEP_OK);
  CHECK(source == 3);
  return seen;
}

static inline void set(lockstep_observation* seen, int64_t rows, int training, int64_t n) {
  int64_t sizes[2];
  sizes[0] = rows;
  sizes[1] = 16;
  CHECK(lockstep_set_sizes(seen, 0, sizes, NULL) == LOCKSTEP_OK);
  CHECK(lockstep_set_bool(seen, 1, training) == LOCKSTEP_OK);
  CHECK(lockstep_set_int(seen, 3, n) == LOCKSTEP_OK);
}

#ifdef HAVE_MPI
#include <mpi.h>
#endif

/* Joins the group of all ranks; leaves MPI to the caller. */
static inline void open_group(int argc, char** argv) {
#ifdef HAVE_MPI
  MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Init(&argc, &argv);
  CHECK_FAILS(lockstep_group_open(&comm, -1, NULL, &group), LOCKSTEP_BAD_INPUT,
              "deadline_seconds is -1");
  CHECK(!lockstep_group_open(&comm, 30, NULL, &group));
#else
  (void)argc, (void)argv;
  CHECK_FAILS(lockstep_group_open(&group, 30, NULL, &group), LOCKSTEP_ENVIRONMENT, "no MPI");
  CHECK(!lockstep_group_open(NULL, 30, NULL, &group));
#endif
  rank = lockstep_group_rank(group);
  size = lockstep_group_size(group);
}

/* The same calls in a group of this process alone. */
static inline void alone(void (*calls)(void)) {
  lockstep_group* world = group;
  const int world_rank = rank, world_size = size;
  CHECK(!lockstep_group_alone(&group));
  rank = lockstep_group_rank(group), size = lockstep_group_size(group);
  CHECK(rank == 0 && size == 1);
  calls();
  CHECK(!lockstep_finish(group));
  lockstep_group_close(group);
  group = world, rank = world_rank, size = world_size;
}

static inline void say_well(const char* test) {
  if (rank == 0) printf("%s: all well on %d ranks\n", test, size);
#ifdef HAVE_MPI
  MPI_Finalize();
#endif
}

#endif
