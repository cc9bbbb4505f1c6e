/* The installed C library: one rank that agrees with itself. */
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

static int build(void* context, int entry, const lockstep_decision* decision,
                 lockstep_fingerprint* program, lockstep_built* built) {
  const char* text = lockstep_decision_text(decision);
  (void)entry, (void)built;
  ++*(int*)context;
  *program = lockstep_fingerprint_of(text, strlen(text));
  return 0;
}

int main(void) {
  lockstep_group* group = NULL;
  lockstep_agreement* agreement = NULL;
  lockstep_observation* seen = NULL;
  int built = 0, entry = -1, failed = 0;
  int64_t rows;
  if (lockstep_abi() != LOCKSTEP_ABI) return 6;
  failed |= lockstep_group_alone(&group);
  failed |= lockstep_agreement_create(group, "world", NULL, &agreement);
  failed |= lockstep_observation_create(&seen);
  failed |= lockstep_observe_tensor(seen, "x", LOCKSTEP_F32, 1, NULL);
  for (rows = 4; rows < 7; ++rows) {
    failed |= lockstep_set_sizes(seen, 0, &rows, NULL);
    failed |= lockstep_agree(agreement, "step", seen, build, &built, &entry, NULL, NULL);
  }
  failed |= lockstep_finish(group);
  if (failed) printf("%s\n", lockstep_report_text(lockstep_last_error()));
  lockstep_observation_free(seen);
  lockstep_agreement_free(agreement);
  lockstep_group_close(group);
  return failed == 0 && built == 2 && entry == 1 ? 0 : 1;
}
