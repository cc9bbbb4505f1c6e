/* The agreement from plain C, for a program with a compiler of its own. Before each step the
 * program asks which of its compiled versions all ranks run; if none fits, it compiles a new one
 * for the decision that it gets.
 *
 *   mpirun -n 4 plain_c          exit code 0 if all ranks agreed */
#include <lockstep.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define MOST_VERSIONS 8

struct compiler {
  char versions[MOST_VERSIONS][200];
  int compiled;
};

/* Stands for a compiler: keeps the text of the decision as its program. */
static int compile(void* context, int entry, const lockstep_decision* decision,
                   lockstep_fingerprint* program, lockstep_built* built) {
  struct compiler* compiler = context;
  const char* text = lockstep_decision_text(decision);
  if (entry >= MOST_VERSIONS) {
    lockstep_build_failed(built, LOCKSTEP_ENVIRONMENT, "there is no room for another version");
    return 1;
  }
  snprintf(compiler->versions[entry], sizeof compiler->versions[entry], "%s", text);
  ++compiler->compiled;
  *program = lockstep_fingerprint_of(text, strlen(text));
  return 0;
}

static int report(const char* what) {
  fprintf(stderr, "plain_c: %s: %s\n", what, lockstep_report_text(lockstep_last_error()));
  return lockstep_exit_code(lockstep_report_code(lockstep_last_error()));
}

static int train(lockstep_group* group, lockstep_agreement* agreement,
                 lockstep_observation* inputs) {
  struct compiler compiler = {{{0}}, 0};
  const int rank = lockstep_group_rank(group);
  int call, have = 1;
  /* Rank r has 4 + r batches. A rank without data goes on with empty batches until all are done. */
  for (call = 0; !lockstep_more(group, call < 4 + rank, &have) && have; ++call) {
    int64_t sizes[2];
    int entry, is_new;
    sizes[0] = call < 4 + rank ? 5 + (3 * rank + 2 * call) % 7 : 0;
    sizes[1] = 16;
    if (lockstep_set_sizes(inputs, 0, sizes, NULL)) return report("set_sizes");
    if (lockstep_agree(agreement, "step", inputs, compile, &compiler, &entry, &is_new, NULL))
      return report("agree");
    if (rank == 0)
      printf("call %d: %s version %d: %s\n", call, is_new ? "compiled" : "runs", entry,
             compiler.versions[entry]);
    /* ... here the program runs compiler.versions[entry] on the batch ... */
  }
  if (call != 4 + lockstep_group_size(group) - 1) return report("more");
  /* At most three versions: one with static sizes, one for any rows, and one for empty batches. */
  return compiler.compiled <= 3 ? 0 : 1;
}

int main(int argc, char** argv) {
  MPI_Comm world = MPI_COMM_WORLD;
  lockstep_group* group = NULL;
  lockstep_agreement* agreement = NULL;
  lockstep_observation* inputs = NULL;
  int code = 0;
  MPI_Init(&argc, &argv);
  if (lockstep_group_open(&world, 30, NULL, &group) ||
      lockstep_agreement_create(group, "world", NULL, &agreement) ||
      lockstep_observation_create(&inputs) ||
      lockstep_observe_tensor(inputs, "tokens", LOCKSTEP_I64, 2, NULL))
    code = report("start");
  if (code == 0) code = train(group, agreement, inputs);
  if (code == 0 && lockstep_finish(group)) code = report("finish");
  lockstep_observation_free(inputs);
  lockstep_agreement_free(agreement);
  lockstep_group_close(group);
  MPI_Finalize();
  return code;
}
