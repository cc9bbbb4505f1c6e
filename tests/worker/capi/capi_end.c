/* How a group ends that does not end well. usage: capi_end HOW
 *   leave    the last rank leaves and says why
 *   quiet    the last rank closes the group without a word
 *   absent   the last rank does not come to a call
 *   killed   the last rank is killed
 *   broken   the last rank breaks its prefetch while the others run the call as promised
 *   away     the last rank leaves instead of making the call that all have prefetched
 *   words    the last rank does not bring its words within their deadline
 *   others   the last rank brings other words than those that it has cast ahead */
#include "check.h"
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

static int build(void* context, int entry, const lockstep_decision* decision,
                 lockstep_fingerprint* program, lockstep_built* built) {
  (void)context, (void)entry, (void)decision, (void)program, (void)built;
  return 0;
}

/* The others do not come back: they are in a collective of their own with the last rank. */
static void prefetch(lockstep_group* group, const char* how, int last) {
  lockstep_agreement* agreement = NULL;
  lockstep_observation* seen = NULL;
  const int64_t rows = 3, others = 4;
  int entry = -1, promised = 0, code;
  CHECK(!lockstep_agreement_create(group, "world", NULL, &agreement));
  CHECK(!lockstep_observation_create(&seen));
  CHECK(!lockstep_observe_tensor(seen, "x", LOCKSTEP_F32, 1, NULL));
  CHECK(!lockstep_set_all(seen, &rows, 1));
  CHECK(!lockstep_agree(agreement, "step", seen, build, NULL, &entry, NULL, NULL));
  CHECK(!lockstep_prefetch(agreement, "step", seen));
  while (promised < 1000) promised += !lockstep_poke(group);
  if (last && strcmp(how, "away") == 0) CHECK(!lockstep_leave(group, "no more batches"));
  if (last) CHECK(!lockstep_set_all(seen, &others, 1));
  code = lockstep_agree(agreement, "step", seen, build, NULL, &entry, NULL, NULL);
  if (code) {
    fprintf(stderr, "%s\n", lockstep_report_text(lockstep_last_error()));
    lockstep_group_close(group);
    exit(lockstep_exit_code(code));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static void words(lockstep_group* group, const char* how, int last) {
  const int32_t op = LOCKSTEP_OP_MAX;
  int64_t word = 3;
  int code;
  const int other = strcmp(how, "others") == 0;
  if (other) CHECK(!lockstep_agree_words_ahead(group, "batch", &word, 1, &op, "serve.c:41"));
  if (last && !other) sleep(60);
  if (last) word = 4;
  code = lockstep_agree_words(group, "batch", &word, 1, &op, 2, "serve.c:41", NULL);
  if (code) fprintf(stderr, "%s\n", lockstep_report_text(lockstep_last_error()));
  if (code) exit(lockstep_exit_code(code));
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  lockstep_group* group = NULL;
  MPI_Comm comm = MPI_COMM_WORLD;
  const char* how = argc > 1 ? argv[1] : "";
  int last, code, exit_code;
  MPI_Init(&argc, &argv);
  CHECK(!lockstep_group_open(&comm, strcmp(how, "absent") ? 30 : 6, NULL, &group));
  last = lockstep_group_rank(group) == lockstep_group_size(group) - 1;
  CHECK(!lockstep_settle(group));
  if (strcmp(how, "broken") == 0 || strcmp(how, "away") == 0) prefetch(group, how, last);
  if (strcmp(how, "words") == 0 || strcmp(how, "others") == 0) words(group, how, last);
  if (last && strcmp(how, "leave") == 0) CHECK(!lockstep_leave(group, "no more batches"));
  if (last && strcmp(how, "done") == 0) CHECK(!lockstep_done(group));
  if (last && strcmp(how, "absent") == 0) sleep(60);
  if (last && strcmp(how, "killed") == 0) raise(SIGKILL);
  if (last) {
    lockstep_group_close(group);
    MPI_Finalize();
    return 0;
  }
  code = lockstep_settle(group);
  exit_code = lockstep_exit_code(code);
  fprintf(stderr, "%s\n", lockstep_report_text(lockstep_last_error()));
  lockstep_group_close(group);
  MPI_Finalize();
  return exit_code;
}
