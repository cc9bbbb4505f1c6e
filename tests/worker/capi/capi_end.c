/* How a group ends that does not end well. usage: capi_end leave|quiet|absent|killed
 *   leave    the last rank leaves and says why
 *   quiet    the last rank closes the group without a word
 *   absent   the last rank does not come to a call
 *   killed   the last rank is killed */
#include "check.h"
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

int main(int argc, char** argv) {
  lockstep_group* group = NULL;
  MPI_Comm comm = MPI_COMM_WORLD;
  const char* how = argc > 1 ? argv[1] : "";
  int last, code, exit_code;
  MPI_Init(&argc, &argv);
  CHECK(!lockstep_group_open(&comm, 2, NULL, &group));
  last = lockstep_group_rank(group) == lockstep_group_size(group) - 1;
  CHECK(!lockstep_settle(group));
  if (last && strcmp(how, "leave") == 0) CHECK(!lockstep_leave(group, "no more batches"));
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
